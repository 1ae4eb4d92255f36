"""Prior and encoder: p(z), q(z | x), and what an encoder is given of a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from horoball.distributions.mixture import as_posterior
from horoball.distributions.normal import POSTERIORS, BallNormal
from horoball.distributions.product import family_on
from horoball.distributions.sphere import direction
from horoball.geometry.autograd import Constants
from horoball.geometry.ball import PoincareBall
from horoball.geometry.curvature import CurvedSpace
from horoball.geometry.kernels import bounded, in_graph, may_hold
from horoball.geometry.manifold import held
from horoball.likelihoods.mixed import column_groups
from horoball.nn.mlp import mlp
from horoball.storage.settings import Range

# What the space of any model can be like. Only √c·prior_scale matters: to shrink the space is to raise its curvature.
LATENT_RANGES = {
    "d": Range(1, 4096, "2 draws a map, 5 to 20 suit a density."),
    "c": Range(0, 1000, "It is minus the curvature: 1 suits most tables, 0 is the Euclidean model."),
    "prior_scale": Range(1e-3, 1000, "1 suits most tables."),
}


def save_family(family: type[BallNormal], destination: Any, prefix: str) -> None:
    """Put the name of a posterior family into a state dict, as bytes: weights of one mean nothing to another.

    Example:
        >>> destination = {}
        >>> save_family(POSTERIORS["wrapped"], destination, "encoder.")
        >>> bytes(destination["encoder.family"].tolist()).decode()
        'wrapped'
    """
    destination[prefix + "family"] = torch.tensor(list(family.name.encode()), dtype=torch.uint8, device="cpu")


def check_family(family: type[BallNormal], state_dict: Any, prefix: str, errors: list[str]) -> None:
    """Take the name of a family out of a state dict, and note an error if it is another one's.

    Example:
        >>> errors, held = [], {}
        >>> save_family(POSTERIORS["wrapped"], held, "")
        >>> check_family(POSTERIORS["riemannian"], held, "", errors)
        >>> errors
        ["The weights are of the posterior 'wrapped', this model has 'riemannian'. Make it with posterior='wrapped'."]
    """
    held = state_dict.pop(prefix + "family", None)
    name = family.name if held is None else bytes(held.tolist()).decode(errors="replace")[:60]
    if name != family.name:
        errors.append(
            f"The weights are of the posterior {name!r}, this model has {family.name!r}. Make it with "
            f"posterior={name!r}."
        )


class Prior(Constants):
    """A normal around the origin, of the posterior's family.

    Args:
        d: Dimension of the ball.
        ball: The ball.
        scale: σ₀.
        kind: Name of the family: "riemannian", "wrapped", or one that a plugin registers.
        learn_scale: Makes σ₀ a parameter, which starts at the given value.

    Example:
        >>> Prior(2, PoincareBall(1.0))().loc
        tensor([0., 0.])
    """

    loc: Tensor
    fixed_scale: Tensor

    def __init__(
        self,
        d: int,
        ball: PoincareBall,
        scale: float = 1.0,
        kind: str = "riemannian",
        *,
        learn_scale: bool = False,
    ) -> None:
        super().__init__()
        self.d, self.ball = d, held(ball)
        self.family = family_on(POSTERIORS[kind], self.ball)
        self.start, self.learn_scale = float(scale), learn_scale
        self._fixed: tuple[BallNormal, Tensor, Tensor] | None = None
        self.keep_constants()
        if learn_scale:
            self.log_scale = nn.Parameter(torch.full((1,), math.log(scale)))

    def constants(self) -> dict[str, Tensor]:
        """The location, and the scale unless it is learned."""
        loc = {"loc": torch.zeros(self.d)}
        return loc if self.learn_scale else loc | {"fixed_scale": torch.full((1,), self.start)}

    @property
    def scale(self) -> Tensor:
        """σ₀, shape (1,)."""
        return self.log_scale.exp() if self.learn_scale else self.fixed_scale

    def forward(self) -> BallNormal:
        """p(z)."""
        if self._fixed is not None and not in_graph():
            distribution, loc, scale = self._fixed
            if loc is self.loc and scale is self.fixed_scale:
                return distribution
        distribution = self.family.isotropic(self.loc, self.scale, self.ball)
        distribution.centered = True
        fixed = isinstance(self.ball, CurvedSpace) and not self.ball.learnable
        if fixed and not self.learn_scale and not in_graph():
            # The same one until the module moves or other buffers take the place of its own, with what it has found.
            self._fixed = distribution, self.loc, self.fixed_scale
        return distribution

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """A fixed scale and the family go with the weights: they were learned with these."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.learn_scale:
            destination[prefix + "fixed_scale"] = torch.tensor(self.start, dtype=torch.float64, device="cpu")
        save_family(self.family, destination, prefix)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Refuse weights of another scale or family; those that an earlier version has written do not say theirs."""
        held = None if self.learn_scale else state_dict.pop(prefix + "fixed_scale", None)
        if held is not None and float(held) != self.start:
            rest[-1].append(
                f"The weights are of a prior of scale {float(held):g}, this one has {self.start:g}. Make it with "
                f"prior_scale={float(held):g}."
            )
        check_family(self.family, state_dict, prefix, rest[-1])
        super()._load_from_state_dict(state_dict, prefix, *rest)


class ColumnView(Constants):
    """Rows as the encoder's network sees them: numbers as they are, categories one-hot, months on a circle.

    A missing value is seen as 0 in all numbers of its column, and as 1 in a mark of its own.
    """

    order: Tensor
    owners: Tensor

    def __init__(self, columns: str, features: int) -> None:
        super().__init__()
        self.groups = column_groups(columns, features)
        self.keep_constants()
        self.numbers, self.size = len(self.owners), len(self.owners) + features

    def constants(self) -> dict[str, Tensor]:
        """Where the columns of the groups are, and whose each number is."""
        order = [feature for group in self.groups for feature in group.features]
        owners = [group.features[i] for group in self.groups for i in group.kind.network_owners(group.sizes)]
        return {"order": torch.tensor(order), "owners": torch.tensor(owners)}

    def values(self, x: Tensor) -> Tensor:
        """The numbers alone, without marks, shape (*batch, numbers)."""
        ordered = x.index_select(-1, self.order)
        missing = ordered.isnan()
        gaps = may_hold(missing)
        sizes, seen = [len(group.features) for group in self.groups], []
        for group, part, gone in zip(self.groups, ordered.split(sizes, -1), missing.split(sizes, -1), strict=True):
            if gaps and may_hold(gone):
                filled = group.kind.network_input(torch.where(gone, 1.0, part), group.sizes)
                owners = torch.tensor(group.kind.network_owners(group.sizes), device=x.device)
                seen.append(torch.where(gone.index_select(-1, owners), 0.0, filled))
            else:
                seen.append(group.kind.network_input(part, group.sizes))
        return torch.cat(seen, -1)

    def forward(self, x: Tensor) -> Tensor:
        """Numbers and marks, shape (*batch, size)."""
        return torch.cat((self.values(x), x.isnan().to(x.dtype)), -1)


class Conditioning(NamedTuple):
    """What p(x | z) is conditioned on; nothing, for most models.

    Note [Rows]: a row of a model with covariates is its features, followed by one column for each covariate that holds
    the number of the row's category. So a row carries all that is given, wherever rows go. The library is the sum of
    its features.
    """

    covariates: Tensor | None = None  # one-hot, (*rows, categories of all covariates)
    library: Tensor | None = None  # ℓ, (*rows)


def one_hot(codes: Tensor, sizes: Sequence[int]) -> Tensor:
    """Categories as zeros and ones, one block of columns for each covariate.

    Args:
        codes: Numbers of the categories, shape (*rows, covariates). A number that is none, as −1, makes zeros.
        sizes: How many categories each covariate has. Of 1, the number itself is taken: the covariate is one.

    Example:
        >>> one_hot(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), (2, 3))
        tensor([[0., 1., 1., 0., 0.],
                [1., 0., 0., 0., 1.]])
    """
    if codes.shape[-1] != len(sizes):
        raise ValueError(f"one_hot expects {len(sizes)} covariates, got {codes.shape[-1]}.")
    blocks = [
        codes[..., [k]] if size == 1 else (codes[..., [k]] == torch.arange(size, device=codes.device)).to(codes.dtype)
        for k, size in enumerate(sizes)
    ]
    return torch.cat(blocks, -1)


def network_input(
    x: Tensor, *, log: bool = False, library: bool = False, unit: bool = False, limit: float = 0.0
) -> Tensor:
    """Features as an encoder's network sees them.

    Args:
        x: Features, shape (*batch, features).
        log: Whether it sees log(1 + x), as it should of counts.
        library: Whether rows are shares of a library: it sees them with a mean of 1, x·features/Σx.
        unit: Whether rows are directions: it sees them with a mean square of 1.
        limit: Beyond which numbers are drawn in, see `bounded`, so that no row ends at infinity; 0 for none.

    Example:
        >>> network_input(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), library=True)
        tensor([[0.5000, 1.5000],
                [0.0000, 0.0000]])
    """
    if library:
        x = x * (x.shape[-1] / x.sum(-1, keepdim=True).clamp_min(1.0))  # a row without counts stays 0
    x = direction(x) * x.shape[-1] ** 0.5 if unit else x
    x = x.log1p() if log else x
    return bounded(x, limit) if limit else x


class Encoder(nn.Module):
    """An MLP that emits the posterior's mean and scale; see `BallNormal.from_network`.

    Args:
        features: Size of an observation.
        d: Dimension of the ball.
        ball: The ball.
        hidden: Sizes of the hidden layers.
        posterior: Name of the family: "riemannian", "wrapped", or one that a plugin registers.
        log_input: Whether the network sees log(1 + x), as it should of counts.
        scale: Structure of the scale, one of the family's `scales`: "isotropic", as in the paper; "diagonal" or "full"
            for a wrapped normal.
        covariates: How many categories each covariate has; the network sees them one-hot. See Note [Rows] in `given`.
        library: Whether rows are shares of a library; see `network_input`.
        input_limit: Beyond which the network sees numbers drawn in; 0 for none.
        columns: The kinds of the columns of a mixed table, see `ColumnView`; empty for tables of one kind.
        unit_input: Whether rows are directions; see `network_input`.
        network: Makes the network, in place of the MLP, from the size of what it sees and of what it gives: a module
            that gives the numbers a posterior is made from, or posteriors.
        shape: Shape of an observation as this network sees it, such as (1, 28, 28); rows as they are if empty.
        generator: Where the initial weights come from; torch's global generator if not given.

    Example:
        >>> q = Encoder(10, 2, PoincareBall(1.0), hidden=[32])(torch.zeros(4, 10))
        >>> type(q).__name__, q.loc.shape, q.scale.shape
        ('RiemannianNormal', torch.Size([4, 2]), torch.Size([4, 1]))
    """

    def __init__(
        self,
        features: int,
        d: int,
        ball: PoincareBall,
        hidden: Sequence[int],
        posterior: str = "riemannian",
        log_input: bool = False,
        scale: str = "isotropic",
        covariates: Sequence[int] = (),
        library: bool = False,
        input_limit: float = 0.0,
        columns: str = "",
        unit_input: bool = False,
        *,
        network: Callable[[int, int], Any] | None = None,
        shape: Sequence[int] = (),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.family = family_on(POSTERIORS[posterior], ball)
        self.features, self.covariates, self.library = features, tuple(covariates), library
        self.input_limit, self.unit_input = input_limit, unit_input
        self.d, self.ball, self.scale, self.log_input = d, held(ball), scale, log_input
        self.view = ColumnView(columns, features) if columns else None
        inputs = features if self.view is None else self.view.size
        inputs, outputs = inputs + sum(covariates), self.family.network_size(d, scale)
        self.shape = tuple(shape)
        if self.shape and math.prod(self.shape) != inputs:
            size = " × ".join(map(str, self.shape))
            raise ValueError(f"Rows of shape {size} have {math.prod(self.shape)} numbers, the encoder sees {inputs}.")
        if network is not None:
            self.network = network(inputs, outputs)
            return
        self.network = mlp(inputs, hidden, outputs, generator=generator)
        if self.view is not None:
            # A mark that never occurs in training is never learned: a gap is then seen as the mean, without more.
            first: Any = self.network[0]
            with torch.no_grad():
                first.weight[:, self.view.numbers : self.view.size] = 0.0

    def forward(self, x: Tensor) -> BallNormal:
        """q(z | x) of rows, shape (*batch, features + covariates)."""
        return self.posterior(self.inputs(x))

    def inputs(self, x: Tensor) -> Tensor:
        """Rows as the network sees them."""
        codes = None
        if self.covariates:
            x, codes = x.split((self.features, len(self.covariates)), -1)
        x = x if self.view is None else self.view(x)
        x = network_input(x, log=self.log_input, library=self.library, unit=self.unit_input, limit=self.input_limit)
        return x if codes is None else torch.cat((x, one_hot(codes, self.covariates)), -1)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_family(self.family, destination, prefix)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        check_family(self.family, state_dict, prefix, rest[-1])
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def posterior(self, inputs: Tensor) -> BallNormal:
        """q(z | x) from what the network sees of x."""
        outputs = self.network(inputs.unflatten(-1, self.shape) if self.shape else inputs)
        if not isinstance(outputs, Tensor):
            return as_posterior(outputs, self.ball)
        # Mixed precision ends with the network: a posterior needs its digits.
        return self.family.from_network(outputs.to(inputs.dtype), self.d, self.ball, self.scale)
