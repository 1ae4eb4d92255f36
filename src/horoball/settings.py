"""Settings that can be kept: frozen dataclasses of plain numbers and names, whatever kinds they are given as.

A number out of a numpy array is as good as one of Python's, but JSON does not hold it; and what is no number at all is
better refused where it is set than where it is used.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

__all__ = ["Settings"]

# A field's annotation → how it is kept, what is taken for it, what it is called.
_KINDS: dict[str, tuple[Any, Any, str]] = {
    "int": (int, Integral, "a whole number"),
    "float": (float, Real, "a number"),
    "bool": (bool, (bool, np.bool_), "True or False"),
    "str": (str, str, "a word"),
}


@dataclass(frozen=True)
class Settings:
    """What a model or a run is made from. A subclass is a frozen dataclass too, of the kinds below.

    Example:
        >>> @dataclass(frozen=True)
        ... class Cake(Settings):
        ...     layers: int = 2
        ...     sugar: float = 1.0
        >>> Cake(layers=np.int64(3)).as_dict()
        {'layers': 3, 'sugar': 1.0}
        >>> Cake(layers=2.5)
        Traceback (most recent call last):
        ...
        ValueError: layers is a whole number, got 2.5.
    """

    def __post_init__(self) -> None:
        """Bring every field to its kind."""
        for field in fields(self):
            object.__setattr__(self, field.name, _plain(field.name, str(field.type), getattr(self, field.name)))

    def as_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON.

        Example:
            >>> Settings().as_dict()
            {}
        """
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `as_dict`.

        Example:
            >>> Settings.from_dict({}) == Settings()
            True
        """
        return cls(**fields)

    def replace(self, **changes: Any) -> Self:
        """The same with some fields changed.

        Example:
            >>> Settings().replace() == Settings()
            True
        """
        return replace(self, **changes)


def _plain(name: str, kind: str, value: Any) -> Any:
    if kind == "int | None":
        return None if value is None else _plain(name, "int", value)
    if kind == "tuple[int, ...]":
        values = value if isinstance(value, list | tuple | np.ndarray) else (value,)
        return tuple(_plain(name, "int", each) for each in values)
    make, accepted, words = _KINDS[kind]
    if not isinstance(value, accepted) or (make in (int, float) and isinstance(value, bool | np.bool_)):
        raise ValueError(f"{name} is {words}, got {value!r}.")
    return make(value)
