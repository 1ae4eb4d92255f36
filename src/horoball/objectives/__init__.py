"""Objectives: evidence lower bound, importance-weighted bound, log-likelihood, distance term, neighbor term."""

from horoball.objectives.bounds import Elbo, LatentModel, elbo, iwae, log_likelihood
from horoball.objectives.distances import DistanceTerm
from horoball.objectives.neighbors import NeighborTerm

__all__ = ["DistanceTerm", "Elbo", "LatentModel", "NeighborTerm", "elbo", "iwae", "log_likelihood"]
