from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from horoball.geometry import PoincareBall, gyrovector
from horoball.nn import Gyroplane
from horoball.nn import gyroplane as gyroplane_function
from tests import oracle

DTYPES = (torch.float64, torch.float32)
CURVATURES = (1e-6, 0.1, 1.0, 10.0)
LENGTHS = (1e-3, 1.0, 100.0)  # √c times |w|/√c = |w|: on both sides of the 16 where float32 changes its asinh
RADII = (0.0, 1e-3, 0.5, 4.0, 16.0, 20.9, 21.1, 80.0)  # √c·d(0, z), on both sides of float32's reach
OFFSETS = (0.0, 0.3, -5.0)  # √c·ρ, the distance of the hyperplane

# "value" is relative to |w|(R + 1/√c) + |b|; gradients to the larger of the truth and what one output can have: |w|
# in z, R + 1/√c in w, 1 in b, the value's scale over c in c. "paper" passes through ball coordinates.
TOLERANCE = {
    "value": {torch.float64: 1e-14, torch.float32: 1e-6},
    "gradient": {torch.float64: 1e-12, torch.float32: 2e-5},
    "paper": {torch.float64: 1e-11, torch.float32: 2e-5},
    "plane": {torch.float64: 1e-14, torch.float32: 1e-6},
    "compiled": {torch.float64: 1e-12, torch.float32: 1e-5},
}

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
curvatures = pytest.mark.parametrize("c", CURVATURES)


