"""Parts from outside are checked by mypy --strict against the protocols, without an import of anything private."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

SOURCE = """
import math

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal

from horoball.geometry.manifold import Manifold
from horoball.vae.parts import Decoder, Encoder, Prior


class Plane:
    @property
    def injectivity_radius(self) -> float:
        return math.inf

    def dist(self, z: Tensor, y: Tensor) -> Tensor:
        return (z - y).square().sum(-1).sqrt()

    def exp(self, z: Tensor, v: Tensor) -> Tensor:
        return z + v

    def log(self, z: Tensor, y: Tensor) -> Tensor:
        return y - z

    def log_volume(self, v: Tensor) -> Tensor:
        return torch.zeros(v.shape[:-1])


class Rows(nn.Module):
    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, outputs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return out


class Points(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return z


class Standard(nn.Module):
    @property
    def ball(self) -> Manifold:
        return Plane()

    def forward(self) -> Distribution:
        return Independent(Normal(torch.zeros(2), torch.ones(2)), 1)


manifold: Manifold = Plane()
encoder: Encoder = Rows(3, 4)
decoder: Decoder = Points()
prior: Prior = Standard()
"""
WRONG = SOURCE.replace("def log(self", "def logarithm(self").replace("forward(self, z: Tensor)", "forward(self)")


def checked(path: Path, source: str) -> subprocess.CompletedProcess[str]:
    path.write_text(source.replace("return z\n\n\nclass Standard", "return torch.zeros(1)\n\n\nclass Standard"))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += ["--cache-dir", str(path.parent / "cache"), str(path)]
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=path.parent)


def test_protocols_are_met_from_outside_as_mypy_sees_them(tmp_path: Path) -> None:
    good = checked(tmp_path / "parts.py", SOURCE)
    assert good.returncode == 0, good.stdout + good.stderr
    wrong = checked(tmp_path / "wrong.py", WRONG)
    assert wrong.returncode == 1
    assert "Found 3 errors" in wrong.stdout  # the manifold as a value and of the prior, and the decoder
    for said in ('got "Plane", expected "Manifold"', 'variable has type "Manifold"', 'variable has type "Decoder"'):
        assert said in wrong.stdout, wrong.stdout
