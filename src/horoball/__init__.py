"""Hierarchical representations: variational auto-encoders on the Poincaré ball."""
