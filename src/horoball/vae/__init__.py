"""The variational auto-encoder of tables: model, objective, map, training, and the estimator PoincareVAE."""

from typing import TYPE_CHECKING, Any

from horoball.vae import priors as _priors  # noqa: F401  which register themselves
from horoball.vae.distances import DistanceTerm, NeighborTerm, PlaceTerm
from horoball.vae.encoder import Conditioning, Encoder, Prior
from horoball.vae.model import VAE, Decoder, ModelConfig
from horoball.vae.train import fit

if TYPE_CHECKING:
    from horoball.vae.estimator import PoincareVAE
    from horoball.vae.onnx import OUTPUTS, export

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


def __getattr__(name: str) -> Any:
    """Import the estimator and the export when they are asked for: not all need what they import."""
    if name not in ("OUTPUTS", "PoincareVAE", "export"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "PoincareVAE":
        from horoball.vae.estimator import PoincareVAE

        return PoincareVAE
    from horoball.vae import onnx

    return getattr(onnx, name)
