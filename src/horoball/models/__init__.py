"""Models on the Poincaré ball."""

from horoball.models.decoder import Decoder
from horoball.models.edges import FermiDiracEdges, TanhEdges
from horoball.models.encoder import Encoder
from horoball.models.given import Given
from horoball.models.graph_encoder import FreeEncoder, GraphEncoder
from horoball.models.graph_vae import GraphConfig, GraphVAE
from horoball.models.vae import VAE, ModelConfig, Prior

__all__ = [
    "VAE",
    "Decoder",
    "Encoder",
    "FermiDiracEdges",
    "FreeEncoder",
    "Given",
    "GraphConfig",
    "GraphEncoder",
    "GraphVAE",
    "ModelConfig",
    "Prior",
    "TanhEdges",
]
