"""The record of a fit to a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from horoball.models.graph.vae import GraphConfig
from horoball.storage.settings import Settings
from horoball.training.record import FitRecord

__all__ = ["GraphRecord"]


@dataclass(frozen=True, kw_only=True)
class GraphRecord(FitRecord):
    """The record of a fit to a graph.

    Example:
        >>> from horoball.training import TrainConfig
        >>> GraphRecord(model=GraphConfig(nodes=4), training=TrainConfig(), edges=3, digest="0f", non_edges=-1)
        Traceback (most recent call last):
        ...
        ValueError: its non_edges is '-1'.
    """

    KIND: ClassVar[str] = "graph"
    COMMAND: ClassVar[str] = "graph fit"
    READERS: ClassVar[str] = (
        "`horoball graph embed`, `horoball graph evaluate` and `horoball graph info`, or PoincareGraphVAE.load"
    )
    MODEL: ClassVar[type[Settings]] = GraphConfig
    FIXED: ClassVar[tuple[str, ...]] = ("non_edges",)

    model: GraphConfig
    edges: int
    digest: str  # of edges, features, names and held-out pairs
    non_edges: int | None = None  # pairs drawn for every edge; None for all pairs
    test: float = 0.0  # fraction of the edges held out

    def __post_init__(self) -> None:
        """Refuse fields of other types."""
        drawn = self.non_edges
        for name, good in (
            ("edges", type(self.edges) is int and self.edges >= 0),
            ("digest", isinstance(self.digest, str)),
            ("non_edges", drawn is None or (type(drawn) is int and drawn >= 0)),
            ("test", type(self.test) in (int, float) and 0 <= self.test < 1),
            ("version", isinstance(self.version, str)),
        ):
            if not good:
                raise ValueError(f"its {name} is {str(getattr(self, name))[:40]!r}.")

    def _differences(self, old: GraphRecord) -> Iterator[str]:
        if (old.digest, old.edges, old.model.nodes) != (self.digest, self.edges, self.model.nodes):
            yield "is of another graph. Resume with the file and the options of the first fit."
        yield from super()._differences(old)
