from __future__ import annotations

import pytest
import torch
from torch.distributions import Categorical

from horoball.distributions import BallMixture, BallNormal, RiemannianNormal, WrappedNormal
from horoball.geometry import PoincareBall


def mixture(kind: type[BallNormal], ball: PoincareBall, scales: list[float]) -> BallMixture:
    loc = torch.tensor([[2.0, 0.0, 0.5], [-1.0, 1.0, 0.0], [0.0, -3.0, 1.0]], dtype=torch.float64)
    components = kind(loc, torch.tensor(scales, dtype=torch.float64).unsqueeze(-1), ball)
    return BallMixture(Categorical(torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)), components)


@pytest.mark.parametrize("kind", [WrappedNormal, RiemannianNormal])
@pytest.mark.parametrize("c", [0.3, 2.0])
def test_the_mean_is_where_samples_pull_equally_to_all_sides(kind: type[BallNormal], c: float) -> None:
    torch.manual_seed(0)
    ball = PoincareBall(c)
    law = mixture(kind, ball, [0.2, 0.6, 1.0])
    pull = ball.log(law.mean, law.sample((20_000,)))
    error = pull.std(0) / len(pull) ** 0.5
    assert (pull.mean(0).abs() <= 4 * error).all()  # see Note [Randomized statistical tests]


def test_the_mean_of_narrow_components_is_that_of_their_means() -> None:
    ball = PoincareBall(1.0)
    law = mixture(WrappedNormal, ball, [1e-6] * 3)
    pull = ball.log(law.mean, law.component_distribution.mean)
    assert (law.mixture_distribution.probs @ pull).norm() < 1e-9


def test_without_curvature_the_mean_is_torchs() -> None:
    law = mixture(WrappedNormal, PoincareBall(0.0), [0.2, 0.6, 1.0])
    torch.testing.assert_close(law.mean, law.mixture_distribution.probs @ law.component_distribution.mean)


def test_one_mean_for_each_of_a_batch() -> None:
    loc = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(0))
    weights = torch.ones(4, 3)
    ball = PoincareBall(1.0)
    law = BallMixture(Categorical(weights), WrappedNormal(loc, torch.full((4, 3, 1), 0.3), ball))
    alone = BallMixture(Categorical(weights[2]), WrappedNormal(loc[2], torch.full((3, 1), 0.3), ball))
    torch.testing.assert_close(law.mean[2], alone.mean)


def test_components_whose_directions_differ_are_refused() -> None:
    components = WrappedNormal(torch.zeros(2, 3), torch.ones(2, 3), PoincareBall(1.0))
    with pytest.raises(NotImplementedError, match="one scale for all directions"):
        _ = BallMixture(Categorical(torch.ones(2)), components).mean
