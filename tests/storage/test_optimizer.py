"""Moments of Adam from a file: all of them are checked before Adam sees one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from horoball.storage.checkpoint import load_checkpoint, load_optimizer, optimizer_tensors, save_checkpoint
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.vae.train import train

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import
Tensors = dict[str, Tensor]


def optimizer_of(*, steps: int = 1, amsgrad: bool = False) -> torch.optim.Adam:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=amsgrad, fused=True)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
    return optimizer


def put(name: str, tensor: Tensor) -> Callable[[Tensors], Tensors]:
    return lambda tensors: tensors | {f"optimizer.{name}": tensor}


def without(name: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {key: tensor for key, tensor in tensors.items() if not key.startswith(f"optimizer.{name}")}


WRONG: dict[str, tuple[Callable[[Tensors], Tensors], str]] = {
    "a mean of one number": (put("0.exp_avg", torch.zeros(1)), r"its optimizer.0.exp_avg has shape \(1,\), expected"),
    "a square of one number": (put("0.exp_avg_sq", torch.zeros(1)), r"0.exp_avg_sq has shape \(1,\), expected"),
    "a scalar": (put("1.exp_avg", torch.tensor(0.0)), r"1.exp_avg has shape \(\), expected \(2,\)"),
    "7 × 7 numbers": (put("0.exp_avg", torch.zeros(7, 7)), r"has shape \(7, 7\), expected \(2, 3\)"),
    "as many numbers in another shape": (put("0.exp_avg", torch.zeros(3, 2)), r"has shape \(3, 2\), expected"),
    "double precision": (put("0.exp_avg", torch.zeros(2, 3).double()), "0.exp_avg is float64, expected float32"),
    "half precision": (put("0.exp_avg_sq", torch.zeros(2, 3).half()), "is float16, expected float32"),
    "whole numbers": (put("1.exp_avg", torch.zeros(2).long()), "is int64, expected float32"),
    "a mean that is not finite": (put("1.exp_avg", torch.tensor([0, torch.nan])), "values that are not finite"),
    "a square that is not finite": (put("1.exp_avg_sq", torch.tensor([0, torch.inf])), "values that are not finite"),
    "a negative square": (put("1.exp_avg_sq", torch.tensor([0.0, -1.0])), "its optimizer.1.exp_avg_sq is negative"),
    "a step of another shape": (put("0.step", torch.ones(1)), r"0.step has shape \(1,\), expected \(\)"),
    "a negative step": (put("0.step", torch.tensor(-3.0)), "its optimizer.0.step is negative"),
    "half a step": (put("0.step", torch.tensor(1.5)), "is 1.5, not a number of steps"),
    "no end of steps": (put("0.step", torch.tensor(torch.inf)), "its optimizer.0.step has values that are not finite"),
    "no moment of a parameter": (without("1."), "it lacks optimizer.1.exp_avg"),
    "no mean": (without("0.exp_avg"), "it lacks optimizer.0.exp_avg"),
    "no step": (without("0.step"), "it lacks optimizer.0.step"),
    "a parameter too many": (put("2.exp_avg", torch.zeros(2)), "it has optimizer.2.exp_avg, which does not belong"),
    "a moment of another kind": (put("0.max_exp_avg_sq", torch.zeros(2, 3)), "which does not belong there"),
    "no number": (put("x.step", torch.tensor(1.0)), "it has optimizer.x.step, which does not belong there"),
    "no field": (put("0", torch.zeros(2, 3)), "it has optimizer.0, which does not belong there"),
}


@pytest.mark.parametrize("case", WRONG)
def test_moments_that_are_not_the_parameters_are_refused(case: str) -> None:
    change, says = WRONG[case]
    optimizer = optimizer_of(steps=0)
    with pytest.raises(ValueError, match=says):
        load_optimizer(optimizer, change(optimizer_tensors(optimizer_of())))
    assert not optimizer.state


def test_what_is_right_is_taken() -> None:
    for amsgrad in (False, True):
        saved = optimizer_tensors(optimizer_of(steps=3, amsgrad=amsgrad))
        fresh = optimizer_of(steps=0, amsgrad=amsgrad)
        load_optimizer(fresh, saved)
        assert all(torch.equal(tensor, saved[name]) for name, tensor in optimizer_tensors(fresh).items())


FIT = """
import sys, torch
from pathlib import Path
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.vae.train import train
x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
train(ArrayTable(x), {"hidden": (int(sys.argv[2]),)}, TrainConfig(max_epochs=3), Path(sys.argv[1]), resume=True)
"""


@pytest.mark.parametrize(("hidden", "shape"), [(8, (7, 7)), (20_000, (1,))], ids=["small", "large"])
def test_resume_refuses_moments_of_another_shape_and_does_not_crash(
    hidden: int, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """In a process of its own: moments of one number beside a layer of 20,000 units used to end it by SIGSEGV."""
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    train(ArrayTable(x), {"hidden": (hidden,)}, TrainConfig(max_epochs=1), tmp_path)
    tensors, header = load_checkpoint(tmp_path / "last.safetensors")
    wrong = {name: torch.zeros(shape) for name in tensors if ".exp_avg" in name}
    assert wrong
    save_checkpoint(tmp_path / "last.safetensors", tensors | wrong, header)
    command = [sys.executable, "-W", "ignore", "-c", FIT, str(tmp_path), str(hidden)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "last.safetensors is not a checkpoint to resume from: its optimizer." in done.stderr.splitlines()[-1]
