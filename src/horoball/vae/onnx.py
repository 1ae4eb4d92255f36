"""A trained encoder for programs without horoball: ONNX, or a program of torch.export.

What is exported takes rows in their own units and gives what `horoball embed` writes of them. Scaling, log(1 + x),
the network and the way from the tangent chart to ball coordinates are inside.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from horoball.geometry.manifold import curvatures
from horoball.likelihoods.discrete import no_category
from horoball.storage.stores import StorePath, located
from horoball.storage.whole import whole_file
from horoball.tables.scaling import standardized
from horoball.vae.run import Run

ABOUT = "horoball"  # where a file says how to use it
OUTPUTS = ("z", "radius", "scale", "valid")
_SUFFIXES = (".onnx", ".pt2")


class EncoderProgram(nn.Module):
    """Rows to places, tensors in and tensors out."""

    mean: Tensor
    std: Tensor
    limit: Tensor | None

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(run.model.encoder).cpu()  # the run's own may go on being trained
        self.features, self.categories = len(run.columns), run.model.covariates
        # Not the likelihood: its weights are of no use here.
        self.impossible = copy.deepcopy(run.model.likelihood).cpu().impossible
        self.whole = run.record.whole
        self.scaled = run.scaler is not None
        if run.scaler is not None:
            self.register_buffer("mean", run.scaler.mean)
            self.register_buffer("std", run.scaler.std)
            self.register_buffer("limit", run.scaler.limit)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Ball coordinates, distance from the origin and posterior scale in float64, and whether a row has them.

        A program cannot refuse rows as `embed` does. Where it would, `valid` is false and the numbers are NaN; other
        rows of the same call are not touched.

        Args:
            x: Rows, float32, shape (n, features + covariates); a covariate is the number of its category.
        """
        bad = self.impossible(x[:, : self.features], whole=self.whole).any(-1)
        for number, size in enumerate(self.categories):
            bad = bad | no_category(x[:, self.features + number], size)
        x = torch.where(bad.unsqueeze(-1), torch.zeros_like(x), x)
        seen = standardized(x, self.mean, self.std, self.limit) if self.scaled else x
        z, radius, scale = self.encoder(seen).coordinates()
        valid = ~bad & torch.isfinite(z).all(-1) & torch.isfinite(radius) & torch.isfinite(scale)
        nan = torch.full_like(radius, torch.nan)
        places = torch.where(valid.unsqueeze(-1), z, nan.unsqueeze(-1))
        return places, torch.where(valid, radius, nan), torch.where(valid, scale, nan), valid


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
        >>> from horoball.tables import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.vae.train import train
        >>> x = torch.randn(100, 4)
        >>> run = train(ArrayTable(x), {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> path = Path(tempfile.mkdtemp()) / "encoder.pt2"
        >>> export(run, path)
        >>> z, radius, scale, valid = torch.export.load(path).module()(x)
        >>> torch.equal(z, next(run.embed(ArrayTable(x))))
        True
    """
    path = located(path)
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"An encoder is written to a file named .onnx or .pt2, not {path.name!r}.")
    if not isinstance(path, StorePath) and not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent}. Make it first.")
    if suffix == ".onnx":
        _check_onnx()
    module = EncoderProgram(run).eval().requires_grad_(False)
    about = json.dumps({"columns": run.columns, "covariates": run.record.covariates, **curvatures(run.model.ball)})
    rows = torch.zeros(2, len(run.columns) + len(run.record.covariates))
    shapes = {"x": {0: torch.export.Dim("rows")}}
    with whole_file(path) as file, _quiet():
        program = torch.export.export(module, (rows,), dynamic_shapes=shapes)
        if suffix == ".pt2":
            content = io.BytesIO()  # torch does not write to files that are open
            torch.export.save(program, content, extra_files={ABOUT: about})
            file.write(content.getvalue())
        else:
            file.write(_as_onnx(program, shapes, about))


def _as_onnx(program: torch.export.ExportedProgram, shapes: dict[str, Any], about: str) -> bytes:
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
    return onnx.model_proto.SerializeToString()


def _check_onnx() -> None:
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
