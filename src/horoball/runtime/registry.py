"""Classes by name: those of horoball, and those that plugins register."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from horoball.runtime.plugins import load_plugins

__all__ = ["Registry", "UnknownNameError"]

T = TypeVar("T", bound=type)
_LONGEST = 40  # characters of a name in a message: it may come from a file


class UnknownNameError(ValueError):
    """Nothing is registered under a name.

    Example:
        >>> issubclass(UnknownNameError, ValueError)
        True
    """


class Registry(Generic[T]):
    """Classes by their `name`. Plugins are imported when a name is not known, or when all names are asked for.

    Args:
        what: What the classes are called in messages.

    Example:
        >>> shapes: Registry[type] = Registry("shape")
        >>> @shapes.register
        ... class Round:
        ...     name = "round"
        >>> shapes["round"].__name__, list(shapes)
        ('Round', ['round'])
        >>> shapes["square"]
        Traceback (most recent call last):
        ...
        horoball.runtime.registry.UnknownNameError: Unknown shape 'square'. Choose one of: round. A shape of another ...
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._classes: dict[str, T] = {}

    def register(self, kind: T) -> T:
        """Add a class under its `name`; also a decorator. The same class may be registered again, as notebooks do.

        Raises:
            ValueError: Another class has this name.
        """
        name = getattr(kind, "name", None)
        if not isinstance(name, str) or not name:
            raise TypeError(f"{kind.__name__} needs a class attribute `name`, a text, to be registered under.")
        other = self._classes.get(name, kind)
        if (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ValueError(
                f"The {self.what} {name!r} is {other.__module__}.{other.__qualname__} already. Choose another name "
                f"for {kind.__module__}.{kind.__qualname__}."
            )
        self._classes[name] = kind
        return kind

    def check(self, name: str) -> None:
        """Reject a name under which nothing is registered.

        Raises:
            UnknownNameError: The message lists the names there are.
        """
        if name not in self._classes:
            load_plugins()
        if name not in self._classes:
            shown = repr(name) if len(name) <= _LONGEST else f"{name[:_LONGEST]!r}…"
            raise UnknownNameError(
                f"Unknown {self.what} {shown}. Choose one of: {', '.join(self._classes)}. A {self.what} of another "
                "package needs that package installed."
            )

    def __getitem__(self, name: str) -> T:
        """The class of a name; see `check`."""
        self.check(name)
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        """The names, in the order in which they were registered."""
        load_plugins()
        return iter(self._classes.copy())
