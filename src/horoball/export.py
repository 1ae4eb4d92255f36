"""A trained encoder for programs without horoball: ONNX, or a program of torch.export.

What is exported takes rows in their own units and gives what `horoball embed` writes of them. Scaling, log(1 + x),
the network and the way from the tangent chart to ball coordinates are inside.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from horoball.data.standardize import standardized
from horoball.models.posterior import place
from horoball.training.run import Run

__all__ = ["ABOUT", "OUTPUTS", "Places", "export"]

ABOUT = "horoball"  # where a file says how to use it
OUTPUTS = ("z", "radius", "scale")
_SUFFIXES = (".onnx", ".pt2")


class Places(nn.Module):
    """Rows to places, tensors in and tensors out.

    Args:
        run: The fitted model.

    Example:
        >>> from horoball.data import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.run import train
        >>> run = train(ArrayTable(torch.randn(100, 4)), {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> z, radius, scale = Places(run)(torch.randn(3, 4))
        >>> z.shape, z.dtype, radius.shape, scale.shape
        (torch.Size([3, 2]), torch.float64, torch.Size([3]), torch.Size([3]))
    """

    mean: Tensor
    std: Tensor

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(run.model.encoder)  # the run's own may go on being trained
        self.scaled = run.scaler is not None
        if run.scaler is not None:
            self.register_buffer("mean", run.scaler.mean)
            self.register_buffer("std", run.scaler.std)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Ball coordinates, distance from the origin, posterior scale; float64.

        Args:
            x: Rows, float32, shape (n, features + covariates); a covariate is the number of its category.
        """
        return place(self.encoder(standardized(x, self.mean, self.std) if self.scaled else x))


def export(run: Run, path: str | Path) -> None:
    """Write the encoder of a run to a file, .onnx or .pt2, which takes any number of rows `x`.

    A file also says how to use it: the names of the columns in their order, the categories of covariates, and c, as
    JSON under "horoball" in the metadata of ONNX or the extra files of torch.

    Args:
        run: The fitted model.
        path: The file.

    Raises:
        ImportError: ONNX is not installed; the message says how to.

    Example:
        >>> import tempfile
        >>> from horoball.data import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.run import train
        >>> x = torch.randn(100, 4)
        >>> run = train(ArrayTable(x), {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> path = Path(tempfile.mkdtemp()) / "encoder.pt2"
        >>> export(run, path)
        >>> z, radius, scale = torch.export.load(path).module()(x)
        >>> torch.equal(z, next(run.embed(ArrayTable(x))))
        True
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"An encoder is written to a file named .onnx or .pt2, not {path.name!r}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent}. Make it first.")
    if suffix == ".onnx":
        _expect_onnx()
    module = Places(run).eval().requires_grad_(False)
    covariates = run.about.get("covariates", {})
    about = json.dumps({"columns": run.columns, "covariates": covariates, "c": run.model.ball.c_value})
    rows = torch.zeros(2, len(run.columns) + len(covariates))
    shapes = {"x": {0: torch.export.Dim("rows")}}
    part = path.with_name(f"{path.stem}.{os.getpid()}.part{suffix}")
    try:
        with _quiet():
            program = torch.export.export(module, (rows,), dynamic_shapes=shapes)
            if suffix == ".pt2":
                torch.export.save(program, part, extra_files={ABOUT: about})
            else:
                _save_onnx(program, shapes, about, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _save_onnx(program: torch.export.ExportedProgram, shapes: dict[str, Any], about: str, path: Path) -> None:
    onnx = torch.onnx.export(
        program,
        dynamo=True,
        dynamic_shapes=shapes,
        input_names=["x"],
        output_names=list(OUTPUTS),
        verbose=False,
    )
    if onnx is None:
        raise RuntimeError("torch.onnx.export returned no program.")
    onnx.model.metadata_props[ABOUT] = about
    onnx.save(path, external_data=False)


def _expect_onnx() -> None:
    try:
        import onnxscript  # noqa: F401
    except ModuleNotFoundError:
        raise ImportError('ONNX files need onnxscript. Install it with: pip install "horoball[onnx]".') from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporters say about packages that are of no matter here."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
