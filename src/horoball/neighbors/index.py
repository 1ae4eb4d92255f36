"""An index of points in the ball: nearest neighbors, ancestors, descendants; kept in a folder.

Beside its points it keeps their names, text or whole numbers, and partitions, as tensors and numbers that are checked
when read. The lift is not kept: it follows from the points for which the index was made.
"""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.neighbors.calibration import Probes, calibrate
from horoball.neighbors.lift import Lift, check_coordinates, in_chart
from horoball.neighbors.partitions import Partitions
from horoball.neighbors.search import Engine, Search, above, below

__all__ = ["Index", "as_names", "engine_from_tensors", "engine_to_tensors", "points_from_tensors"]

_INT64 = np.iinfo(np.int64)


def as_names(names: ArrayLike, n: int) -> np.ndarray:
    """One name a point, as int64 or as Python strings.

    Text is kept in an array of objects: one of fixed width would take as much for every name as for the longest.

    Example:
        >>> as_names(["cat", "dog"], 2)
        array(['cat', 'dog'], dtype=object)
    """
    array = np.fromiter(names, object) if isinstance(names, list | tuple | range) else np.asarray(names)
    if array.shape != (n,):
        raise ValueError(f"Expected one name for each of {n} points, got shape {array.shape}.")
    if array.dtype.kind not in "OTUiu":
        raise TypeError(f"Names are text or whole numbers, got {array.dtype}.")
    kinds = {type(name) for name in array.tolist()}
    if all(issubclass(kind, str) for kind in kinds):
        return np.fromiter(map(str, array.tolist()), object, n)
    if not all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        got = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"Names are text or whole numbers, got {got}.")
    for name in (max(array), min(array)):
        if not _INT64.min <= name <= _INT64.max:
            raise ValueError(f"Names that are numbers go from -2**63 up to 2**63 - 1, got {name}. Pass them as text.")
    return array.astype(np.int64)


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


FILE = "index.safetensors"
_EXACT = 50_000  # points up to which all of them are looked at
_LEAST = 1_000  # points that a calibration needs
_WORTH = 0.3  # share of the points in the partitions that are looked through, beyond which looking at all is as fast
_GROWTH = 2  # the index is made anew when it holds this many times the points, or reaches as far, as when it was made


