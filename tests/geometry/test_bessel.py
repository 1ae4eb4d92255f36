from __future__ import annotations

from itertools import product

import mpmath as mp
import pytest
import torch

from horoball.geometry.kernels import log_bessel

TOLERANCE = 1e-15  # relative to the largest term of the sum: four roundings of float64
ORDERS = (0.0, 0.5, 1.0, 4.5, 31.5, 63.0, 63.5, 64.0, 127.0, 383.0, 1535.0, 50_000.0)
KAPPAS = (0.0, 1e-30, 1e-8, 0.3, 1.0, 20.0, 63.0, 500.0, 3e4, 1e8)


def truth(order: float, kappa: float) -> mp.mpf:
    """log(I_ν(κ)/κ^ν) by its series at 0, by Bessel's function elsewhere."""
    with mp.workdps(60):
        nu, k = mp.mpf(order), mp.mpf(kappa)
        if kappa < 1e-6:
            return -nu * mp.log(2) - mp.loggamma(nu + 1) + k**2 / (4 * (nu + 1))
        return mp.log(mp.besseli(nu, k)) - nu * mp.log(k)


@pytest.mark.parametrize("order", ORDERS)
def test_the_log_of_bessels_function_is_the_definition_from_0_to_huge_arguments(order: float) -> None:
    for kappa in KAPPAS:
        if kappa > 500 and order > 500:
            continue  # where mpmath's series does not end; in proportion, smaller orders are the same case
        got = float(log_bessel(order, torch.tensor(kappa, dtype=torch.float64).square()))
        wanted = truth(order, kappa)
        start = max(order, 64.0)  # lower orders are reached from there
        largest = max(kappa, start * float(mp.log(start)))
        assert abs(got - float(wanted)) < TOLERANCE * largest, (order, kappa, got, float(wanted))


def test_its_gradient_is_that_of_the_definition_and_finite_at_0() -> None:
    for order, kappa in product((0.0, 4.5, 127.0), (0.0, 1e-8, 1.0, 63.0, 3e4)):
        square = torch.tensor(kappa**2, dtype=torch.float64, requires_grad=True)
        (got,) = torch.autograd.grad(log_bessel(order, square), square)
        with mp.workdps(40):  # d/dκ² = I_(ν+1)/(2κ I_ν)
            wanted = (
                1 / (4 * (mp.mpf(order) + 1))
                if kappa < 1e-6
                else mp.besseli(order + 1, kappa) / mp.besseli(order, kappa) / (2 * kappa)
            )
        assert float(got) == pytest.approx(float(wanted), rel=1e-12), (order, kappa)
