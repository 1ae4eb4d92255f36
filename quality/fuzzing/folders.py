"""Changes to a folder that leave its files as they are: exchanged, missing, empty, or no regular files at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from random import Random
from typing import NamedTuple

__all__ = ["FOLDERS", "Entry", "Folder", "FolderDamage", "Given", "Special"]


class Special(NamedTuple):
    """What is in a folder where a file should be."""

    kind: str  # "link", "pipe" or "folder"
    target: str = ""  # of a link; {outside} is a folder of files that must stay as they are


Entry = bytes | Special
Folder = dict[str, Entry]


class Given(NamedTuple):
    """One input."""

    files: Folder
    said: str  # what was done to a sound folder
    foreign: str = ""  # the file that another run left, if that alone was done


FolderDamage = Callable[[Random, Folder, Sequence[str], Sequence[Folder]], Given]

_TARGETS = ("{outside}/canary", "{outside}/canary", "{outside}/none", "{outside}/copy", "{outside}", "/dev/zero", ".")


def _exchange(rng: Random, folder: Folder, victims: Sequence[str], others: Sequence[Folder]) -> Given:
    """A file is that of another run, which may be of the same size."""
    name = rng.choice(victims)
    held = [other[name] for other in others if name in other and other[name] != folder.get(name)]
    if not held:
        return _missing(rng, folder, victims, others)
    there = name in folder
    folder[name] = rng.choice(held)
    return Given(folder, f"{name} of another run", name if there else "")


def _missing(rng: Random, folder: Folder, victims: Sequence[str], others: Sequence[Folder]) -> Given:
    name = rng.choice(victims)
    folder.pop(name, None)
    return Given(folder, f"no {name}")


def _empty(rng: Random, folder: Folder, victims: Sequence[str], others: Sequence[Folder]) -> Given:
    name = rng.choice(victims)
    folder[name] = b""
    return Given(folder, f"{name} is empty")


def _irregular(rng: Random, folder: Folder, victims: Sequence[str], others: Sequence[Folder]) -> Given:
    """A named pipe or a folder in a file's place."""
    name, kind = rng.choice([*victims, *_beside(victims)]), rng.choice(("pipe", "folder"))
    folder[name] = Special(kind)
    return Given(folder, f"{name} is a {kind}")


def _link(rng: Random, folder: Folder, victims: Sequence[str], others: Sequence[Folder]) -> Given:
    """A link in the place of a file, or of one that is written on the way to it."""
    name, target = rng.choice([*victims, *_beside(victims) * 2]), rng.choice(_TARGETS)
    if target == "{outside}/copy":
        original = folder.get(name, b"")
        folder["outside/copy"] = original if isinstance(original, bytes) else b""
    folder[name] = Special("link", target)
    return Given(folder, f"{name} is a link to {target}")


def _beside(victims: Sequence[str]) -> list[str]:
    """Names of files that a writer may use before a file has its own; {pid} is the reader's process."""
    names = sorted(set(victims))
    locks = {str(PurePosixPath(name).parent / "run.lock") for name in names}
    return [f"{name}{mark}" for name in names for mark in (".horoball.part", ".{pid}.part", ".lock")] + sorted(locks)


FOLDERS: tuple[FolderDamage, ...] = (_exchange, _exchange, _exchange, _missing, _empty, _irregular, _link, _link, _link)