def vectors(seed: int, count: int, length: float, dtype: torch.dtype = torch.float64, d: int = 3) -> Tensor:
    x = torch.randn(count, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (x / x.norm(dim=-1, keepdim=True) * length).to(dtype)


def layer_of(weight: Tensor, bias: Tensor | None, c: float | Tensor) -> Gyroplane:
    layer = Gyroplane(*reversed(weight.shape), PoincareBall(c), bias=bias is not None).to(weight.dtype)
    layer.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
    return layer


def gradients(layer: Gyroplane, z: Tensor, grad: Tensor, c: Tensor | None = None) -> tuple[Tensor, ...]:
    z = z.clone().requires_grad_()
    return torch.autograd.grad((layer(z) * grad).sum(), [z, *layer.parameters(), *([] if c is None else [c])])


# --------------------------------------------------------------------------------------------------------------------
# Against the formulas
# --------------------------------------------------------------------------------------------------------------------


@dtypes
@curvatures
@pytest.mark.parametrize("length", LENGTHS)
def test_value_and_gradients_agree_with_mpmath_at_every_radius(dtype: torch.dtype, c: float, length: float) -> None:
    curvature = torch.tensor(c, dtype=dtype, requires_grad=True)
    root = math.sqrt(c)
    weight, bias = vectors(1, len(OFFSETS), length, dtype), torch.tensor(OFFSETS, dtype=dtype) * length / root
    layer = layer_of(weight, bias, curvature)
    for seed, radius in enumerate(RADII):
        z = vectors(10 + seed, 2, radius / root, dtype)
        check_against_mpmath(layer, z, curvature, size=(radius + 1) / root, dtype=dtype)


def check_against_mpmath(layer: Gyroplane, z: Tensor, c: Tensor, *, size: float, dtype: torch.dtype) -> None:
    k = c.item()
    weight, bias = layer.weight.detach(), layer.bias.detach()
    length = weight.double().norm(dim=-1).max().item()
    scale = length * size + bias.abs().max().item()
    exact, w, b = (oracle.array(x) for x in (z, weight, bias))
    error = (layer(z).detach().double() - torch.as_tensor(oracle.floats(oracle.gyroplane(exact, w, b, k)))).abs().max()
    assert error <= TOLERANCE["value"][dtype] * scale

    generator = torch.Generator().manual_seed(7)
    pull = torch.randn(len(z), len(weight), generator=generator, dtype=torch.float64).to(dtype)
    outer = oracle.array(pull)
    slots: list[tuple[np.ndarray, float, Callable[[np.ndarray], object]]] = [
        (exact, length, lambda x: (outer * oracle.gyroplane(x, w, b, k)).sum()),
        (w, size + bias.abs().max().item() / length, lambda x: (outer * oracle.gyroplane(exact, x, b, k)).sum()),
        (b, 1.0, lambda x: (outer * oracle.gyroplane(exact, w, x, k)).sum()),
        (oracle.array([k]), scale / k, lambda x: (outer * oracle.gyroplane(exact, w, b, x[0])).sum()),
    ]
    for (at, unit, f), grad in zip(slots, gradients(layer, z, pull, c), strict=True):
        step = torch.randn(at.shape, generator=generator, dtype=torch.float64)
        if grad.dim() == 0:  # the difference has to stay above c = 0
            step = torch.tensor([k], dtype=torch.float64)
        truth = oracle.derivative(f, at, step)
        got = (grad.double().reshape(at.shape) * step).sum().item()
        assert abs(got - truth) <= TOLERANCE["gradient"][dtype] * max(abs(truth), unit * step.norm().item())


@dtypes
@pytest.mark.parametrize("c", CURVATURES[1:])
def test_it_is_the_affine_map_of_the_paper(dtype: torch.dtype, c: float) -> None:
    ball, root = PoincareBall(c), math.sqrt(c)
    z = torch.cat([vectors(seed, 5, radius / root) for seed, radius in enumerate((0.1, 1.0, 3.0, 6.0))])
    weight = torch.cat([vectors(seed, 2, length) for seed, length in enumerate((0.2, 3.0))])
    bias = torch.tensor([0.0, 0.3, 2.0, -1.0], dtype=torch.float64) / root
    rho = (bias / weight.norm(dim=-1)).clamp(-2 / root, 2 / root)  # within reach of ball coordinates
    bias = rho * weight.norm(dim=-1)
    # p = exp₀(−ρ ŵ), and a is w carried to p, where ‖a‖_p = |w|
    point = ball.to_ball(-rho[:, None] * weight / weight.norm(dim=-1, keepdim=True))
    normal = weight / gyrovector.conformal_factor(point, c=c)[:, None]
    expected = gyrovector.gyroplane(ball.to_ball(z)[:, None], point=point, normal=normal, c=c)
    got = layer_of(weight.to(dtype), bias.to(dtype), c)(z.to(dtype))
    tolerance = TOLERANCE["paper"][dtype]
    torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("c", [0.4, 3.0])
@pytest.mark.parametrize("bias", [True, False])
def test_it_passes_gradcheck(c: float, bias: bool) -> None:
    z, weight, b = vectors(1, 4, 1.3), vectors(2, 3, 0.8), torch.tensor([0.0, 0.4, -2.0], dtype=torch.float64)
    inputs = [x.requires_grad_() for x in (z, weight, torch.tensor(c, dtype=torch.float64), *((b,) if bias else ()))]

    def layer(z: Tensor, weight: Tensor, c: Tensor, bias: Tensor | None = None) -> Tensor:
        given = {"weight": weight} | ({} if bias is None else {"bias": bias})
        return torch.func.functional_call(Gyroplane(3, 3, PoincareBall(c), bias is not None).double(), given, (z,))

    assert torch.autograd.gradcheck(layer, inputs)


# --------------------------------------------------------------------------------------------------------------------
# The plane: c = 0
# --------------------------------------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("bias", [True, False])
def test_the_number_zero_is_exactly_the_linear_layer_of_torch(dtype: torch.dtype, bias: bool) -> None:
    torch.manual_seed(1)
    linear = nn.Linear(3, 5, bias, dtype=dtype)
    layer = Gyroplane(3, 5, PoincareBall(0.0), bias).to(dtype)
    layer.load_state_dict(linear.state_dict())
    z, pull = torch.randn(7, 3, dtype=dtype), torch.randn(7, 5, dtype=dtype)
    assert torch.equal(layer(z), linear(z))
    for got, expected in zip(gradients(layer, z, pull), gradients(linear, z, pull), strict=True):
        assert torch.equal(got, expected)


def test_it_begins_as_the_linear_layer_of_torch_does() -> None:
    layers = []
    for kind in (nn.Linear, lambda *size: Gyroplane(*size, PoincareBall(1.0))):
        torch.manual_seed(2)
        layers.append(kind(3, 5))
    for got, expected in zip(layers[1].parameters(), layers[0].parameters(), strict=True):
        assert torch.equal(got, expected)


@dtypes
def test_a_tensor_zero_is_the_linear_layer_and_has_a_slope_in_c(dtype: torch.dtype) -> None:
    c = torch.zeros((), dtype=dtype, requires_grad=True)
    weight, bias, z = vectors(1, 3, 0.8, dtype), torch.tensor([0.0, 0.5, -1.0], dtype=dtype), vectors(2, 4, 1.5, dtype)
    layer = layer_of(weight, bias, c)
    tolerance = TOLERANCE["plane"][dtype]
    torch.testing.assert_close(layer(z), nn.functional.linear(z, weight, bias), rtol=tolerance, atol=tolerance)
    pull = torch.linspace(-1, 2, 12, dtype=dtype).reshape(4, 3)
    *others, in_c = gradients(layer, z, pull, c)
    linear = layer_of(weight, bias, 0.0)
    for got, expected in zip(others, gradients(linear, z, pull), strict=True):
        torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
    with mp.workdps(80):
        h = mp.mpf(10) ** -30
        change = oracle.gyroplane(z, weight, bias, h) - oracle.gyroplane(z, weight, bias, 0.0)
        truth = float((oracle.array(pull) * change).sum() / h)
    assert in_c.item() == pytest.approx(truth, rel=TOLERANCE["gradient"][dtype])


# --------------------------------------------------------------------------------------------------------------------
# Far points, far hyperplanes, short normals
# --------------------------------------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("offset", [19.0, 25.0, 165.0, 300.0, 1e4])
def test_far_hyperplanes_agree_with_mpmath(dtype: torch.dtype, offset: float) -> None:
    c = torch.tensor(2.0, dtype=dtype, requires_grad=True)
    length = 0.01
    for seed, radius in enumerate((0.0, 1.0, 15.0, 30.0)):
        weight = vectors(20 + seed, 2, length, dtype)
        bias = torch.tensor([offset, -offset], dtype=dtype) * length / math.sqrt(2)
        z = vectors(30 + seed, 2, radius / math.sqrt(2), dtype)
        check_against_mpmath(layer_of(weight, bias, c), z, c, size=(radius + 1) / math.sqrt(2), dtype=dtype)


@dtypes
@pytest.mark.parametrize("length", [0.0, 1e-38, 1e-20, 1e-6])
@pytest.mark.parametrize("radius", [0.0, 1.0, 15.0, 60.0])
def test_a_hyperplane_without_a_normal_is_its_bias(dtype: torch.dtype, length: float, radius: float) -> None:
    c = torch.tensor(1.3, dtype=dtype, requires_grad=True)
    weight, bias = vectors(1, 3, length, dtype), torch.tensor([0.7, -2.0, 0.0], dtype=dtype)
    layer, z = layer_of(weight, bias, c), vectors(2, 4, radius, dtype)
    small = max(length, 10 * gyroplane_function.SHORTEST)
    torch.testing.assert_close(layer(z), bias.expand(4, 3), rtol=1e-6, atol=2 * small * (1 + radius))
    pull = torch.ones(4, 3, dtype=dtype)
    in_z, in_weight, in_bias, in_c = gradients(layer, z, pull, c)
    assert all(x.isfinite().all() for x in (in_z, in_weight, in_bias, in_c))
    assert in_z.abs().max() <= 10 * small
    torch.testing.assert_close(in_bias[:2], torch.full((2,), 4.0, dtype=dtype), rtol=1e-5, atol=1e-5)


@dtypes
def test_along_a_ray_the_layer_is_linear_in_the_distance(dtype: torch.dtype) -> None:
    # On the ray through the origin along its normal, f(R ŵ) = |w|R + b: distances add.
    weight, bias = vectors(1, 3, 1.7, dtype), torch.tensor([0.0, 0.6, -1.0], dtype=dtype)
    for R in (1e-4, 1.0, 20.0, 22.0, 80.0, 1e4):
        for side in (1.0, -1.0):
            z = (weight.double() / weight.double().norm(dim=-1, keepdim=True) * R * side).to(dtype)
            got = layer_of(weight, bias, 1.0)(z).diagonal()
            expected = weight.norm(dim=-1) * R * side + bias
            torch.testing.assert_close(got, expected, rtol=2e-6 if dtype == torch.float32 else 1e-13, atol=2e-6)


# --------------------------------------------------------------------------------------------------------------------
# Shapes, state, compilation
# --------------------------------------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("length", [1.0, 100.0])
def test_chunks_change_nothing_but_rounding(dtype: torch.dtype, length: float, monkeypatch: pytest.MonkeyPatch) -> None:
    c = torch.tensor(0.7, dtype=dtype, requires_grad=True)
    layer = layer_of(vectors(1, 5, length, dtype), torch.linspace(-1, 1, 5, dtype=dtype), c)
    z, pull = vectors(2, 23, 1.5, dtype), vectors(3, 23, 1.0, dtype, d=5)
    whole = [layer(z), *gradients(layer, z, pull, c)]
    for chunk in (1, 15, 40):
        monkeypatch.setattr(gyroplane_function, "_CHUNK", chunk)
        for part, all_at_once in zip([layer(z), *gradients(layer, z, pull, c)], whole, strict=True):
            ulps = 200 * torch.finfo(dtype).eps
            torch.testing.assert_close(part, all_at_once, rtol=ulps, atol=ulps * length)


@pytest.mark.parametrize("c", [0.0, 1.0, torch.tensor(1.0)], ids=repr)
@pytest.mark.parametrize("batch", [(), (1,), (0,), (4,), (2, 0, 3), (2, 3)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_any_batch_shape_is_kept_also_none_and_empty(c: float | Tensor, batch: tuple[int, ...], bias: bool) -> None:
    layer = Gyroplane(3, 5, PoincareBall(c), bias)
    z = torch.full((*batch, 3), 0.2, requires_grad=True)
    f = layer(z)
    assert f.shape == (*batch, 5)
    (in_z, *others) = torch.autograd.grad(f.sum(), (z, *layer.parameters()))
    assert in_z.shape == z.shape
    assert all((x == 0).all() == (0 in batch) for x in others)
    if batch == ():
        torch.testing.assert_close(f, layer(z[None])[0])


@pytest.mark.parametrize("shape", [(64, 3), (3,), (1,), ()], ids=str)
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_points_of_another_dimension_raise(shape: tuple[int, ...], c: float) -> None:
    message = rf"Gyroplane\(2, 200\) expects points of shape \(\*, 2\), got \({', '.join(map(str, shape))},?\)\."
    with pytest.raises(ValueError, match=message):
        Gyroplane(2, 200, PoincareBall(c))(torch.zeros(shape))


def test_without_bias_every_hyperplane_passes_through_the_origin() -> None:
    layer, z = Gyroplane(3, 5, PoincareBall(1.0), bias=False), vectors(1, 4, 2.0, torch.float32)
    assert layer.bias is None
    assert list(layer.state_dict()) == ["weight", "ball.c"]
    assert torch.equal(layer(torch.zeros(3)), torch.zeros(5))
    torch.testing.assert_close(layer(-z), -layer(z))
    assert torch.equal(layer_of(layer.weight.detach(), torch.zeros(5), 1.0)(z), layer(z))


@pytest.mark.parametrize("learnable", [False, True])
def test_state_dict_makes_the_round_trip(learnable: bool) -> None:
    layer, other = (Gyroplane(3, 5, PoincareBall(c, learnable=learnable)) for c in (0.7, 0.7 if not learnable else 2.0))
    names = {"weight", "bias"} | {"ball.raw_c" if learnable else "ball.c"}
    assert set(layer.state_dict()) == names
    z = vectors(1, 4, 2.0, torch.float32)
    assert not torch.equal(other(z), layer(z))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(z), layer(z))
    assert repr(layer).startswith("Gyroplane(\n  in_features=3, out_features=5, bias=True")


# Dynamo itself instantiates the autograd.Function that it traces.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@dtypes
@pytest.mark.parametrize("learnable", [False, True])
def test_compiled_without_a_graph_break_it_equals_eager(dtype: torch.dtype, learnable: bool) -> None:
    torch.compiler.reset()
    torch.manual_seed(3)
    layer = Gyroplane(3, 5, PoincareBall(0.7, learnable=learnable)).to(dtype)
    z = torch.cat([vectors(seed, 4, radius, dtype) for seed, radius in enumerate((0.5, 3.0, 40.0))]).requires_grad_()
    results = []
    for f in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager")):
        value = f(z)
        results.append([value, *torch.autograd.grad(value.square().sum(), [z, *layer.parameters()])])
    for eager, compiled in zip(*results, strict=True):
        tolerance = TOLERANCE["compiled"][dtype]
        torch.testing.assert_close(compiled, eager, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_rounded_once(dtype: torch.dtype) -> None:
    layer = Gyroplane(2, 3, PoincareBall(1.0)).to(dtype)
    z = torch.randn(5, 2).to(dtype)
    exact = Gyroplane(2, 3, PoincareBall(1.0))
    exact.load_state_dict({name: tensor.float() for name, tensor in layer.state_dict().items()})
    assert layer(z).dtype == dtype
    assert torch.equal(layer(z), exact(z.float()).to(dtype))


def test_points_of_another_dtype_than_the_layer_are_taken() -> None:
    layer, z = Gyroplane(2, 3, PoincareBall(1.0)), torch.tensor([[1.0, -2.0]])
    for kind in (torch.float16, torch.bfloat16, torch.int64):
        assert torch.equal(layer(z.to(kind)), layer(z))  # which all of them hold exactly
    torch.testing.assert_close(layer.double()(z), layer(z.double()), rtol=1e-14, atol=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer.float()(z.bfloat16()).isfinite().all()
