"""Objectives: evidence lower bound, importance-weighted bound, log-likelihood, and the terms of maps."""

from horoball.objectives.bounds import Elbo, LatentModel, elbo, iwae, log_likelihood
from horoball.objectives.distances import DistanceTerm
from horoball.objectives.neighbors import NeighborTerm
from horoball.objectives.places import PlaceTerm

__all__ = ["DistanceTerm", "Elbo", "LatentModel", "NeighborTerm", "PlaceTerm", "elbo", "iwae", "log_likelihood"]