class Index:
    """Points of a ball, searched by their distance in it [eq:dist].

    Distances are exact, in float64. Up to 50,000 points so are the neighbors; beyond, a search looks only through some
    of the points, as many as find the share `recall` of the true neighbors: of points of the index, which find
    themselves first, of near-duplicates of them, and of fresh queries from the same distribution. Where that would be
    so many that nothing is gained, all points are looked at.

    Args:
        ball: The ball.
        coordinates: What points and queries are given in: `"tangent"`, the tangent chart in which models and
            `PoincareBall` carry them, or `"ball"`, the ball coordinates that estimators, commands and files give.
        recall: The share of true neighbors to be found, in (0, 1]. At 1 all points are looked at.
        exact_up_to: Number of points up to which all are looked at, whatever the recall; at least 1,000.
        seed: Of what is drawn to make the index.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.1]])
        >>> index = Index(PoincareBall(c=1.0)).add(z, names=["animal", "cat", "dog", "lion"])
        >>> distances, ids = index.search(torch.tensor([[1.6, 0.1]]), k=2)
        >>> ids, index.names(ids)
        (tensor([[3, 1]]), array([['lion', 'cat']], dtype=object))
        >>> index.names(index.ancestors(3)[1])
        array(['cat', 'animal'], dtype=object)
    """

    def __init__(
        self,
        ball: PoincareBall,
        *,
        coordinates: str = "tangent",
        recall: float = 0.99,
        exact_up_to: int = _EXACT,
        seed: int = 0,
    ) -> None:
        check_coordinates(coordinates)
        if not 0 < recall <= 1:
            raise ValueError(f"Expected a recall above 0 and up to 1, got {recall:g}.")
        if operator.index(exact_up_to) < _LEAST:
            raise ValueError(f"Expected exact_up_to of at least {_LEAST}, got {exact_up_to}.")
        if not 0 <= operator.index(seed) < 2**31 - 1:
            raise ValueError(f"Expected a seed from 0 to 2³¹ − 2, got {seed}.")
        self.ball = PoincareBall(ball.c_value)  # a copy: a learned c may go on changing
        self.coordinates, self.recall, self.exact_up_to, self.seed = coordinates, recall, exact_up_to, seed
        self._z = torch.empty(0, 0)
        self._names: np.ndarray | None = None
        self._engine: Engine | None = None
        self._probes: Probes | None = None
        self._made = 0  # points when the engine was made
        self._shrunk = False  # whether points were removed since

    def __len__(self) -> int:
        return len(self._z)

    def __repr__(self) -> str:
        """What is in it."""
        d = self._z.shape[1] or "?"
        return f"Index(c={self._c:g}, points={len(self)}, d={d}{', named' if self._names is not None else ''})"

    @property
    def points(self) -> Tensor:
        """The points in the tangent chart, shape (n, d)."""
        return self._z

    def add(self, z: ArrayLike | Tensor, names: ArrayLike | None = None) -> Self:
        """Add points; their ids go on from those that are there.

        Args:
            z: Points, shape (n, d).
            names: Text or a whole number for each; all points have names or none.
        """
        new = in_chart(z, self.ball, self.coordinates, self._z.shape[1] or None, "Points of the index")
        if len(self) and len(new) and (names is None) != (self._names is None):
            raise ValueError(f"The points there have {'no ' if self._names is None else ''}names: all have or none.")
        return self._added(new, None if names is None else as_names(names, len(new)))

    def _added(self, new: Tensor, named: np.ndarray | None) -> Self:
        if not len(new):
            return self
        self._names = None if named is None else _joined(self._names, named)
        if self._engine is not None and not self._fits(new):
            self._engine = None
        # copied, for what was given may be written to later
        self._z = torch.cat((self._z, new)) if len(self) else new.clone()
        if self._engine is not None:
            self._engine.add(new)
        return self

    def remove(self, ids: ArrayLike | Tensor | None = None, *, names: ArrayLike | None = None) -> Self:
        """Remove points, by their ids or by their names.

        Ids count the points that are left: those behind a removed one go down, and names stay what they are. The index
        is made anew by the next search if less than half of the points for which it was made are left.

        Args:
            ids: Ids of the points, each once.
            names: Names of the points, all of which are removed that have such a name.

        Example:
            >>> index = Index(PoincareBall()).add(torch.eye(3), names=["a", "b", "c"])
            >>> index.remove(names=["a"]).names([0, 1])
            array(['b', 'c'], dtype=object)
        """
        if (ids is None) == (names is None):
            raise ValueError("remove expects either ids or names=….")
        gone = torch.zeros(len(self), dtype=torch.bool)
        if names is None:
            asked = np.asarray(ids)
            if asked.size and asked.dtype.kind not in "iu":
                raise TypeError(f"Expected ids of points, which are whole numbers, got {asked.dtype}.")
            rows = [self._id(i) for i in asked.ravel().tolist()]
            if len(set(rows)) < len(rows):
                raise ValueError("An id is there twice. Give each point that is to be removed once.")
            gone[rows] = True
        else:
            for rows in self._rows_of(names).values():
                gone[rows] = True
        return self._keep(~gone)

    def update(self, z: ArrayLike | Tensor, names: ArrayLike) -> Self:
        """Move the points that have such names, and add those that are new.

        A point that is moved comes last, as if it were removed and added.

        Args:
            z: Where they are now, shape (n, d).
            names: Text or a whole number for each, each once.
        """
        new = in_chart(z, self.ball, self.coordinates, self._z.shape[1] or None, "Points of the index")
        named = as_names(names, len(new))
        if len(self) and self._names is None:
            raise ValueError("The points there have no names, so that none can be found. Make the index with names.")
        if self._names is not None:
            _joined(self._names, named)  # refuses names of another kind before anything is removed
        if len(set(named.tolist())) < len(named):
            raise ValueError("A name is there twice. Give each point once.")
        there = self._rows_of(named, missing_ok=True)
        gone = torch.zeros(len(self), dtype=torch.bool)
        for name, rows in there.items():
            if len(rows) > 1:
                raise ValueError(f"{len(rows)} points have the name {str(name)[:40]!r}. Remove them, and add one.")
            gone[rows] = True
        self._keep(~gone)
        return self._added(new, named)

    def search(self, z: ArrayLike | Tensor, k: int = 10) -> tuple[Tensor, Tensor]:
        """The k nearest points of each query. The first search makes the index.

        Args:
            z: Queries, shape (n, d).
            k: How many, at most the number of points.

        Returns:
            Distances, float64, and ids, int64, both of shape (n, k), nearest first. A query that is itself in the index
            finds itself, or another point at the same place.
        """
        k = _whole_index(k)
        if not len(self):
            raise ValueError("The index is empty. Add points first.")
        if not 1 <= k <= len(self):
            raise ValueError(f"Expected k from 1 to the number of points, {len(self)}, got {k}.")
        q = in_chart(z, self.ball, self.coordinates, self._z.shape[1], "Queries")
        search = Search(self._ready(), self.ball, self._z)
        found = search.nearest(q, k) if self._probes is None else search.nearest(q, k, self._probes.of(k))
        return found.distances, found.ids

    def ancestors(
        self, i: int, k: int | None = None, *, angle: float = 90.0, root: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """The points above point i, nearest first: those from which the way to i leads away from the origin.

        j is above i if the angle at j between the ray from the origin and the geodesic to i is at most `angle`.

        Args:
            i: Id of a point.
            k: How many at most; without it all.
            angle: In degrees, above 0 and up to 90. At 90, i lies beyond the hyperplane through j that stands upright
                on the ray.
            root: Id of the point that stands for the origin. The origin is where a prior puts its mass, not the root of
                the data: give one if it is known.

        Returns:
            Distances from i, float64, and ids, int64.
        """
        k, root = None if k is None else _whole_index(k), None if root is None else self._id(root)
        return above(self._z, self._id(i), self.ball, k=k, angle=angle, root=root)

    def descendants(
        self, i: int, k: int | None = None, *, angle: float = 90.0, root: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """The points below point i, nearest first: those that i is an ancestor of. See `ancestors`."""
        k, root = None if k is None else _whole_index(k), None if root is None else self._id(root)
        return below(self._z, self._id(i), self.ball, k=k, angle=angle, root=root)

    def names(self, ids: ArrayLike | Tensor) -> np.ndarray:
        """The names of points, in the shape of their ids."""
        if self._names is None:
            raise ValueError("The points have no names. Give them with add(z, names=…).")
        asked = np.asarray(ids)
        if asked.size and asked.dtype.kind not in "iu":
            raise TypeError(f"Expected ids of points, which are whole numbers, got {asked.dtype}.")
        for i in (asked.min(), asked.max()) if asked.size else ():
            self._id(i)
        return self._names[asked.astype(np.int64)]

    def save(self, folder: str | Path) -> None:
        """Write points, names and partitions to a folder, as safetensors and JSON. Makes the index if no search has."""
        from horoball.storage.checkpoint import names_to_tensors, save_checkpoint
        from horoball.storage.stores import located

        if self._shrunk:  # a file has the partitions of its own points
            self._engine, self._shrunk = None, False
        folder = located(folder)
        folder.mkdir(parents=True, exist_ok=True)
        engine = None if self._exact(len(self)) else self._ready()  # one that looks at everything is made in no time
        tensors, about = engine_to_tensors(engine, self._probes, self._made)
        tensors |= {"points": self._z} | names_to_tensors(self._names)
        settings = {"c": self._c, "coordinates": self.coordinates, "recall": self.recall, "seed": self.seed}
        settings["exact_up_to"] = self.exact_up_to
        save_checkpoint(folder / FILE, tensors, {"index": settings | about})

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read an index back from a folder that `save` wrote. Nothing in it is run, and all of it is checked."""
        from horoball.storage.checkpoint import load_checkpoint, names_from_tensors, reject_incomplete
        from horoball.storage.stores import located

        path = located(folder) / FILE
        tensors, state = load_checkpoint(path)
        with reject_incomplete(path, "is not a whole index of points"):
            about = state["index"]
            index = cls(
                PoincareBall(about["c"]),
                coordinates=about["coordinates"],
                recall=about["recall"],
                exact_up_to=about.get("exact_up_to", _EXACT),  # version 0.1 did not write it
                seed=about["seed"],
            )
            index._z = points_from_tensors(tensors, index.ball)
            index._names = names_from_tensors(tensors, len(index))
            index._engine, index._probes, index._made = engine_from_tensors(tensors, about, index._z)
        return index

    @property
    def _c(self) -> float:
        return self.ball.c_value

    def _id(self, i: int) -> int:
        try:
            number = operator.index(i)
        except TypeError:
            raise TypeError(
                f"Expected the id of a point, a whole number, got {i!r:.60}. Ids count points in the order in which "
                "they were added: the id of a name is its place in the list of names."
            ) from None
        if not 0 <= number < len(self):
            raise IndexError(
                f"Expected an id from 0 to {len(self) - 1}, got {i}." if len(self) else "The index is empty."
            )
        return number

    def _rows_of(self, names: ArrayLike, *, missing_ok: bool = False) -> dict[Any, list[int]]:
        """The ids of the points of each name."""
        if self._names is None:
            if missing_ok:
                return {}
            raise ValueError("The points have no names. Remove them by their ids.")
        wanted = np.fromiter(names, object) if isinstance(names, list | tuple | range) else np.asarray(names)
        found: dict[Any, list[int]] = {name: [] for name in wanted.ravel().tolist()}
        for row, name in enumerate(self._names.tolist()):
            if name in found:
                found[name].append(row)
        lost = [name for name, rows in found.items() if not rows]
        if lost and not missing_ok:
            raise ValueError(f"No point has the name {str(lost[0])[:40]!r}.")
        return found

    def _keep(self, kept: Tensor) -> Self:
        """Leave some points out; the engine keeps its partitions, and is given the points that are left."""
        left = int(kept.sum())
        if left == len(self):
            return self
        engine, of = self._engine, None
        self._z = self._z[kept] if left else torch.empty(0, 0)
        self._names = self._names[kept.numpy()] if self._names is not None and left else None
        self._engine = None
        if engine is not None and left * _GROWTH >= self._made and self._exact(left) == (engine.partitions is None):
            if engine.partitions is not None:
                of = engine.of[kept.numpy()]
            self._engine, self._shrunk = Engine(engine.lift, self._z.shape[1], engine.partitions), True
            self._engine.made_for = engine.made_for
            self._engine.add(self._z, of)
        return self

    def _fits(self, new: Tensor) -> bool:
        """Whether points can be added to the engine as it was made."""
        engine, n = self._engine, len(self) + len(new)
        if engine is None or engine.lift.reaching(new).reach > _GROWTH * engine.made_for:
            return False
        return self._exact(n) or (n <= _GROWTH * self._made and not self._exact(self._made))

    def _exact(self, n: int) -> bool:
        """Whether all points are looked at for their number's or the recall's sake."""
        return n <= self.exact_up_to or self.recall == 1

    def _ready(self) -> Engine:
        """The engine, made if need be."""
        if self._engine is None:
            lift = Lift.of(self._z, self._c)
            partitions, self._probes = None, None
            if not self._exact(len(self)):
                partitions, probes = calibrate(self._z, self.ball, lift, recall=self.recall, seed=self.seed)
                partitions, self._probes = (partitions, probes) if probes.share <= _WORTH else (None, None)
            self._engine, self._made = Engine(lift, self._z.shape[1], partitions), len(self)
            self._shrunk = False
            self._engine.add(self._z)
        return self._engine


def _joined(old: np.ndarray | None, new: np.ndarray) -> np.ndarray:
    if old is None:
        return new
    if old.dtype.kind != new.dtype.kind:
        raise TypeError("The points there have names of another kind: all are text, or all are whole numbers.")
    return np.concatenate((old, new))


def _whole_index(k: int) -> int:
    try:
        return operator.index(k)
    except TypeError:
        raise TypeError(f"Expected k as a whole number, the count of points to find, got {k!r:.60}.") from None
