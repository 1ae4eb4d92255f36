"""`python -m tests.goldens --write`, `--bits FILE` or `--runs`; see the package."""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.goldens import commands, fits, names, runs, tables
from tests.patches import shorten_layouts

GOLDENS = Path(__file__).with_name("goldens.json")


def measured(folder: Path) -> dict[str, Any]:
    """Everything, as it is now."""
    return {
        "fits": {name: fits.summary(make()) for name, make in fits.FITS.items()},
        "commands": {name: make() for name, make in commands.cases(folder).items()},
        "tables": {name: make() for name, make in tables.cases(folder).items()},
        "names": names.public_names(),
        "runs": {name: {**runs.header(name), "places": runs.places(name)} for name in runs.RUNS},
    }


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def main() -> None:
    """Write what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.goldens")
    parser.add_argument("--write", action="store_true", help="write goldens.json, and the paths that are public now")
    parser.add_argument("--runs", action="store_true", help="fit and save the runs again; a version keeps those it has")
    parser.add_argument("--bits", type=Path, help="write the exact hashes of weights, texts and tables to this file")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.runs:
        for name in runs.RUNS:
            runs.write(name)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        shorten_layouts(monkeypatch)  # as in the tests
        if given.bits is not None:
            found = measured(Path(folder))
            bits = {name: fits.bits(make()) for name, make in fits.FITS.items()}
            lines = [f"fit {name}: {value}" for name, value in bits.items()]
            for part in ("commands", "tables", "names", "runs"):
                each = found[part] if isinstance(found[part], dict) else {"all": found[part]}
                lines += [f"{part} {name}: {_hash(value)}" for name, value in each.items()]
            given.bits.write_text("\n".join(lines) + "\n", encoding="utf-8")
        elif given.write:
            found = measured(Path(folder))
            old = json.loads(GOLDENS.read_text(encoding="utf-8"))["paths"] if GOLDENS.exists() else []
            found["paths"] = sorted({*old, *names.documented(), *names.offered()})
            GOLDENS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
