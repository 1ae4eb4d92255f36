"""The VAE of a graph: free or convolutional encoder, edge decoders, sums over pairs."""

__all__: list[str] = []
