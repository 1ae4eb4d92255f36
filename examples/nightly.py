"""One night: place new rows; if too many do not fit, make a model anew, compare it with the old one, and push it.

Give the same command again if it was stopped: what is done is not done twice.

    python examples/nightly.py s3://bucket/rows/2026-11-19 s3://bucket/models -o s3://bucket/places/2026-11-19 --id key

The last line is JSON. Exit codes: 0 rows are placed, 1 an error, 3 many rows do not fit and a new model is not better.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from horoball.tables import read

NOT_BETTER = 3  # the exit code
HELD = 10  # of the sample, one row in so many is kept to compare models by


def horoball(*words: object) -> dict[str, Any]:
    """Run a command; what it prints as JSON. If it fails so does the night, with its message and exit code."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "horoball", *map(str, words)], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.returncode)
    lines = done.stdout.splitlines()
    return dict(json.loads(lines[-1])) if lines else {}


def sample(rows: str, most: int) -> tuple[pa.Table, pa.Table]:
    """Rows at equal steps, the same ones each time: most to fit a model to, and a tenth to compare models by."""
    system, path = fsspec.core.url_to_fs(rows)
    files = ds.dataset(path, filesystem=system, format="parquet")
    step, first, parts = max(1, -(-files.count_rows() // most)), 0, []
    for batch in files.to_batches():
        parts.append(batch.take(pa.array(range(-first % step, batch.num_rows, step))))
        first += batch.num_rows
    found = pa.Table.from_batches(parts, files.schema)
    held = [at % HELD == 0 for at in range(found.num_rows)]
    return found.filter(pa.array([not each for each in held])), found.filter(pa.array(held))


def night(given: argparse.Namespace) -> dict[str, Any]:
    """Everything; what is to be told."""
    store, folder = fsspec.core.url_to_fs(given.models)
    current = f"{folder}/current.json"
    old = json.loads(store.cat(current))["run"] if store.exists(current) else None
    called = ["--id", given.id] if given.id else []
    if old is not None:
        output = f"{given.output}/{old.rpartition('/')[2]}"
        placed = horoball("place", old, given.rows, "-o", output, *called, "--quiet")
        told = {name: placed[name] for name in ("rows", "unfit", "p", "output")} | {"run": old, "anew": False}
        if not (placed["anew"] and placed["unfit"] > given.unfit * placed["rows"]):
            return told
    with tempfile.TemporaryDirectory() as local:
        train, held, groups = (Path(local) / name for name in ("train.parquet", "held.parquet", "groups.csv"))
        for file, part in zip((train, held), sample(given.rows, given.sample), strict=True):
            pq.write_table(part, file)
        # A model is called by the fingerprint of its rows: the same night makes the same one.
        new = f"{given.models}/{read(train, ids=given.id or None).fingerprint()}"
        levels = ["--levels", given.levels] if given.levels else []
        horoball("fit", train, "-o", new, *called, "--quiet", "--resume", *given.fit)
        horoball("tree", new, train, "-o", groups, *levels)
        told_new = horoball("place", new, held, "-o", Path(local) / "new.parquet")
        compared = {"new": told_new["unfit"] / told_new["rows"]}
        if old is not None:
            told_old = horoball("place", old, held, "-o", Path(local) / "old.parquet")
            compared["old"] = told_old["unfit"] / told_old["rows"]
            if told_new["anew"] or compared["new"] >= compared["old"]:
                return told | {"compared": compared, "candidate": new, "better": False}
    placed = horoball("place", new, given.rows, "-o", f"{given.output}/{new.rpartition('/')[2]}", *called, "--quiet")
    store.pipe(current, json.dumps({"run": new, "before": old}).encode())
    told = {name: placed[name] for name in ("rows", "unfit", "p", "output")} | {"run": new, "anew": True}
    pushed = horoball("push", new, given.repo, "--places") if given.repo else {}
    return told | {"compared": compared} | ({"model": pushed["model"]} if pushed else {})


def main(words: list[str] | None = None) -> int:
    """The night of the command line; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", help="folder of new Parquet files, or its URL")
    parser.add_argument("models", help="folder of models, or its URL; current.json there names the one in use")
    parser.add_argument("-o", "--output", required=True, help="folder for the places of the rows, or its URL")
    parser.add_argument("--id", help="column with the names of the rows")
    parser.add_argument("--unfit", type=float, default=0.06, help="share of rows that do not fit: .05 if none changed")
    parser.add_argument("--sample", type=int, default=1_000_000, help="rows that a model is made of, at most")
    parser.add_argument("--levels", help="numbers of groups, such as 5,20; if not given, those that are sure")
    parser.add_argument("--repo", help="repository on the Hugging Face Hub that a new model is pushed to")
    given, given.fit = parser.parse_known_args(words)  # other options are those of `horoball fit`
    told = night(given)
    print(json.dumps(told))
    return 0 if told.get("better", True) else NOT_BETTER


if __name__ == "__main__":
    sys.exit(main())
