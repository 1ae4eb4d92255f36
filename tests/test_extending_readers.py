"""A table format from outside the package: registered by a plugin, read in Python and by the commands."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import horoball as hb
from horoball.plugins import TABLE_FORMATS
from horoball.tables import formats as registry

PLUGIN = '''
"""Files that end in .tab2: names of columns, then rows, both between bars."""
import numpy as np
from horoball.tables import ArrayTable
from horoball.tables.formats import table_reader
from horoball.tables.schema import choose

@table_reader(".tab2")
def read_tab2(path, options):
    with open(path) as file:
        names, *lines = [line.strip().split("|") for line in file]
    chosen = choose(names, options, path)
    cells = {name: [line[i] for line in lines] for i, name in enumerate(names)}
    x = np.array([cells[name] for name in chosen.features], np.float32).T
    labels = None if chosen.label is None else np.array(cells[chosen.label])
    table = ArrayTable(x, chosen.features, labels)
    if chosen.ids is not None:
        table.names, table.name_column = cells[chosen.ids], chosen.name_column
    return table
'''
ENTRY = "[horoball.plugins]\ntab2 = horoball_tab2\n"
METADATA = "Metadata-Version: 2.1\nName: horoball-tab2\nVersion: 0.1\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with the plugin installed, as pip would leave it."""
    folder = tmp_path / "site"
    (folder / "horoball_tab2-0.1.dist-info").mkdir(parents=True)
    (folder / "horoball_tab2.py").write_text(PLUGIN)
    (folder / "horoball_tab2-0.1.dist-info" / "entry_points.txt").write_text(ENTRY)
    (folder / "horoball_tab2-0.1.dist-info" / "METADATA").write_text(METADATA)
    return folder


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    lines = ["key|a|b|c|kind", *(f"{i:03d}|{'|'.join(map(str, row))}|k{i % 2}" for i, row in enumerate(x))]
    (tmp_path / "rows.tab2").write_text("\n".join(lines) + "\n")
    return tmp_path / "rows.tab2"


def horoball(site: Path | None, *arguments: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*([] if site is None else [str(site)]), str(Path(hb.__file__).parents[1])])
    command = [sys.executable, "-m", "horoball", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_a_reader_is_at_most_forty_lines() -> None:
    assert len(PLUGIN.strip().splitlines()) <= 40


def test_read_finds_a_reader_registered_from_outside(site: Path, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_readers", dict(registry._readers))
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "horoball_tab2", raising=False)
    import_module("horoball_tab2")
    table = hb.tables.read(rows, "kind", ids="key", columns=["c", "a"])
    assert (table.rows, table.columns, table.read_names()[7]) == (60, ["c", "a"], "007")
    assert set(table.read_labels()) == {"k0", "k1"}
    with pytest.raises(ValueError, match=r"no column 'sort'. Its columns are: key, a, b, c, kind"):
        hb.tables.read(rows, "sort")
    (rows.parent / "rows.tab3").write_text("")
    with pytest.raises(ValueError, match=r"\.h5ad.* or \.tab2\. Did you mean \.tab2\?"):
        hb.tables.read(rows.parent / "rows.tab3")


def test_the_commands_find_a_reader_of_an_installed_plugin(site: Path, rows: Path, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "z.csv"
    fit = ["fit", rows, "-o", run, "--label", "kind", "--id", "key", "--max-epochs", 1, "--hidden", 8, "--quiet"]
    refused = horoball(None, *fit)
    assert refused.returncode == 1
    assert "No reader for" in refused.stderr
    done = horoball(site, *fit)
    assert done.returncode == 0, done.stderr
    done = horoball(site, "embed", run, rows, "-o", out, "--quiet")
    assert done.returncode == 0, done.stderr
    lines = out.read_text().splitlines()
    assert len(lines) == 61
    assert lines[1].replace('"', "").startswith("000,")


def test_a_plugin_that_fails_is_named(site: Path, rows: Path, tmp_path: Path) -> None:
    (site / "horoball_tab2.py").write_text("import nothing_of_this_name\n")
    refused = horoball(site, "fit", rows, "-o", tmp_path / "run")
    assert refused.returncode == 1
    assert "horoball_tab2" in refused.stderr
    assert "nothing_of_this_name" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("ending", TABLE_FORMATS)
def test_the_list_of_formats_is_what_the_readers_register(ending: str) -> None:
    home = import_module(TABLE_FORMATS[ending])
    assert registry.find_reader(f"rows{ending}").read.__module__ == home.__name__
    assert ending in registry.known_endings()
    mine = {known for known, reader in registry._readers.items() if reader.read.__module__ == home.__name__}
    assert mine == {known for known, module in TABLE_FORMATS.items() if module == home.__name__}


@pytest.mark.parametrize(
    ("endings", "says"),
    [
        ((".csv",), "are read by horoball.tables.delimited already"),
        (("tab2",), "An ending is a dot and lower-case letters"),
        ((".TAB2",), "An ending is a dot and lower-case letters"),
        ((), "at least one ending"),
    ],
)
def test_endings_that_cannot_be_registered_are_refused(endings: tuple[str, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        registry.table_reader(*endings)(lambda path, options: hb.tables.ArrayTable(np.eye(2)))


@pytest.mark.parametrize(
    ("name", "meant"), [("x.cvs", ".csv"), ("x.tsx", ".tsv"), ("x.parqet", ".parquet"), ("x.h5da", ".h5ad")]
)
def test_the_closest_ending_is_proposed(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}: its name has to end in \.csv.*Did you mean \{meant}\?"):
        registry.find_reader(name)


def test_help_names_every_format() -> None:
    told = horoball(None, "fit", "--help").stdout
    assert all(ending in told for ending in TABLE_FORMATS)
