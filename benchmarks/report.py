"""What `horoball report` costs: `python -m benchmarks.report`.

CPU seconds of the whole command in a process of its own, with one thread, on wine (178 rows of 13 columns) and digits
(1,797 of 64), with their labels: as it comes, with `--thorough`, and of an earlier commit with `--against COMMIT`.
Beside it are those of `horoball check` and of `horoball --help`, which is nearly all imports. Every run is a line of
`results/report.jsonl`, written as soon as it is done.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from sklearn.datasets import load_digits, load_wine

from benchmarks.table import markdown

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "report.jsonl"
BARS = {"wine": 15.0, "digits": 60.0}  # seconds, of the command as it comes
_TABLES = {"wine": load_wine, "digits": load_digits}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_COMMAND = "import sys; from horoball.cli import app; app(sys.argv[1:])"


def cost(source: Path, arguments: list[str]) -> float:
    """CPU seconds of a command, by the package in a folder.

    Example:
        >>> cost(ROOT / "src", ["--help"]) > 0
        True
    """
    environment = os.environ | dict.fromkeys(_THREADS, "1") | {"PYTHONPATH": str(source)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", _COMMAND, *arguments]
    subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603 - own
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def runs(names: list[str], against: str | None, *, thorough: bool) -> Iterator[dict[str, str | float]]:
    """What each command took."""
    with TemporaryDirectory() as made:
        folder, now = Path(made), ROOT / "src"
        commands = [("start", now, ["--help"])]
        for name in names:
            rows, label = _TABLES[name](return_X_y=True)
            data, page = str(folder / f"{name}.csv"), str(folder / f"{name}.html")
            frame = pd.DataFrame(rows, columns=[f"x{at}" for at in range(rows.shape[1])])
            frame.assign(label=[f"k{one}" for one in label]).to_csv(data, index=False)
            report = ["report", data, "-o", page, "--label", "label", "--force"]
            commands += [(name, now, ["check", data, "--label", "label"]), (name, now, report)]
            if thorough:
                commands.append((name, now, [*report, "--thorough"]))
            if against is not None:
                commands.append((name, folder / "old" / "src", report))
        if against is not None:
            packed = folder / "old.tar"
            command = ["git", "-C", str(ROOT), "archive", "-o", str(packed), against, "src"]
            subprocess.run(command, check=True)  # noqa: S603 - the commit is what the user of this command names
            with tarfile.open(packed) as archive:
                archive.extractall(folder / "old", filter="data")
        for name, source, arguments in commands:
            said = " ".join([arguments[0], *(["--thorough"] if "--thorough" in arguments else [])])
            whose = "now" if source == now else str(against)
            yield {"table": name, "command": said, "source": whose, "seconds": cost(source, arguments)}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=list(_TABLES), default=list(_TABLES))
    parser.add_argument("--thorough", action="store_true", help="measure thorough reports, too")
    parser.add_argument("--against", metavar="COMMIT", help="an earlier commit to compare the report with")
    asked = parser.parse_args()
    lines = []
    for run in runs(asked.tables, asked.against, thorough=asked.thorough):
        with RESULTS.open("a") as file:
            file.write(json.dumps(run) + "\n")
        bar = f"{BARS[str(run['table'])]:g}" if run["command"] == "report" and run["source"] == "now" else ""
        lines.append([str(run["table"]), str(run["command"]), str(run["source"]), f"{run['seconds']:.1f}", bar])
        print(json.dumps(run), file=sys.stderr, flush=True)
    print(markdown(["table", "command", "source", "CPU s", "bar"], lines))


if __name__ == "__main__":
    main()
