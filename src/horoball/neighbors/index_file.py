"""What an index keeps in a file beside its points: partitions, as tensors and numbers that are checked when read.

The lift is not kept: it follows from the points for which the index was made.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.manifolds import PoincareBall
from horoball.neighbors.calibration import Probes
from horoball.neighbors.engine import Engine
from horoball.neighbors.lift import Lift
from horoball.neighbors.partitions import Partitions
from horoball.neighbors.points import in_chart

__all__ = ["engine_from_tensors", "engine_to_tensors", "points_from_tensors"]

_WIDEST = 1e3  # of width and stretch, which are about 1


def points_from_tensors(tensors: dict[str, Tensor], ball: PoincareBall) -> Tensor:
    """The points of an index, checked.

    Example:
        >>> points_from_tensors({"points": torch.zeros(1, 2)}, PoincareBall())
        tensor([[0., 0.]])
    """
    z = tensors["points"]
    if z.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"its points are float32 or float64, got {z.dtype}.")
    return in_chart(z, ball, "tangent", None, "Points of the index") if z.numel() else torch.empty(0, 0)


def engine_to_tensors(
    engine: Engine | None, probes: Probes | None, made: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and numbers of the engine of a large index: its partitions, or that it was measured to do without.

    Args:
        engine: The engine.
        probes: How many partitions are looked through.
        made: Number of points for which it was made.

    Example:
        >>> engine_to_tensors(None, None, 0)
        ({}, {})
    """
    if engine is None:
        return {}, {}
    if engine.partitions is None or probes is None:
        return {}, {"flat": {"made": made}}
    partitions = engine.partitions
    about: dict[str, Any] = {"width": partitions.width, "curved": partitions.curved, "stretch": partitions.stretch}
    about |= {"made": made, "own": probes.own, "few": probes.few, "many": probes.many, "share": probes.share}
    tensors = {"partitions.centers": partitions.centers, "partitions.of": torch.from_numpy(engine.of)}
    return tensors, {"partitions": about}


def engine_from_tensors(
    tensors: dict[str, Tensor], about: dict[str, Any], z: Tensor
) -> tuple[Engine | None, Probes | None, int]:
    """The engine that `engine_to_tensors` wrote; refuses what it cannot have written.

    Files of version 0.1 hold partitions as "cells", which were measured on fresh queries alone. They are left aside,
    and the index is made anew by the first search.

    Example:
        >>> engine_from_tensors({}, {"c": 1.0}, torch.zeros(1, 2))
        (None, None, 0)
    """
    n, d = z.shape
    if "flat" in about:
        made = _whole(about["flat"], "made", n)
        engine = Engine(Lift.of(z[:made], about["c"]), d)
        engine.add(z)
        return engine, None, made
    if "partitions" not in about:
        return None, None, 0
    said = about["partitions"]
    centers, of = tensors["partitions.centers"], tensors["partitions.of"]
    if centers.dtype != torch.float32 or centers.shape[1:] != (d + 1,) or not bool(centers.isfinite().all()):
        raise ValueError(f"its centers are finite float32 of shape (m, {d + 1}), got {_described(centers)}.")
    m = len(centers)
    if of.dtype != torch.int32 or of.shape != (n,) or not bool(((of >= 0) & (of < m)).all()):
        raise ValueError(f"its partitions are int32 from 0 to {m - 1} for {n} points, got {_described(of)}.")
    made = _whole(said, "made", n)
    own, few, many = (_whole(said, name, m) for name in ("own", "few", "many"))
    width, stretch = (_number(said, name, _WIDEST) for name in ("width", "stretch"))
    if type(said["curved"]) is not bool:
        raise ValueError("its curved is neither true nor false.")
    lift = Lift.of(z[:made], about["c"])
    partitions = Partitions(centers, lift, width, said["curved"], stretch)
    if not partitions.are_finite():
        raise ValueError("its centers are too far out.")
    engine = Engine(lift, d, partitions)
    engine.add(z, of.numpy())
    return engine, Probes(own, few, max(few, many), _number(said, "share", 1.0)), made


def _whole(said: dict[str, Any], name: str, most: int) -> int:
    value = said[name]
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"its {name} is a whole number from 1 to {most}, got {str(value)[:20]}.")
    return value


def _number(said: dict[str, Any], name: str, most: float) -> float:
    value = said[name]
    if type(value) not in (int, float) or not 0 < value <= most:
        raise ValueError(f"its {name} is a number above 0 and up to {most:g}, got {str(value)[:20]}.")
    return float(value)


def _described(tensor: Tensor) -> str:
    finite = "" if bool(tensor.isfinite().all()) else " that are not finite"
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}{finite}"
