"""What an index keeps in a file beside its points: cells, as tensors and numbers that are checked when read."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from horoball.manifolds import PoincareBall
from horoball.neighbors.calibration import Probes
from horoball.neighbors.cells import Cells
from horoball.neighbors.engine import Engine
from horoball.neighbors.lift import Lift
from horoball.neighbors.points import in_chart

__all__ = ["engine_from_tensors", "engine_to_tensors", "points_from_tensors"]


def points_from_tensors(tensors: dict[str, Tensor], ball: PoincareBall) -> Tensor:
    """The points of an index, checked.

    Example:
        >>> points_from_tensors({"points": torch.zeros(1, 2)}, PoincareBall())
        tensor([[0., 0.]])
    """
    z = tensors["points"]
    return in_chart(z, ball, "tangent", None, "Points of the index") if z.numel() else torch.empty(0, 0)


def engine_to_tensors(
    engine: Engine | None, probes: Probes | None, made: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and numbers of an engine with cells; nothing of one without, which is made in no time.

    Example:
        >>> engine_to_tensors(None, None, 0)
        ({}, {})
    """
    if engine is None or engine.cells is None or probes is None:
        return {}, {}
    cells = engine.cells
    about: dict[str, Any] = {
        "width": cells.width,
        "curved": cells.curved,
        "stretch": cells.stretch,
        "unit": engine.lift.unit,
    }
    about |= {"made": made, "made_for": engine.made_for, "probes": [probes.few, probes.many]}
    return {"cells.centres": cells.centres, "cells.of": torch.from_numpy(engine.of)}, {"cells": about}


def engine_from_tensors(
    tensors: dict[str, Tensor], about: dict[str, Any], z: Tensor
) -> tuple[Engine | None, Probes | None, int]:
    """The engine that `engine_to_tensors` wrote; refuses what it cannot have written.

    Example:
        >>> engine_from_tensors({}, {"c": 1.0}, torch.zeros(1, 2))
        (None, None, 0)
    """
    if "cells" not in about:
        return None, None, 0
    said, (n, d) = about["cells"], z.shape
    centres, of = tensors["cells.centres"], tensors["cells.of"]
    if centres.dtype != torch.float32 or centres.shape[1:] != (d + 1,) or not bool(centres.isfinite().all()):
        raise ValueError(f"its centres are no finite float32 of shape (m, {d + 1}).")
    if of.dtype != torch.int32 or of.shape != (n,) or not bool(((of >= 0) & (of < len(centres))).all()):
        raise ValueError(f"its cells are no numbers of {len(centres)} cells for {n} points.")
    width, stretch, unit, made_for = (_positive(said, name) for name in ("width", "stretch", "unit", "made_for"))
    few, many = (int(_positive({"probes": number}, "probes")) for number in said["probes"])
    lift = Lift(about["c"] * unit * unit, unit, made_for)
    engine = Engine(lift, d, Cells(centres, width, bool(said["curved"]), stretch))
    engine.add(z, of.numpy())
    return engine, Probes(max(few, 1), max(few, many, 1)), int(_positive(said, "made"))


def _positive(said: dict[str, Any], name: str) -> float:
    value = float(said[name])
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"its {name} is {value:g}.")
    return value
