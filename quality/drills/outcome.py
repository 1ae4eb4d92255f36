"""What became of a drill, as a line of a table."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["HEADER", "Outcome", "Skipped", "refused"]

HEADER = ("drill", "what was done", "what a user sees", "afterwards", "ok")


class Skipped(Exception):  # noqa: N818  no error of the drill
    """A drill cannot be played on this machine; the message says what it needs."""


@dataclass
class Outcome:
    """One drill: what was done, what was seen, and what had to be true afterwards."""

    drill: str
    done: str
    seen: str = ""
    checks: dict[str, bool] = field(default_factory=dict)
    skipped: str = ""

    @property
    def ok(self) -> bool:
        """Whether all that had to be true is; a drill that checked nothing has shown nothing."""
        return bool(self.checks) and all(self.checks.values())

    def cells(self) -> list[str]:
        """What is printed."""
        if self.skipped:
            return [self.drill, self.done, "", f"skipped: {self.skipped}", "skipped"]
        after = "; ".join(name if held else f"NOT {name}" for name, held in self.checks.items())
        return [self.drill, self.done, self.seen.replace("|", "/"), after, "yes" if self.ok else "NO"]


def refused(code: int, said: str, *words: str) -> dict[str, bool]:
    """Whether a command was refused in one line that holds some words."""
    one_line = code == 1 and said.startswith("Error: ") and "\n" not in said
    return {"refused in one line": one_line and all(word in said for word in words)}
