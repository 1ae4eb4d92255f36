"""The variational auto-encoder of tables: model, objective, map, training, and the estimator PoincareVAE."""

from horoball.vae.distances import DistanceTerm, NeighborTerm, PlaceTerm
from horoball.vae.encoder import Conditioning, Encoder, Prior
from horoball.vae.estimator import PoincareVAE
from horoball.vae.model import VAE, Decoder, ModelConfig
from horoball.vae.onnx import OUTPUTS, export
from horoball.vae.train import fit

__all__ = [
    "OUTPUTS",
    "VAE",
    "Conditioning",
    "Decoder",
    "DistanceTerm",
    "Encoder",
    "ModelConfig",
    "NeighborTerm",
    "PlaceTerm",
    "PoincareVAE",
    "Prior",
    "export",
    "fit",
]
