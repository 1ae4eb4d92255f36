"""Models on the Poincaré ball."""

from horoball.models.graph.edges import FermiDiracEdges, TanhEdges
from horoball.models.graph.encoder import FreeEncoder, GraphEncoder
from horoball.models.graph.vae import GraphConfig, GraphVAE
from horoball.models.prior import Prior
from horoball.models.table.conditioning import Conditioning
from horoball.models.table.decoder import Decoder
from horoball.models.table.encoder import Encoder
from horoball.models.table.vae import VAE, ModelConfig

__all__ = [
    "VAE",
    "Conditioning",
    "Decoder",
    "Encoder",
    "FermiDiracEdges",
    "FreeEncoder",
    "GraphConfig",
    "GraphEncoder",
    "GraphVAE",
    "ModelConfig",
    "Prior",
    "TanhEdges",
]
