"""Plugins: modules of other installed packages that register likelihoods, posterior families or readers.

A package names its module under the entry-point group `horoball.plugins`. Only what is installed is imported: neither a
run's folder nor a data file can name a module to import.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from threading import RLock

__all__ = ["GROUP", "load_plugins"]

GROUP = "horoball.plugins"
_lock = RLock()  # a plugin may ask a registry while it is imported
_loaded = False


def load_plugins() -> None:
    """Import the modules of all installed plugins, once per process.

    Raises:
        ImportError: A plugin could not be imported; the message names its package.

    Example:
        >>> load_plugins()
    """
    global _loaded
    with _lock:
        if _loaded:
            return
        _loaded = True
        for entry in entry_points(group=GROUP):
            try:
                entry.load()
            except Exception as error:
                _loaded = False  # the next one who asks is told as well
                package = entry.dist.name if entry.dist is not None else entry.value
                raise ImportError(
                    f"The plugin {entry.value!r} of the package {package!r} cannot be imported: "
                    f"{type(error).__name__}: {error} Update or uninstall {package!r}."
                ) from error
