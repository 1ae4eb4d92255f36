"""Candidates for a latent space that makes a tree of a table, each in a space of any curvature.

- *triplets*: a term beside the bound. Of three rows, the two that part last in the columns shall part last in the
  latent space, by a softmax over the three depths at which two rows part (HypHC; Chami and others, 2020). The depth is
  Gromov's product (r_i + r_j − d_ij)/2, seen from the origin. The columns are weighted by what the model explains of
  them after the first third of the steps.
- *branching prior*: a mixture of wrapped normals whose centers are the nodes of a binary tree, each drawn around its
  parent, learned with the model from the first third of the steps on, when the rows' means are halved again and again.
- *free points*: no model; a point for each row, whose distances fit those in the columns (stress).

Weight, temperature, levels and stride were tuned on one draw of one table, the branching diffusion of 127 nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from experiments.known_trees import Known
from horoball import PoincareBall
from horoball.distributions import WrappedNormal
from horoball.distributions.mixture import BallMixture
from horoball.distributions.normal import positive
from horoball.training import elbo
from horoball.trees.linkage import center_radius
from horoball.trees.source import distance_matrix
from horoball.vae import VAE, ModelConfig

__all__ = ["BranchingPrior", "Rows", "Triplets", "explained", "free_points", "hellinger", "parting_depth", "trained"]

STEPS, BATCH, RATE = 400, 256, 1e-2
WEIGHT, TEMPERATURE = 100.0, 0.1  # of the triplets
LEVELS, STRIDE = 4, 1.0  # of the branching prior: levels below the root, and how far a child may be from its parent


@dataclass(frozen=True)
class Rows:
    """A table, and what is known of its tree: its clades, or labels at one level or more."""

    x: Tensor  # as the model sees them
    points: np.ndarray  # as distances are taken between them; NaN is a gap
    known: Known | None = None
    labels: tuple[np.ndarray, ...] = ()
    likelihood: str = "normal"


def hellinger(x: np.ndarray) -> np.ndarray:
    """Square roots of the shares of a row's total."""
    return np.sqrt(x / np.maximum(x.sum(1, keepdims=True), 1e-9))


class Gapped(VAE):
    """A model that sees a gap as the mean, and is asked for what is there alone."""

    def posterior(self, x: Tensor) -> Any:
        """q(z | x)."""
        return super().posterior(x.nan_to_num())

    def log_prob_of(self, x: Tensor, z: Tensor) -> Tensor:
        """log p of the values that are there."""
        return self.likelihood.observed_log_prob(self.decode(z), x.nan_to_num(), ~x.isnan())


