"""Models on the Poincaré ball."""

from horoball.models.decoder import Decoder
from horoball.models.encoder import Encoder
from horoball.models.vae import VAE, ModelConfig, Prior

__all__ = ["VAE", "Decoder", "Encoder", "ModelConfig", "Prior"]
