"""Terms of a map: the distances, neighbors and places that an embedding is asked to keep.

Their distances are squared chords, cheaper than distances and all that a kernel needs. The squared chord of two points
at distance d is s = 4 sinh²(√c d/2)/c, which is d² for c = 0. Between all points of two sets it is one product of
matrices in the coordinates of the hyperboloid, as cosh(√c d) = 1 + c s/2.

The gradients that a layout needs of the means of `DistanceTerm` and `NeighborTerm` are in `horoball.vae.descent`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from horoball.geometry.autograd import known
from horoball.geometry.ball import PoincareBall
from horoball.geometry.curvature import root
from horoball.geometry.kernels import asinh, looks_ahead, may_hold, wide

_TINY = 1e-30  # floor of a squared chord: the distance of a point to itself has no gradient
_CENTER = 1e-12  # floor of a radius: the origin has a gradient too


class ChordPoints:
    """Points with what their chords are made of, computed once: directions ẑ, and √c r, sinh √c r and cosh √c r."""

    def __init__(self, ball: PoincareBall, z: Tensor) -> None:
        self.ball, self.z = ball, z
        if not ball.is_euclidean:
            radius = z.square().sum(-1).clamp_min(_CENTER**2).sqrt()
            self.unit, self.angle = z / radius.unsqueeze(-1), radius * root(ball.c)
            self.sinh, self.cosh = torch.sinh(self.angle), torch.cosh(self.angle)

    def take(self, index: Tensor) -> ChordPoints:
        """Some of the points, by their numbers."""
        some = object.__new__(ChordPoints)
        some.ball = self.ball
        for name, values in vars(self).items():
            if name != "ball":
                setattr(some, name, values.index_select(0, index))
        return some

    def between(self, others: ChordPoints) -> Tensor:
        """Squared chords to all of some other points, shape (n, m).

        They cancel where both points are far out and close to each other: in float32 at distance 4 from the origin, to
        0.02 of a distance. Landmarks are chosen at random, so hardly any pair is.
        """
        if self.ball.is_euclidean:
            mine, theirs = self.z.square().sum(-1), others.z.square().sum(-1)
            return (mine.unsqueeze(-1) + theirs - 2 * self.z @ others.z.mT).clamp_min(_TINY)
        u, w = self.unit * self.sinh.unsqueeze(-1), others.unit * others.sinh.unsqueeze(-1)
        return ((self.cosh.unsqueeze(-1) * others.cosh - u @ w.mT - 1) * (2 / self.ball.c)).clamp_min(_TINY)

    def paired(self, others: ChordPoints) -> Tensor:
        """Squared chords to as many other points, one each, to full precision for near pairs, shape (n,).

        By the law of cosines, cosh √c d − 1 is 2 sinh²(√c (r − r')/2) + sinh √c r sinh √c r' |ẑ − ẑ'|²/2.
        """
        if self.ball.is_euclidean:
            return (self.z - others.z).square().sum(-1)
        along = 4 * torch.sinh((self.angle - others.angle) / 2).square()
        across = self.sinh * others.sinh * (self.unit - others.unit).square().sum(-1)
        return (along + across) / self.ball.c

    def slope(self, others: ChordPoints) -> Tensor:
        """The gradients of `paired` in these points, shape (n, d), for a curvature that is not learned.

        That of |ẑ − ẑ'|²/2 = 1 − ẑ·ẑ' is (ẑ·ẑ') ẑ − ẑ' over r, which is ẑ − ẑ' less its part along ẑ.
        """
        if self.ball.is_euclidean:
            return 2 * (self.z - others.z)
        s, turn = root(self.ball.c), self.unit - others.unit
        apart = turn.square().sum(-1)
        out = (2 * torch.sinh(self.angle - others.angle) + self.cosh * others.sinh * apart) / s
        across = self.sinh * others.sinh / self.angle * (2 / s)
        return torch.addcmul((out - across * apart / 2).unsqueeze(-1) * self.unit, across.unsqueeze(-1), turn)


def chord_distance(ball: PoincareBall, square: Tensor) -> Tensor:
    """The distance of points whose squared chord is given."""
    if ball.is_euclidean:
        return square.sqrt()
    curved = root(ball.c)
    return asinh(square.sqrt() * (curved / 2)) * (2 / curved)


class PlaceTerm(nn.Module):
    """How far the posterior location μ_i of a row is from its place t_i in a layout: the distance d(μ_i, t_i).

    The distance is not squared: a row that the encoder cannot put where it belongs pulls no harder than one that is a
    little off, and what is learned of a region is its median.

    Example:
        >>> import torch
        >>> PlaceTerm()(PoincareBall(1.0), torch.tensor([[3.0, 0.0]]), torch.tensor([[-2.0, 0.0]]))
        tensor([5.])
    """

    def forward(self, ball: PoincareBall, loc: Tensor, places: Tensor) -> Tensor:
        """The term of each row, shape (rows,).

        Args:
            ball: The ball.
            loc: Posterior locations, shape (rows, d).
            places: Where the layout has the rows, shape (rows, d).
        """
        # In training on a CPU the formula for points that are not far out, in a third of the operations.
        if ball.is_euclidean or ball.learnable or not looks_ahead(loc) or not _is_near(ball, loc, places):
            distance: Tensor = ball.dist(loc, places)
            return distance
        return known(lambda wanted: _to_places(ball, wide(loc), wide(places)), loc).squeeze(-1).to(loc.dtype)


_REACH = 300.0  # √c·|coordinate| up to which the product of two sinh does not overflow in float64


def _is_near(ball: PoincareBall, loc: Tensor, places: Tensor) -> bool:
    farthest = max(float(x.detach().abs().max()) for x in (loc, places)) if loc.numel() else 0.0
    return farthest * (ball.c_value * loc.shape[-1]) ** 0.5 < _REACH


def _to_places(ball: PoincareBall, loc: Tensor, places: Tensor) -> tuple[Tensor, tuple[Tensor]]:
    """Distances, shape (rows, 1), and their gradients, by ∂d/∂s = 1/(2 √s √(1 + c s/4))."""
    points, others = ChordPoints(ball, loc), ChordPoints(ball, places)
    square = points.paired(others).clamp_min(_TINY).unsqueeze(-1)
    rate = (square * (1 + square * (ball.c_value / 4))).rsqrt() / 2
    return chord_distance(ball, square), (rate * points.slope(others),)


class NeighborTerm(nn.Module):
    """How hard it is to tell a row's neighbor from rows drawn at random, by distances in the map (InfoNC-t-SNE).

    With a neighbor j of row i in the data, and landmarks l, which stand for all rows, it is

        −log k(i, j) / (k(i, j) + m mean_l k(i, l)),    k = 1 / (1 + s/τ²),    s = 4 sinh²(√c d/2)/c.

    The kernel's tail falls as the area of a hyperbolic circle grows, exp(−√c d), as t-SNE's 1/(1 + d²) falls in the
    plane, which it is for c = 0. The scale τ > 0 is learned, so the size of the map does not matter.

    Args:
        crowd: m, rows that are told apart from the neighbor; more make finer groups.

    Example:
        >>> term = NeighborTerm()
        >>> near, far = torch.tensor([0.1]), torch.tensor([[9.0, 16.0]])
        >>> bool(term(near, far) < term(near + 4, far))
        True
    """

    def __init__(self, crowd: float = 10.0) -> None:
        super().__init__()
        self.crowd = crowd
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, near: Tensor, far: Tensor) -> Tensor:
        """The term of each row, shape (rows,).

        Args:
            near: Squared chords s from rows to one neighbor each, shape (rows,); see `horoball.vae.distances`.
            far: The same from rows to landmarks, shape (rows, landmarks).
        """
        narrow = (-2 * self.log_scale).exp()
        wanted = 1 + near * narrow
        others = (1 + far * narrow).reciprocal().mean(-1)
        return torch.log1p(self.crowd * others * wanted)


_MANY_AT_ONCE = 4  # times as many rows of a step are compared, at most: they are there already
NEAR = 0.01  # added to g², in units of the median: pairs closer than a tenth of it weigh alike


class DistanceTerm(nn.Module):
    """How far the distances of a map are from the data's own.

    For row i with posterior location μ_i it is the mean over landmarks l of

        (d(μ_i, μ_l)/s − g_il)² / (g_il² + 0.01),

    where g are distances in the data in units of their median, and s > 0 is learned: a small map is no more faithful
    than a large one. An infinite g_il is not known, as between batches, and left out of the mean.

    The landmarks of a small table are all of its rows. Of a larger one they are a sample, and then no row is compared
    with them: a few rows that every step moves would be learned by heart and end far from their neighbors. The rows of
    a step are compared with each other, by distances through the landmark that is nearest to either; see `among`.

    Args:
        landmarks: The landmarks as the model sees them, shape (landmarks, features); None compares the rows of a step.
        at_once: Landmarks that are compared at a step, drawn anew each time.

    Example:
        >>> from horoball.vae import VAE, ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=3, hidden=(8,)))
        >>> x = torch.randn(5, 3)
        >>> term = DistanceTerm(x[:2])
        >>> landmarks, g = term.drawn(torch.cdist(x, x[:2]))
        >>> term(model.ball.cdist(model.posterior(x).loc, model.posterior(landmarks).loc), g).shape
        torch.Size([5])
    """

    landmarks: Tensor | None

    def __init__(self, landmarks: Tensor | None = None, at_once: int = 128) -> None:
        super().__init__()
        self.at_once = at_once
        self.register_buffer("landmarks", landmarks, persistent=False)
        self.log_scale = nn.Parameter(torch.zeros(()))

    def drawn(self, g: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The landmarks that are compared at this step, shape (at_once, features), and the rows' distances to them.

        Args:
            g: Distances in the data from rows to all landmarks, shape (rows, landmarks).
            generator: Draws the landmarks; torch's global generator if not given.
        """
        if self.landmarks is None:
            raise ValueError("The term has no landmarks: its rows are compared with each other, see `among`.")
        if len(self.landmarks) <= self.at_once:
            return self.landmarks, g
        index = torch.randperm(len(self.landmarks), generator=generator)[: self.at_once].to(g.device)
        return self.landmarks[index], g[:, index]

    def among(self, g: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Which rows of a step the others are compared with, and the distances in the data.

        With the landmark l_i nearest to row i, the distance of two rows is taken as (g(i, l_j) + g(j, l_i))/2, from
        either to the other's landmark. It is infinite, so not known, where no path joins the rows, and from a row to
        itself.

        Args:
            g: Distances in the data from the rows of the step to all landmarks, shape (rows, landmarks).
            generator: Draws the rows where there are many; torch's global generator if not given.

        Returns:
            Numbers of rows, shape (others,), and distances, shape (rows, others).

        Example:
            >>> DistanceTerm().among(torch.tensor([[0.0, 3.0], [1.0, 2.0], [3.0, 0.0]]))[1]
            tensor([[   inf, 0.5000, 3.0000],
                    [0.5000,    inf, 2.5000],
                    [3.0000, 2.5000,    inf]])
        """
        others = torch.arange(len(g), device=g.device)
        if len(g) > _MANY_AT_ONCE * self.at_once:  # the cost of a step stays linear in its rows
            others = torch.randperm(len(g), generator=generator)[: _MANY_AT_ONCE * self.at_once].to(g.device)
        nearest = g.argmin(1)
        there = g[:, nearest[others]]
        back = g[others][:, nearest].mT
        between = ((there + back) / 2).index_put(
            (others, torch.arange(len(others), device=g.device)), g.new_tensor(torch.inf)
        )
        return others, between

    def forward(self, distance: Tensor, g: Tensor) -> Tensor:
        """The term of each row, shape (rows,).

        Args:
            distance: Distances in the map from rows to landmarks, shape (rows, landmarks).
            g: The same distances in the data.
        """
        known = g.isfinite()
        if not may_hold(~known):
            return self._error(distance, g).mean(-1)
        error = torch.where(known, self._error(distance, torch.where(known, g, 0.0)), 0.0)
        return error.sum(-1) / known.sum(-1).clamp_min(1)  # a row may know no landmark

    def _error(self, distance: Tensor, g: Tensor) -> Tensor:
        return (distance * (-self.log_scale).exp() - g).square() / (g.square() + NEAR)
