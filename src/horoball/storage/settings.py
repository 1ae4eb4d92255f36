"""Settings that can be kept: frozen dataclasses of plain numbers and names, whatever kinds they are given as.

A number out of a numpy array is as good as one of Python's, but JSON does not hold it; and a value that is of the wrong
kind or out of range is better refused where it is set than where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

_LONGEST = 30  # characters of a number in a message
# A field's annotation → how it is kept, what is taken for it, what it is called.
_KINDS: dict[str, tuple[Any, Any, str]] = {
    "int": (int, Integral, "a whole number"),
    "float": (float, Real, "a number"),
    "bool": (bool, (bool, np.bool_), "True or False"),
    "str": (str, str, "a word"),
}


class SettingError(ValueError):
    """A setting is of the wrong kind or out of range.

    Args:
        name: The setting.
        problem: What is wrong with it, to be read after the name.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name, self.problem = name, problem


@contextmanager
def called(**names: str) -> Iterator[None]:
    """Report settings by the names that a caller knows them under.

    Example:
        >>> with called(d="n_components"):
        ...     raise SettingError("d", "must be at least 1, got 0.")
        Traceback (most recent call last):
        ...
        horoball.storage.settings.SettingError: n_components must be at least 1, got 0.
    """
    try:
        yield
    except SettingError as error:
        raise SettingError(names.get(error.name, error.name), error.problem) from None


class Range(NamedTuple):
    """The values that a numeric setting may have: finite, from `low` to `high`.

    Example:
        >>> Range(0, 1, below=True).words, 1.0 in Range(0, 1), 1.0 in Range(0, 1, below=True)
        ('at least 0 and below 1', True, False)
    """

    low: float
    high: float
    hint: str = ""  # a useful value, or what to do instead
    above: bool = False  # whether low itself is out of range
    below: bool = False  # whether high itself is

    def __contains__(self, value: object) -> bool:
        """Whether a number is in the range; NaN is in none."""
        number: Any = value
        least = self.low < number if self.above else self.low <= number
        return bool(least and (number < self.high if self.below else number <= self.high))

    @property
    def words(self) -> str:
        """The range in words."""
        least, most = "above" if self.above else "at least", "below" if self.below else "at most"
        return f"{least} {self.low:g} and {most} {self.high:g}"


@dataclass(frozen=True)
class Settings:
    """What a model or a run is made from. A subclass is a frozen dataclass too, of the kinds below.

    `RANGES` says which values a numeric field may have; each of several, if the field is a tuple.

    Example:
        >>> @dataclass(frozen=True)
        ... class Cake(Settings):
        ...     RANGES: ClassVar = {"layers": Range(1, 9, "Most cakes have 2.")}
        ...     layers: int = 2
        ...     sugar: float = 1.0
        >>> Cake(layers=np.int64(3)).as_dict()
        {'layers': 3, 'sugar': 1.0}
        >>> Cake(layers=2.5)
        Traceback (most recent call last):
        ...
        horoball.storage.settings.SettingError: layers is a whole number, got 2.5.
        >>> Cake(layers=0)
        Traceback (most recent call last):
        ...
        horoball.storage.settings.SettingError: layers must be at least 1 and at most 9, got 0. Most cakes have 2.
    """

    RANGES: ClassVar[dict[str, Range]] = {}

    def __post_init__(self) -> None:
        """Bring every field to its kind, and refuse what is out of its range."""
        for field in fields(self):
            object.__setattr__(self, field.name, self.checked(field.name, getattr(self, field.name)))

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """A value for a field, of the field's kind and within its range.

        Raises:
            SettingError: It is of another kind, or out of range.

        Example:
            >>> Settings().checked("color", 3)
            Traceback (most recent call last):
            ...
            KeyError: 'color'
        """
        kind = {field.name: str(field.type) for field in fields(cls)}[name]
        plain = _plain(name, kind, value)
        allowed = cls.RANGES.get(name)
        if allowed is None or plain is None:
            return plain
        for number in plain if isinstance(plain, tuple) else (plain,):
            if number not in allowed:
                shown = repr(number)
                shown = shown if len(shown) < _LONGEST else f"{shown[:_LONGEST]}…"
                raise SettingError(name, f"must be {allowed.words}, got {shown}. {allowed.hint}".rstrip())
        return plain

    def as_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `as_dict`."""
        return cls(**fields)

    def replace(self, **changes: Any) -> Self:
        """The same with some fields changed."""
        return replace(self, **changes)


def _plain(name: str, kind: str, value: Any) -> Any:
    if kind == "int | None":
        return None if value is None else _plain(name, "int", value)
    if kind == "tuple[int, ...]":
        values = value if isinstance(value, list | tuple | np.ndarray) else (value,)
        return tuple(_plain(name, "int", each) for each in values)
    make, accepted, words = _KINDS[kind]
    if not isinstance(value, accepted) or (make in (int, float) and isinstance(value, bool | np.bool_)):
        raise SettingError(name, f"is {words}, got {value!r}.")
    try:
        return make(value)
    except OverflowError:  # a whole number of hundreds of digits
        raise SettingError(name, f"is {words} that float64 can hold, got {str(value)[:20]}….") from None
