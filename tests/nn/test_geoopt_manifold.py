from __future__ import annotations

import pytest
import torch

from horoball.geometry import PoincareBall
from tests.late import late

geoopt, adapter = late("geoopt"), late("horoball.nn.geoopt")


def points(*shape: int) -> torch.Tensor:
    return 2 * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0])
def test_the_gradient_in_the_frame_is_that_along_geodesics(c: float) -> None:
    ball = PoincareBall(c)
    manifold, z, y = adapter.GeooptBall(ball), points(7, 3).requires_grad_(), points(3)
    v = torch.zeros(7, 3, dtype=torch.float64, requires_grad=True)
    (in_chart,) = torch.autograd.grad(ball.dist(z, y).square().sum(), z)
    (in_frame,) = torch.autograd.grad(ball.dist(ball.exp(z.detach(), v), y).square().sum(), v)
    torch.testing.assert_close(manifold.egrad2rgrad(z.detach(), in_chart), in_frame)
    torch.testing.assert_close(in_frame, -2 * ball.log(z.detach(), y))


@pytest.mark.parametrize("c", [0.0, 1.0])
def test_the_adapter_keeps_the_laws_of_a_manifold(c: float) -> None:
    manifold, x, y, v = adapter.GeooptBall(PoincareBall(c)), points(5, 2), points(4, 5, 2)[1], points(3, 5, 2)[2]
    assert manifold.check_point_on_manifold(x)
    assert not manifold.check_point_on_manifold(x * torch.inf)
    torch.testing.assert_close(manifold.retr(x, manifold.logmap(x, y)), y)
    torch.testing.assert_close(manifold.norm(x, manifold.logmap(x, y)), manifold.dist(x, y))
    moved = manifold.transp(x, y, v)
    torch.testing.assert_close(manifold.inner(y, moved), manifold.inner(x, v))
    torch.testing.assert_close(manifold.dist(manifold.origin(2, dtype=torch.float64), x), x.norm(dim=-1))


@pytest.mark.parametrize("name", ["RiemannianAdam", "RiemannianSGD"])
def test_an_optimizer_of_geoopt_finds_the_frechet_mean(name: str) -> None:
    ball, x = PoincareBall(1.0), points(6, 2)
    z = geoopt.ManifoldParameter(torch.zeros(2, dtype=torch.float64), adapter.GeooptBall(ball))
    optimizer = getattr(geoopt.optim, name)([z], lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        ball.dist(z, x).square().mean().backward()
        optimizer.step()
    pull = ball.log(z.detach(), x).mean(0)
    assert pull.norm() < 1e-3
