"""The command line: `horoball --help`."""

from typing import Any

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    """Import the commands when they are first asked for, so that even this can be interrupted."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from horoball.cli import fit, graphs, index, models, tree  # noqa: F401  which add themselves
    from horoball.cli.console import app

    return app
