"""`python -m quality.drills [NAME …]`: play drills, all of them or those whose names begin so, and print a table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.table import markdown
from quality.drills import clock, damage, disks, twice
from quality.drills.kills import KILLS
from quality.drills.outcome import HEADER, Outcome, Skipped
from quality.drills.ranks import RANKS
from quality.drills.stage import Stage

__all__ = ["DRILLS", "main", "play"]

DRILLS: dict[str, Callable[[Stage], Outcome]] = {
    "full-fit": disks.full_fit,
    "full-embed": disks.full_embed,
    "full-embed-folder": disks.full_embed_folder,
    "full-view": disks.full_view,
    "read-only-fit": disks.read_only_fit,
    "read-only-embed": disks.read_only_embed,
    **KILLS,
    **RANKS,
    "clock": clock.jumps,
    "damaged-page": damage.damaged_page,
    "damaged-values": damage.damaged_values,
    "damaged-footer": damage.damaged_footer,
    "damaged-cut": damage.damaged_cut,
    "damaged-unseen": damage.damaged_unseen,
    "twice": twice.twice,
    "together": twice.together,
}


def play(name: str, stage: Stage) -> Outcome:
    """Play one drill."""
    try:
        return DRILLS[name](stage)
    except Skipped as needs:
        return Outcome(name, (DRILLS[name].__doc__ or "").strip(), skipped=str(needs))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m quality.drills", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"Of these, or how they begin: {', '.join(DRILLS)}.")
    names = parser.parse_args(arguments).names
    chosen = [drill for drill in DRILLS if not names or drill.startswith(tuple(names))]
    if not chosen:
        parser.error(f"There is no drill {' '.join(names)!r}. Drills: {', '.join(DRILLS)}.")
    outcomes = []
    with tempfile.TemporaryDirectory() as base:
        stage = Stage(Path(base).resolve())
        for name in chosen:
            outcomes.append(play(name, stage))
            print(f"{name}: {outcomes[-1].cells()[-1]}", file=sys.stderr, flush=True)
    print(markdown(HEADER, [outcome.cells() for outcome in outcomes]))
    skipped = [outcome for outcome in outcomes if outcome.skipped]
    wrong = [outcome for outcome in outcomes if not outcome.ok and not outcome.skipped]
    good = len(outcomes) - len(skipped) - len(wrong)
    print(f"\n{good} of {len(outcomes)} drills are ok, {len(wrong)} are not, {len(skipped)} were skipped.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
