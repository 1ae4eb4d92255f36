"""The variational auto-encoder: encoder → posterior, point → likelihood, and a prior on the ball."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.likelihoods import LIKELIHOODS, Likelihood, make_likelihood
from horoball.manifolds import PoincareBall
from horoball.models.decoder import DECODERS, Decoder
from horoball.models.encoder import Encoder
from horoball.models.given import Given, one_hot
from horoball.models.posterior import check_posterior, posterior_kind
from horoball.settings import Settings

__all__ = ["VAE", "ModelConfig", "Prior"]


@dataclass(frozen=True)
class ModelConfig(Settings):
    """What a model is made from: numbers and names only, as they stand in a checkpoint.

    Example:
        >>> ModelConfig(features=50, d=2, c=1.2).posterior
        'riemannian'
    """

    features: int
    d: int = 2
    c: float = 1.0
    learn_c: bool = False
    posterior: str = "riemannian"
    scale: str = "isotropic"  # of the posterior; "diagonal" or "full" if it is wrapped
    prior_scale: float = 1.0
    learn_prior: bool = False  # whether σ₀ is learnt, from prior_scale on
    likelihood: str = "normal"
    learn_scale: bool = False  # of the normal likelihood: a standard deviation per feature instead of 1
    classes: int | None = None
    log_input: bool = False
    decoder: str = "gyroplane"
    hidden: tuple[int, ...] = (600,)
    covariates: tuple[int, ...] = ()  # how many categories each has; see Note [Rows] in `given`
    library: bool = False  # of the negative binomial: whether rows are shares of their sum

    def __post_init__(self) -> None:
        """Refuse what no model can be made from."""
        super().__post_init__()
        for name, value, choices in (
            ("likelihood", self.likelihood, LIKELIHOODS),
            ("decoder", self.decoder, DECODERS),
        ):
            if value not in choices:
                raise ValueError(f"Unknown {name} {value!r}. Choose one of: {', '.join(choices)}.")
        check_posterior(self.posterior, self.scale)
        if self.features < 1 or self.d < 1:
            raise ValueError(f"A model needs features >= 1 and d >= 1, got {self.features} and {self.d}.")
        if self.learn_scale and self.likelihood != "normal":
            raise ValueError(f"learn_scale is for the likelihood normal, got {self.likelihood!r}.")
        if self.library and self.likelihood != "negative_binomial":
            raise ValueError(f"library is for the likelihood negative_binomial, got {self.likelihood!r}.")
        if any(size < 1 for size in self.covariates):
            raise ValueError(f"covariates need at least one category each, got covariates = {self.covariates}.")
        if any(size < 1 for size in self.hidden):
            raise ValueError(f"hidden layers need at least one unit each, got hidden = {self.hidden}.")
        if not self.prior_scale > 0:
            raise ValueError(f"prior_scale must be above 0, got {self.prior_scale}.")


class Prior(nn.Module):
    """A normal around the origin, of the posterior's kind.

    Args:
        d: Dimension of the ball.
        ball: The ball.
        scale: σ₀.
        kind: "riemannian" or "wrapped".
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
        self.ball, self.kind = ball, kind
        self.register_buffer("loc", torch.zeros(d), persistent=False)
        if learn_scale:
            self.log_scale = nn.Parameter(torch.full((1,), math.log(scale)))
        else:
            self.register_buffer("fixed_scale", torch.full((1,), float(scale)), persistent=False)

    @property
    def scale(self) -> Tensor:
        """σ₀, shape (1,)."""
        return self.log_scale.exp() if hasattr(self, "log_scale") else self.fixed_scale

    def forward(self) -> RiemannianNormal | WrappedNormal:
        """p(z)."""
        return posterior_kind(self.kind, len(self.loc))(self.loc, self.scale, self.ball, validate_args=False)


class VAE(nn.Module):
    """A variational auto-encoder on the Poincaré ball; with c = 0 the ordinary one.

    Args:
        encoder: A module from x to a distribution on the ball.
        decoder: A module from points to the parameters of the likelihood.
        prior: A module that returns the prior.
        likelihood: A module from the decoder's output to the law of x.
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
        prior: Prior,
        likelihood: Likelihood,
        covariates: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.prior, self.likelihood = encoder, decoder, prior, likelihood
        self.covariates = tuple(covariates)
        self.config: ModelConfig | None = None

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """The model that the configuration describes.

        Example:
            >>> VAE.from_config(ModelConfig(features=10, c=0.5, learn_c=True)).ball
            PoincareBall(c=0.5, learnable=True)
        """
        ball = PoincareBall(config.c, learnable=config.learn_c)
        options: dict[str, int] = {} if config.classes is None else {"classes": config.classes}
        options |= {"learn_scale": True} if config.learn_scale else {}
        options |= {"library": True} if config.library else {}
        likelihood = make_likelihood(config.likelihood, config.features, **options)
        model = cls(
            Encoder(
                config.features,
                config.d,
                ball,
                config.hidden,
                config.posterior,
                config.log_input,
                config.scale,
                config.covariates,
                config.library,
            ),
            Decoder(config.d, likelihood.outputs, ball, config.hidden[::-1], config.decoder, sum(config.covariates)),
            Prior(config.d, ball, config.prior_scale, config.posterior, learn_scale=config.learn_prior),
            likelihood,
            config.covariates,
        )
        model.config = config
        return model

    @property
    def ball(self) -> PoincareBall:
        """The ball of the latent space."""
        return self.prior.ball

    def posterior(self, x: Tensor) -> RiemannianNormal | WrappedNormal:
        """q(z | x)."""
        return self.encoder(x)

    def given(self, x: Tensor) -> Given:
        """What p(x | z) is conditioned on, from the rows themselves."""
        codes = x[..., self.likelihood.features :]
        return Given(
            one_hot(codes, self.covariates) if self.covariates else None,
            self._features(x).sum(-1) if self.likelihood.library else None,
        )

    def decode(self, z: Tensor, given: Given | None = None) -> Distribution:
        """p(x | z), the law of a row's features; of a conditional model, p(x | z, given)."""
        covariates, library = given or Given()
        h = self.decoder(z) if covariates is None else self.decoder(z, covariates)
        return self.likelihood(h) if library is None else self.likelihood(h, library)

    def log_prob_of(self, x: Tensor, z: Tensor) -> Tensor:
        """log p(x | z) of rows that hold what they are given, shape (*batch) for points of shape (*batch, d)."""
        return self.decode(z, self.given(x)).log_prob(self._features(x))

    def _features(self, x: Tensor) -> Tensor:
        return x[..., : self.likelihood.features] if self.covariates else x

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """Posterior means, in the tangent chart: `model.ball.to_ball` shows them in the ball."""
        return self.posterior(x).mean

    @torch.no_grad()
    def generate(self, n: int, given: Given | None = None) -> Tensor:
        """Means of p(x | z) for n points z from the prior."""
        return self.mean(self.prior().sample((n,)), given)

    @torch.no_grad()
    def reconstruct(self, x: Tensor) -> Tensor:
        """Mean of p(x | z) at the posterior mean."""
        return self.mean(self.embed(x), self.given(x))

    def mean(self, z: Tensor, given: Given | None = None) -> Tensor:
        """Mean of p(x | z); of categories, the likeliest."""
        law = self.decode(z, given)
        base = getattr(law, "base_dist", law)
        if isinstance(base, torch.distributions.Categorical):
            return base.probs.argmax(-1)  # a mean of categories has no meaning
        return law.mean
