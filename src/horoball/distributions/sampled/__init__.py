"""Points and divergences of training in one function on a CPU."""

from horoball.distributions.sampled.divergence import is_suited, sampled_divergence
from horoball.distributions.sampled.noise import RiemannianNoise, WrappedNoise

__all__ = ["RiemannianNoise", "WrappedNoise", "is_suited", "sampled_divergence"]
