"""The variational auto-encoder: encoder → posterior, point → likelihood, and a prior on the ball."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypedDict

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from horoball.distributions.base import Features, drawn_from
from horoball.distributions.mixture import as_posterior
from horoball.distributions.normal import POSTERIORS, BallNormal
from horoball.geometry.ball import PoincareBall
from horoball.geometry.manifold import held
from horoball.likelihoods.likelihood import LIKELIHOODS, Likelihood, make_likelihood
from horoball.nn.mlp import linear, mlp
from horoball.nn.product import first_layer
from horoball.plugins import OUTSIDE
from horoball.storage.settings import Range, Settings
from horoball.vae.encoder import LATENT_RANGES, Conditioning, Encoder, Prior, one_hot
from horoball.vae.parts import Parts, check_part, check_spec, made

__all__ = ["DECODERS", "VAE", "Decoder", "ModelConfig", "ModelFields"]

DECODERS = ("gyroplane", "log0", "mlp")
# Parts that have no class to be registered.
OWN = {
    "encoder": ("mlp",),
    "decoder": DECODERS,
    "prior": ("normal",),
    "manifold": ("ball",),
}


class Decoder(nn.Module):
    """An MLP on points of the ball, by one of three first steps.

    - "gyroplane": the first layer measures distances to hyperplanes (the paper's decoder);
    - "log0": the MLP sees log₀(z), the tangent vector that z is carried as;
    - "mlp": the MLP sees ball coordinates.

    For c = 0 the first two are the plain MLP of the N-VAE.

    What a row is given moves the output of the first layer, before the nonlinearity: f(z) + B·covariates. For a linear
    layer that is what concatenating z and the covariates is. A gyroplane takes points of the ball, which covariates are
    not: they are added to its signed distances, so that each category counts these from a line of its own beside the
    hyperplane. It also moves the output itself, by A·covariates: what multiplies the counts of a gene in all cells of a
    batch alike is then no matter of z. A and B start at 0; see `vae.start`.

    Args:
        d: Dimension of the ball.
        outputs: Size of the output.
        ball: The ball.
        hidden: Sizes of the hidden layers; "gyroplane" needs one.
        kind: "gyroplane", "log0" or "mlp".
        covariates: How many categories there are, of all covariates together.
        network: Makes the network, in place of the MLP, from d and the size of the output. Its output starts as this
            network gives it, plus a learned vector; covariates move the output alone.
        generator: Where the initial weights come from; torch's global generator if not given.

    Example:
        >>> Decoder(2, 10, PoincareBall(1.0), hidden=[32])(torch.zeros(4, 2)).shape
        torch.Size([4, 10])
    """

    def __init__(
        self,
        d: int,
        outputs: int,
        ball: PoincareBall,
        hidden: Sequence[int],
        kind: str = "gyroplane",
        covariates: int = 0,
        *,
        network: Callable[[int, int], Any] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.ball, self.kind = held(ball), kind
        self.shift: nn.Linear | None = None
        self.offset: nn.Linear | None = None
        if network is not None:
            self.network: Any = network(d, outputs)
            self.start = nn.Parameter(torch.zeros(outputs))
            self._take_covariates(covariates, outputs, generator)
            return
        if kind not in DECODERS:
            raise ValueError(f"Unknown decoder {kind!r}. Choose one of: {', '.join(DECODERS)}.")
        if kind == "mlp" and not hasattr(ball, "to_ball"):
            raise ValueError(
                f'The decoder "mlp" needs ball coordinates, which {type(ball).__name__} has not. Use "log0".'
            )
        if kind == "gyroplane" and not hidden:
            raise ValueError('The decoder "gyroplane" needs a hidden layer, got none. Use "log0" for a linear decoder.')
        first = first_layer(d, hidden[0], ball, generator=generator) if kind == "gyroplane" else None
        self.network = mlp(d, hidden, outputs, first, generator=generator)
        if covariates:
            self.shift = linear(covariates, (*hidden, outputs)[0], bias=False, generator=generator)
        self._take_covariates(covariates, outputs, generator)
        if self.shift is not None:
            nn.init.zeros_(self.shift.weight)

    def _take_covariates(self, covariates: int, outputs: int, generator: torch.Generator | None) -> None:
        if covariates:
            self.offset = linear(covariates, outputs, bias=False, generator=generator)
            nn.init.zeros_(self.offset.weight)

    def forward(self, z: Tensor, covariates: Tensor | None = None) -> Tensor:
        """Parameters of the likelihood, shape (*batch, outputs).

        Args:
            z: Points, shape (*batch, d).
            covariates: What their rows are given, one-hot, shape (*rows, categories) that broadcasts to the batch.
        """
        if (self.offset is None) != (covariates is None):
            raise ValueError(
                "This decoder was made without covariates, but is given some."
                if self.offset is None
                else "This decoder needs the rows' covariates: VAE.decode(z, VAE.conditioning(x))."
            )
        if hasattr(self, "start"):
            h = self.network(z)
            h = h.flatten(z.dim() - 1) + self.start  # of an image, say
            return (h if self.offset is None else h + self.offset(covariates)).to(z.dtype)
        z = self.ball.to_ball(z) if self.kind == "mlp" else z
        if self.shift is None or self.offset is None:
            return self.network(z).to(z.dtype)  # mixed precision ends with the network
        h = self.network[0](z) + self.shift(covariates)
        for layer in self.network[1:]:
            h = layer(h)
        return (h + self.offset(covariates)).to(z.dtype)

    @torch.no_grad()
    def start_at(self, output: Tensor) -> None:
        """Set the last bias, so that the model starts from the data's mean (App. C.2)."""
        last = self.start if hasattr(self, "start") else self.network[len(self.network) - 1].bias
        last.copy_(output)


class ModelFields(TypedDict, total=False):
    """Fields of `ModelConfig` that are given before the rows are known; others have their defaults or follow from them.

    Example:
        >>> fields: ModelFields = {"d": 2, "hidden": (64,)}
    """

    d: int
    c: float
    learn_c: bool
    posterior: str
    scale: str
    encoder: str
    prior: str
    manifold: str
    shape: tuple[int, ...]
    prior_scale: float
    learn_prior: bool
    likelihood: str
    learn_scale: bool
    classes: int | None
    log_input: bool
    decoder: str
    hidden: tuple[int, ...]
    covariates: tuple[int, ...]
    library: bool
    input_limit: float
    unit_input: bool
    columns: str


@dataclass(frozen=True)
class ModelConfig(Settings):
    """Settings of a model: numbers and names only, as stored in checkpoints.

    Example:
        >>> ModelConfig(features=50, d=2, c=1.2).posterior
        'riemannian'
    """

    features: int
    d: int = 2
    c: float = 1.0
    learn_c: bool = False
    posterior: str = "riemannian"
    scale: str = "isotropic"  # of the posterior; others if it is wrapped
    encoder: str = "mlp"  # or a registered one with its settings; see `parts`
    prior: str = "normal"  # around the origin, or a registered one
    manifold: str = "ball"  # or a registered one
    shape: tuple[int, ...] = ()  # of an observation as an encoder from outside sees it
    prior_scale: float = 1.0
    learn_prior: bool = False  # whether σ₀ is learned, from prior_scale on
    likelihood: str = "normal"
    learn_scale: bool = False  # of the normal likelihood: a standard deviation per feature instead of 1
    classes: int | None = None
    log_input: bool = False
    decoder: str = "gyroplane"
    hidden: tuple[int, ...] = (200,)
    covariates: tuple[int, ...] = ()  # how many categories each has; see Note [Rows] in `given`
    library: bool = False  # of the negative binomial: whether rows are shares of their sum
    input_limit: float = 0.0  # beyond which the encoder sees numbers drawn in; 0 for none
    unit_input: bool = False  # whether rows are directions, whatever their length
    columns: str = ""  # of the mixed likelihood: the kind of each column, see `column_groups`

    RANGES: ClassVar[dict[str, Range]] = LATENT_RANGES | {
        "features": Range(1, 10**9),
        "classes": Range(2, 10**6),
        "hidden": Range(1, 10**6, "100 to 600 suit most tables."),
        "covariates": Range(1, 10**9),
        "shape": Range(1, 10**9),
        "input_limit": Range(0, 1e38),
    }

    def __post_init__(self) -> None:
        """Refuse what no model can be made from."""
        super().__post_init__()
        for kind, own in OWN.items():
            if getattr(self, kind) not in (OUTSIDE, *own):
                check_spec(kind, getattr(self, kind), own)
        if self.shape and self.encoder in OWN["encoder"]:
            raise ValueError(f"Rows of shape {self.shape} need an encoder of your own; the MLP takes plain rows.")
        POSTERIORS[self.posterior].check_scale(self.scale)
        taken = LIKELIHOODS[self.likelihood].options
        for option in ("learn_scale", "classes", "library", "columns"):
            if getattr(self, option) and option not in taken:
                suited = " or ".join(name for name in LIKELIHOODS if option in LIKELIHOODS[name].options)
                raise ValueError(f"{option} is for the likelihood {suited}, got {self.likelihood!r}.")


class VAE(nn.Module):
    """A variational auto-encoder on the Poincaré ball; with c = 0 the ordinary one.

    Args:
        encoder: A module from x to a distribution on the ball.
        decoder: A module from points to the parameters of the likelihood.
        prior: A module that returns the prior and has the `ball`: `Prior`, or your own around `BallMixture` or a
            distribution of torch, which is then one of the tangent coordinates. What each part has to offer is in
            `horoball.vae.parts`.
        likelihood: A module from the decoder's output to the distribution of x.
        covariates: How many categories each covariate has, in the columns of a row after its features. Encoder and
            decoder take them; see `Given`.

    Example:
        >>> model = VAE.from_config(ModelConfig(features=10, d=2, c=1.0, hidden=(32,)))
        >>> x = torch.zeros(4, 10)
        >>> model.posterior(x).rsample().shape, model.generate(3).shape
        (torch.Size([4, 2]), torch.Size([3, 10]))
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        prior: nn.Module,
        likelihood: Likelihood,
        covariates: Sequence[int] = (),
    ) -> None:
        super().__init__()
        for kind, part in (("encoder", encoder), ("decoder", decoder), ("prior", prior)):
            check_part(kind, part)
        if not isinstance(likelihood, Likelihood):
            raise TypeError(
                f"A model's likelihood is a Likelihood, got {type(likelihood).__name__}. Of a distribution of torch, "
                "make one with horoball.likelihoods.from_torch."
            )
        self.encoder, self.decoder = encoder, decoder
        self.prior: Any = prior
        self.likelihood = likelihood
        self.covariates = tuple(covariates)
        self.config: ModelConfig | None = None

    @classmethod
    def from_config(
        cls,
        config: ModelConfig,
        *,
        parts: Parts = Parts(),  # noqa: B008
        generator: torch.Generator | None = None,
    ) -> Self:
        """The model that the configuration describes.

        Args:
            config: What it is made from.
            parts: What makes the parts that it has no name for.
            generator: Where the initial weights come from; torch's global generator if not given.
        """
        offered: dict[str, Any] = {"d": config.d, "generator": generator}

        def part(kind: str, **more: Any) -> Any:
            return made(kind, getattr(config, kind), getattr(parts, kind), **offered, **more)

        ball: Any
        if config.manifold not in OWN["manifold"]:
            ball = part("manifold", c=config.c, learn_c=config.learn_c)
        else:
            ball = PoincareBall(config.c, learnable=config.learn_c)
        offered["manifold"] = ball

        def encoding(inputs: int, outputs: int) -> Any:
            return part("encoder", features=inputs, outputs=outputs, shape=config.shape)

        def decoding(d: int, outputs: int) -> Any:
            return part("decoder", outputs=outputs, shape=config.shape)

        options = {name: getattr(config, name) for name in LIKELIHOODS[config.likelihood].options}
        given = {name: value for name, value in options.items() if value is not None}
        likelihood = make_likelihood(config.likelihood, config.features, **given)
        encoder = Encoder(
            config.features,
            config.d,
            ball,
            config.hidden,
            config.posterior,
            config.log_input,
            config.scale,
            config.covariates,
            config.library,
            config.input_limit,
            config.columns,
            config.unit_input,
            network=None if config.encoder in OWN["encoder"] else encoding,
            shape=config.shape,
            generator=generator,
        )
        decoder = Decoder(
            config.d,
            likelihood.outputs,
            ball,
            config.hidden[::-1],
            config.decoder,
            sum(config.covariates),
            network=None if config.decoder in DECODERS else decoding,
            generator=generator,
        )
        if config.prior not in OWN["prior"]:
            prior = part("prior", scale=config.prior_scale, posterior=config.posterior, encoder=encoder)
        else:
            prior = Prior(config.d, ball, config.prior_scale, config.posterior, learn_scale=config.learn_prior)
        model = cls(encoder, decoder, prior, likelihood, config.covariates)
        model.config = config
        return model

    @property
    def ball(self) -> Any:
        """The latent space: a `PoincareBall`, or another `Manifold`."""
        return self.prior.ball

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Distribution:
        """p(x | z) for one point z of each row, drawn from q(z | x): what a training step sees."""
        z = drawn_from(self.posterior(x), (), generator, gradients=True)
        return self.decode(z, self.conditioning(x))

    def posterior(self, x: Tensor) -> BallNormal:
        """q(z | x)."""
        q = self.encoder(x)
        return q if isinstance(q, BallNormal) else as_posterior(q, self.ball)

    def conditioning(self, x: Tensor) -> Conditioning:
        """What p(x | z) is conditioned on, from the rows themselves."""
        codes = x[..., self.likelihood.features :]
        return Conditioning(
            one_hot(codes, self.covariates) if self.covariates else None,
            self._features(x).sum(-1) if self.likelihood.library else None,
        )

    def decode(self, z: Tensor, conditioning: Conditioning | None = None) -> Distribution:
        """p(x | z), the distribution of a row's features; of a conditional model, p(x | z, conditioning)."""
        covariates, library = conditioning or Conditioning()
        h = self.decoder(z) if covariates is None else self.decoder(z, covariates)
        p = self.likelihood(h) if library is None else self.likelihood(h, library)
        return p if p.event_shape else Features(p, 1, validate_args=False)  # of numbers that are independent

    def log_prob_of(self, x: Tensor, z: Tensor) -> Tensor:
        """log p(x | z) of rows that hold what they are given, shape (*batch) for points of shape (*batch, d)."""
        return self.decode(z, self.conditioning(x)).log_prob(self._features(x))

    def _features(self, x: Tensor) -> Tensor:
        return x[..., : self.likelihood.features] if self.covariates else x

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """Posterior means, in the tangent chart: `model.ball.to_ball` shows them in the ball."""
        return self.posterior(x).mean

    @torch.no_grad()
    def generate(
        self, n: int, conditioning: Conditioning | None = None, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Means of p(x | z) for n points z from the prior, drawn from the generator."""
        return self.mean(drawn_from(self.prior(), (n,), generator), conditioning)

    @torch.no_grad()
    def reconstruct(self, x: Tensor) -> Tensor:
        """Mean of p(x | z) at the posterior mean."""
        return self.mean(self.embed(x), self.conditioning(x))

    def mean(self, z: Tensor, conditioning: Conditioning | None = None) -> Tensor:
        """Point estimate of x given z: the mean of p(x | z), or whatever the likelihood takes in its place."""
        return self.likelihood.point_estimate(self.decode(z, conditioning))
