"""Normals of a product of spaces: independent normals of its factors, each with a scale of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor
from torch.distributions import kl_divergence, register_kl

from horoball.distributions.normal import BallNormal
from horoball.geometry.kernels import broadcast_shapes
from horoball.geometry.manifold import Manifold
from horoball.geometry.product import ProductSpace


class ProductNormal(BallNormal):
    """N(z) = Π N_i(z_i), with normals of the factors: density, entropy and divergence are theirs, added up.

    Args:
        normals: One for each factor, on its ball, with batch shapes that broadcast.
        space: The product.

    Example:
        >>> from horoball import WrappedNormal
        >>> space = ProductSpace("H2xE1")
        >>> parts = [WrappedNormal(torch.zeros(k), torch.ones(1), f) for k, f in zip(space.dims, space.factors)]
        >>> q = ProductNormal(parts, space)
        >>> torch.allclose(q.entropy(), sum(part.entropy() for part in parts)), q.sample((4,)).shape
        (True, torch.Size([4, 3]))
    """

    name = "product"
    arg_constraints: dict[str, Any] = {}  # noqa: RUF012  the factors have checked theirs

    def __init__(self, normals: Sequence[BallNormal], space: ProductSpace) -> None:
        if len(normals) != len(space.dims):
            raise ValueError(f"{space.signature} has {len(space.dims)} factors, got {len(normals)} normals.")
        shape = broadcast_shapes(*(normal.batch_shape for normal in normals))
        self.normals = [normal if normal.batch_shape == shape else normal.expand(shape) for normal in normals]
        loc, whole = torch.cat([normal.loc for normal in self.normals], -1), cast(Any, space)
        self.space = space
        super().__init__(loc, whole, shape, False)

    @property
    def centered(self) -> bool:
        """Whether the location is known to be the origin."""
        return all(normal.centered for normal in self.normals)

    @centered.setter
    def centered(self, value: bool) -> None:
        for normal in self.normals:
            normal.centered = value

    @property
    def mean_scale(self) -> Tensor:
        """The root mean square of the factors' scales."""
        scales = torch.stack([normal.mean_scale for normal in self.normals], -1)
        return scales.square().mean(-1).sqrt()

    @classmethod
    def isotropic(cls, loc: Tensor, scale: Tensor, ball: Any) -> ProductNormal:
        """Not known without a family for the factors; see `ProductFamily`."""
        raise NotImplementedError(
            "ProductFamily(family, space).isotropic says of which family the factors' normals are."
        )

    def _draw(self, shape: torch.Size, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        sizes = [torch.Size((*shape[:-1], size)) for size in self.space.dims]
        drawn = [normal._draw(size, generator) for normal, size in zip(self.normals, sizes, strict=True)]
        return torch.cat([v for v, _ in drawn], -1), torch.stack([log_q for _, log_q in drawn]).sum(0)

    def _log_density(self, v: Tensor) -> Tensor:
        parts = zip(self.normals, self.space.split(v), strict=True)
        return torch.stack([normal._log_density(part) for normal, part in parts]).sum(0)

    def rsample_and_divergence(
        self,
        prior: Any,
        sample_shape: Any = torch.Size(),  # noqa: B008
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points and log q(z) − log p(z) there."""
        if not isinstance(prior, ProductNormal):
            return super().rsample_and_divergence(prior, sample_shape, generator)
        pairs = zip(self.normals, prior.normals, strict=True)
        drawn = [q.rsample_and_divergence(p, sample_shape, generator) for q, p in pairs]
        return torch.cat([z for z, _ in drawn], -1), torch.stack([gap for _, gap in drawn]).sum(0)

    def entropy(self) -> Tensor:
        """The sum of the factors' entropies.

        Example:
            >>> from horoball import WrappedNormal
            >>> space = ProductSpace("H2xE1")
            >>> family = ProductFamily(WrappedNormal, space)
            >>> family.isotropic(torch.zeros(3), torch.ones(1), ProductSpace("E1xE2")).entropy()  # 3/2 (1 + log 2π)
            tensor(4.2568)
        """
        return torch.stack([normal.entropy() for normal in self.normals]).sum(0)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same distributions over a larger batch shape."""
        return type(self)([normal.expand(torch.Size(batch_shape)) for normal in self.normals], self.space)

    def _with_parameters(self, change: Callable[[Tensor], Tensor], ball: Any) -> Self:
        factors = zip(self.normals, ball.factors, strict=True)
        return type(self)([normal._with_parameters(change, factor) for normal, factor in factors], ball)


class ProductFamily:
    """A posterior family on a product: what a network emits for it, and how it is made.

    A network emits the locations of all factors, then the numbers of their scales, factor by factor.

    Example:
        >>> from horoball import WrappedNormal
        >>> family = ProductFamily(WrappedNormal, ProductSpace("H2xE3"))
        >>> family.network_size(5, "diagonal"), family.network_size(5)
        (10, 7)
    """

    def __init__(self, family: type[BallNormal], space: ProductSpace) -> None:
        self.of, self.space, self.name, self.scales = family, space, family.name, family.scales

    def network_size(self, d: int, scale: str = "isotropic") -> int:
        """How many numbers a network emits.

        Example:
            >>> from horoball import WrappedNormal
            >>> ProductFamily(WrappedNormal, ProductSpace("H2xE1")).network_size(3)
            5
        """
        return sum(self.of.network_size(size, scale) for size in self.space.dims)

    def from_network(self, outputs: Tensor, d: int, ball: ProductSpace, scale: str = "isotropic") -> ProductNormal:
        """The posterior that a network's outputs stand for.

        Example:
            >>> from horoball import WrappedNormal
            >>> space = ProductSpace("H2xE1")
            >>> family = ProductFamily(WrappedNormal, space)
            >>> family.from_network(torch.zeros(4, 5), 3, space).loc.shape
            torch.Size([4, 3])
        """
        sizes = [self.of.network_size(size, scale) - size for size in self.space.dims]
        loc, raw = outputs.split((d, sum(sizes)), -1)
        parts = zip(ball.split(loc), raw.split(sizes, -1), ball.dims, ball.balls, strict=True)
        made = [self.of.from_network(torch.cat((at, one), -1), size, each, scale) for at, one, size, each in parts]
        return ProductNormal(made, ball)

    def isotropic(self, loc: Tensor, scale: Tensor, ball: ProductSpace) -> ProductNormal:
        """The normal with one scale for all directions of all factors.

        Example:
            >>> from horoball import WrappedNormal
            >>> space = ProductSpace("H2xE1")
            >>> family = ProductFamily(WrappedNormal, space)
            >>> family.isotropic(torch.zeros(3), torch.ones(1), space).log_prob(torch.zeros(3))  # −log(2π)·3/2
            tensor(-2.7568)
        """
        parts = zip(ball.split(loc), ball.balls, strict=True)
        return ProductNormal([self.of.isotropic(at, scale, factor) for at, factor in parts], ball)


def family_on(family: type[BallNormal], space: Manifold) -> Any:
    """A posterior family on a space: itself, or, on a product, that of the factors.

    Example:
        >>> from horoball import PoincareBall, WrappedNormal
        >>> family_on(WrappedNormal, PoincareBall(1.0)).__name__
        'WrappedNormal'
    """
    return ProductFamily(family, space) if isinstance(space, ProductSpace) else family


@register_kl(ProductNormal, ProductNormal)
def _kl_products(q: ProductNormal, p: ProductNormal) -> Tensor:
    if q.space.signature != p.space.signature:
        raise ValueError(f"Two normals of one space are expected, got {q.space.signature} and {p.space.signature}.")
    return torch.stack([kl_divergence(a, b) for a, b in zip(q.normals, p.normals, strict=True)]).sum(0)
