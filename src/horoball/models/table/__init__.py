"""The VAE of a table: encoder, decoder, conditioning on covariates."""

__all__: list[str] = []