class BranchingPrior(nn.Module):
    """A mixture of wrapped normals at the nodes of a binary tree; node k has the children 2k + 1 and 2k + 2.

    Example:
        >>> prior = BranchingPrior(torch.randn(20, 2), PoincareBall(1.0), levels=2)
        >>> prior().log_prob(torch.zeros(3, 2)).shape, prior.loc.shape
        (torch.Size([3]), torch.Size([7, 2]))
    """

    def __init__(self, z: Tensor, ball: PoincareBall, levels: int | None = None) -> None:
        super().__init__()
        levels = LEVELS if levels is None else levels
        self.ball, self.nodes = ball, 2 ** (levels + 1) - 1
        loc, scale = _halved(z, levels)
        self.loc = nn.Parameter(loc)
        self.raw_scale = nn.Parameter(scale.clamp_min(0.05).expm1().log())
        self.logits = nn.Parameter(torch.zeros(self.nodes))
        self.child = torch.arange(1, self.nodes)

    @property
    def components(self) -> WrappedNormal:
        """The normals at the nodes."""
        return WrappedNormal(self.loc, positive(self.raw_scale), self.ball, validate_args=False)

    def forward(self) -> BallMixture:
        """p(z)."""
        return BallMixture(Categorical(logits=self.logits, validate_args=False), self.components, validate_args=False)

    def penalty(self) -> Tensor:
        """−Σ log N(child | parent), and the root around the origin."""
        above = torch.cat((torch.zeros_like(self.loc[:1]), self.loc[(self.child - 1) // 2]))
        scale = torch.full_like(above[:, :1], STRIDE)
        return -WrappedNormal(above, scale, self.ball, validate_args=False).log_prob(self.loc).sum()

    def parting(self, z: Tensor) -> np.ndarray:
        """How many levels lie above the node where two rows part, as a dissimilarity in whole numbers."""
        chance = self.components.log_prob(z.unsqueeze(1)) + self.logits.log_softmax(0)
        above = np.arange(self.nodes)
        path = [above := np.where(above > 0, (above - 1) // 2, -1) for _ in range(self.nodes.bit_length())]
        inside = np.zeros((self.nodes, self.nodes))  # whether the second node is the first's ancestor or itself
        for step in (np.arange(self.nodes), *path):
            inside[np.flatnonzero(step >= 0), step[step >= 0]] = 1
        of = inside[chance.argmax(1).numpy()]
        return self.nodes.bit_length() - of @ of.T


def _halved(z: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """Means and spreads of points that are halved along their widest direction, again and again, in heap order."""
    parts = [z]
    for node in range(2**levels - 1):
        part = parts[node] - parts[node].mean(0)
        along = part @ torch.linalg.eigh(part.T @ part).eigenvectors[:, -1]
        right = along > 0  # the mean, not the median: branches need not be of one size
        for _ in range(5):
            if not 1 < int(right.sum()) < len(part) - 1:
                break
            right = torch.cdist(part, torch.stack((part[~right].mean(0), part[right].mean(0)))).argmin(1) == 1
        halves = [parts[node][~right], parts[node][right]]
        parts += halves if min(map(len, halves)) > 1 else [parts[node]] * 2  # too few to halve: both are as it is
    loc = torch.stack([part.mean(0) for part in parts])
    spread = [(part - part.mean(0)).square().mean().sqrt() for part in parts]
    return loc, torch.stack(spread).unsqueeze(1)


class Triplets:
    """Rows that part last in a matrix of depths shall part last in a latent space."""

    def __init__(self, depth: np.ndarray) -> None:
        self.depth = torch.from_numpy(depth).float()

    def __call__(self, ball: PoincareBall, z: Tensor, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Mean over triplets of a row and two others; ranks of these are even in their logarithms, so that twigs count.

        Args:
            ball: The space.
            z: Points, shape (n, d).
            rows: Their numbers.
            generator: Where triplets are drawn from.
        """
        n = len(z)
        depth = self.depth[rows][:, rows]
        ranked = depth.fill_diagonal_(torch.inf).argsort(1, descending=True)
        rank = torch.exp(torch.rand(2, 2 * n, generator=generator) * np.log(n - 1)).long().clamp_max(n - 1)
        i = torch.arange(n).repeat(2)
        j, k = ranked[i, rank[0]], ranked[i, rank[1]]
        pairs = torch.stack((torch.stack((i, i, j)), torch.stack((j, k, k))))[:, :, j != k]
        true, found = depth[pairs[0], pairs[1]], parting_depth(ball, z[pairs[0]], z[pairs[1]])
        gap = true.max(0).values - true.median(0).values
        chance = (found / TEMPERATURE).log_softmax(0).gather(0, true.argmax(0, keepdim=True))[0]
        return -(chance * (gap > 0)).mean()


def parting_depth(ball: PoincareBall, z: Tensor, y: Tensor) -> Tensor:
    """Gromov's product of two points, seen from the origin: the depth at which the ways to them part, on a tree."""
    return (z.norm(dim=-1) + y.norm(dim=-1) - ball.dist(z, y)) / 2


def trained(rows: Rows, method: str, c: float, d: int, seed: int, *, learn_c: bool = False) -> tuple[VAE, float]:
    """A model, trained with what the method adds, and minus its bound over the last 50 steps."""
    generator = torch.Generator().manual_seed(seed)
    options: dict[str, Any] = {"learn_scale": True} if rows.likelihood == "normal" else {}
    options |= {"log_input": rows.likelihood == "poisson", "unit_input": rows.likelihood == "von_mises_fisher"}
    config = ModelConfig(
        rows.x.shape[1],
        d,
        c,
        learn_c=learn_c,
        posterior="wrapped",
        likelihood=rows.likelihood,
        **options,
    )
    model = (Gapped if rows.x.isnan().any() else VAE).from_config(config, generator=generator)
    decoder: Any = model.decoder
    decoder.start_at(model.likelihood.start_at(rows.x.nanmean(0)))
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    triplets: Triplets | None = None
    losses = []
    for step in range(STEPS):
        if step == STEPS // 3 and method == "triplets":
            d_columns = distance_matrix(rows.points * explained(model, rows)).astype(np.float64)
            r = center_radius(d_columns)
            triplets = Triplets((r[:, None] + r - d_columns) / 2)
        if step == STEPS // 3 and method == "branching prior":
            with torch.no_grad():
                model.prior = BranchingPrior(model.posterior(rows.x).loc, model.ball)
            optimizer.add_param_group({"params": [model.prior.loc, model.prior.raw_scale, model.prior.logits]})
        _pace(optimizer, step, RATE)
        chosen = torch.randperm(len(rows.x), generator=generator)[:BATCH]
        x = rows.x[chosen]
        q = model.posterior(x)
        loss = -elbo(model, x, posterior=q, generator=generator).value.mean()
        losses.append(float(loss.detach()))
        if triplets is not None:
            loss = loss + WEIGHT * triplets(model.ball, q.loc, chosen, generator)
        if isinstance(model.prior, BranchingPrior):
            loss = loss + model.prior.penalty() / len(rows.x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval(), float(np.mean(losses[-50:]))


def _pace(optimizer: torch.optim.Optimizer, step: int, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * min(1.0, (step + 1) / 20) * (0.5 + 0.5 * np.cos(np.pi * step / STEPS))


@torch.no_grad()
def explained(model: VAE, rows: Rows) -> np.ndarray:
    """The share of each column's variance that the model explains; vectors have no columns of their own."""
    if rows.likelihood == "von_mises_fisher":
        return np.ones(rows.points.shape[1])
    made = model.mean(model.posterior(rows.x).loc).double().numpy()
    made = hellinger(made) if rows.likelihood == "poisson" else made
    there = np.maximum(np.nanvar(rows.points, 0), 1e-12)
    return np.asarray(np.clip(1 - np.nanvar(rows.points - made, 0) / there, 0.0, 1.0))


def free_points(rows: Rows, c: float, d: int, seed: int) -> tuple[Tensor, PoincareBall]:
    """Points whose distances fit those of the columns, times a factor that is learned; they start as in a plane."""
    generator, ball = torch.Generator().manual_seed(seed), PoincareBall(c)
    wanted = torch.from_numpy(distance_matrix(rows.points))
    wanted = wanted / wanted.median() * 2
    start = torch.linalg.svd(torch.from_numpy(np.nan_to_num(rows.points)), full_matrices=False)
    z = (start.U[:, :d] * start.S[:d]).float()
    z = nn.Parameter(z / torch.pdist(z).median() * 2)
    log_factor = nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.Adam([z, log_factor], 0.05)
    for step in range(STEPS):
        _pace(optimizer, step, 0.05)
        chosen = torch.randperm(len(z), generator=generator)[: BATCH // 2]
        target = wanted[chosen][:, chosen] * log_factor.exp()
        apart = target > 0
        loss = (ball.cdist(z[chosen], z[chosen])[apart] / target[apart] - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return z.detach(), ball
