"""The first layer on a product of spaces: gyroplanes of each factor, added up."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from horoball.geometry.ball import PoincareBall
from horoball.geometry.product import ProductSpace
from horoball.nn.gyroplane import Gyroplane


class ProductGyroplane(nn.Module):
    """f_k(z) = Σ_i f_ki(z_i), with a gyroplane layer for each factor; on Euclidean factors alone it is linear.

    Args:
        space: The product.
        out_features: Size of the output.
        generator: Where the initial weights come from; torch's global generator if not given.
        device: Where the weights are.
        dtype: Their dtype.

    Example:
        >>> ProductGyroplane(ProductSpace("H2xE1"), 5)(torch.zeros(4, 3)).shape
        torch.Size([4, 5])
    """

    def __init__(
        self,
        space: ProductSpace,
        out_features: int,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.space = space
        self.layers = nn.ModuleList(
            Gyroplane(size, out_features, ball, generator=generator, device=device, dtype=dtype)
            for size, ball in zip(space.dims, space.balls, strict=True)
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights of all factors anew.

        Example:
            >>> layer = ProductGyroplane(ProductSpace("H2xE1"), 5, dtype=torch.float64)
            >>> layer.reset_parameters(torch.Generator().manual_seed(0))
            >>> layer(torch.zeros(3, dtype=torch.float64)).dtype
            torch.float64
        """
        for layer in self.layers:
            layer.reset_parameters(generator)  # type: ignore[operator]

    def forward(self, z: Tensor) -> Tensor:
        """Sums of signed distances, shape (*batch, out_features)."""
        parts = zip(self.layers, self.space.split(z), strict=True)
        return torch.stack([layer(part) for layer, part in parts]).sum(0)


def first_layer(d: int, out_features: int, space: object, *, generator: torch.Generator | None = None) -> nn.Module:
    """The layer that a network on points of a space begins with: gyroplanes of a ball, or of the factors of a product.

    Example:
        >>> first_layer(2, 5, PoincareBall(1.0))
        Gyroplane(
          in_features=2, out_features=5, bias=True
          (ball): PoincareBall(c=1)
        )
    """
    if isinstance(space, ProductSpace):
        return ProductGyroplane(space, out_features, generator=generator)
    if not isinstance(space, PoincareBall):
        raise ValueError(
            f"Gyroplanes are known on PoincareBall and products of balls, not on {type(space).__name__}. Use the "
            'decoder "log0", or one of your own.'
        )
    return Gyroplane(d, out_features, space, generator=generator)
