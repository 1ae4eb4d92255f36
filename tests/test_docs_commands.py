"""Every command that the documentation shows is run as it stands, in the order of its page."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import typer

import horoball as hb
from horoball.cli import app
from tests.commands import done
from tests.test_docs import PAGES, ROOT

pytestmark = pytest.mark.whole_maps  # what pages show is what users get
READ = [ROOT / "CONTRIBUTING.md", *PAGES]

# Lines that are not run as they stand, by how they begin, and why.
NOT_RUN = {
    "pip install": "installs; .ci/run does, from a clean checkout",
    "python -m venv": "makes an environment and installs; .ci/run does",
    "python examples/cells.py": "fits ten models to sets of cells, some of which are not in the repository",
    "python examples/nightly.py": "needs a bucket; tests/storage/test_nightly.py runs it against a server",
    "horoball push": "needs the Hub; tests/training/test_hub.py runs it against a server",
    "url = model.push_to_hub": "needs the Hub, in the same way",
    "torchrun --nnodes 2": "needs a second machine, called first",
    "python -m experiments table1": "takes hours; tests/experiments has each table with small settings",
    "python -m quality.drills": "takes minutes; tests/quality/test_drills.py has those of seconds",
    "OMP_NUM_THREADS=1 python -m quality.mutants": "takes hours",
    "bash .ci/": "run is what runs this test; the others build and install in fresh environments",
    "import ray": "Ray is a gigabyte; tests/test_engines.py runs its classes where it is",
    "from pyspark": "needs a Java runtime; tests/test_engines.py runs its classes where Spark is",
    "import pyro": "Pyro is not among the dependencies, and was tried by hand",
    "from qdrant_client": "qdrant-client is not among the dependencies, and was tried by hand",
}
# What is added to a command that does not say it, to have a test of seconds; everything else of it stays.
SHORTER = dict.fromkeys(("horoball fit", "horoball report", "horoball graph fit"), "--max-epochs 20")

# What a page takes for granted, by the names that it uses.
GIVEN = {
    "CONTRIBUTING.md": ["pyproject.toml", "tests"],
    "README.md": ["cells.csv", "items.parquet"],
    "docs/cells.md": ["cells.h5ad"],
    "docs/command-line.md": ["cells.csv", "test.csv", "rows", "friends.csv", "kinds.csv"],
    "docs/devices.md": ["cells.csv"],
    "docs/export.md": ["run"],
    "docs/graphs.md": ["ages.csv", "friends.csv", "kinds.csv"],
    "docs/hierarchy.md": ["cells.csv"],
    "docs/neighbors.md": ["run", "rows"],
    "docs/scale.md": ["run", "rows", "rows.parquet"],
    "docs/training.md": ["train.py", "rows.parquet"],
    "docs/trees.md": ["cells.csv"],
    "docs/tutorials/cells.md": ["cells.h5ad"],
    "docs/tutorials/graph.md": ["club.csv"],
    "docs/tutorials/machines.md": ["rows.parquet"],
    "docs/tutorials/table.md": ["new.csv", "rows.csv"],
    "docs/viewer.md": ["cells.csv", "friends.csv"],
}


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


class Fence(NamedTuple):
    page: Path
    line: int  # of the fence, from 1
    language: str
    text: str


def fences(page: Path) -> Iterator[Fence]:
    text = page.read_text(encoding="utf-8")
    for fence in re.finditer(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        yield Fence(page, text.count("\n", 0, fence.start()) + 1, fence[1], fence[2])


def commands(page: Path) -> Iterator[str]:
    """Lines of the page's bash, comments taken off; a here-document belongs to its line."""
    for fence in fences(page):
        lines = iter(fence.text.splitlines() if fence.language == "bash" else [])
        for line in lines:
            end = re.search(r"<<'(\w+)'", line)
            if end:
                rest = iter(lines.__next__, end[1])
                yield "\n".join([line, *rest, end[1]])
            elif line.strip():
                yield re.sub(r"\s+#.*", "", line)


def told(page: Path, pattern: str) -> list[str]:
    """What stands between backticks in the prose of a page and begins with the pattern."""
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(code.split()) for code in re.findall(rf"`({pattern}[^`]*)`", prose)]


# --------------------------------------------------------------------------------------------------------------------
# What the pages speak of
# --------------------------------------------------------------------------------------------------------------------


def make_files(folder: Path) -> None:
    """Small files of the names that pages use."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(60, 4)) + 3.0 * rng.integers(0, 2, (60, 1)), columns=["a", "b", "c", "d"])
    kinds = [f"k{i % 3}" for i in range(60)]
    x.assign(type=kinds).to_csv(folder / "cells.csv", index=False)
    x.assign(type=kinds)[:20].to_csv(folder / "test.csv", index=False)
    x.assign(branch=kinds).to_csv(folder / "rows.csv", index=False)
    x.assign(branch=kinds)[:20].to_csv(folder / "new.csv", index=False)
    x.to_parquet(folder / "rows.parquet", row_group_size=20)  # a group for each of two ranks, and one more
    (folder / "rows").mkdir()
    for part in (0, 1):
        x.assign(key=[f"row{i}" for i in range(60)])[part::2].to_parquet(folder / "rows" / f"{part}.parquet")
    items = {"sku": [f"item {i}" for i in range(60)], "title": [f"{kind} thing" for kind in kinds]}
    pd.DataFrame(items | {"embedding": list(rng.normal(size=(60, 8)))}).to_parquet(folder / "items.parquet")
    for name in ("friends.csv", "club.csv"):
        (folder / name).write_text("a,b\n" + "".join(f"n{(i - 1) // 2},n{i}\n" for i in range(1, 30)))
    (folder / "ages.csv").write_text("name,age\n" + "".join(f"n{i},{i / 30}\n" for i in range(30)))
    (folder / "kinds.csv").write_text("cat,animal\ndog,animal\nlion,cat\ntiger,cat\nwolf,dog\n")
    hb.cells.simulate(depth=1, cells=60, genes=20).write_h5ad(folder / "cells.h5ad")
    script = next(command for command in commands(ROOT / "docs/tutorials/machines.md") if "> train.py" in command)
    subprocess.run(["bash", "-c", script], cwd=folder, check=True)  # noqa: S607
    for name in ("pyproject.toml", "tests"):
        (folder / name).symlink_to(ROOT / name)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    make_files(folder)
    return folder


class Shell:
    """A folder in which commands are run; one that was run before, on the same files, is not run again.

    Pages begin with the same commands. horoball leaves the same files for the same command and input, so that what the
    first run wrote is copied. A line that is a command of horoball and nothing else is run in this process: to start
    another takes longer than most commands do. All others are the shell's.
    """

    written: dict[tuple[str, ...], Path]

    def __init__(self, folder: Path, written: dict[tuple[str, ...], Path]) -> None:
        self.folder, self.written, self.exports = folder, written, list[str]()

    def run(self, command: str) -> None:
        if command.startswith("export "):
            self.exports.append(command)
            return
        more = next((more for start, more in SHORTER.items() if start in command), "")
        command = command if more.split(" ")[0] in command else f"{command} {more}"
        key = (*self.exports, command, *map(digest, self.inputs(command)))
        output = re.search(r"-o (\S+)", command)
        if key in self.written and "\n" not in command:  # a here-document is quick, and leaves a file unsaid
            if output:
                copy(self.written[key] / output[1], self.folder / output[1])
            return
        if command.startswith("horoball ") and not self.exports and not re.search(r"[|&;<>$*?`\n]", command):
            with contextlib.chdir(self.folder), warnings.catch_warnings():
                warnings.simplefilter("default")  # as outside of the tests
                done(*shlex.split(command)[1:])
        else:
            self.started(command)
        if "s3://" in command:
            assert output is None or fsspec.filesystem("s3").exists(output[1]), f"{command} left no {output[1]}"
            return
        if output:
            assert (self.folder / output[1]).exists(), f"{command} left no {output[1]}"
        self.written[key] = self.folder

    def started(self, command: str) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ended = subprocess.run(
            ["bash", "-c", "\n".join(["set -e", *self.exports, command])],  # noqa: S607
            cwd=self.folder,
            env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"

    def inputs(self, command: str) -> list[Path]:
        return [self.folder / word for word in shlex.split(command) if (self.folder / word).exists()]


def digest(path: Path) -> str:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()


def copy(source: Path, target: Path) -> None:
    """Also into a folder that is there, as a command that goes on with it would."""
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)


@pytest.fixture(scope="module")
def shell(given: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Shell]:
    written: dict[tuple[str, ...], Path] = {}

    def opened(page: Path) -> Shell:
        made = Shell(tmp_path_factory.mktemp(page.stem), written)
        for name in GIVEN.get(named(page), []):
            if name == "run":  # of the first command of most pages
                copy(given / "cells.csv", made.folder / "cells.csv")
                made.run("horoball fit cells.csv -o run --label type")
            elif (given / name).is_symlink():
                (made.folder / name).symlink_to(ROOT / name)
            else:
                copy(given / name, made.folder / name)
        return made

    return opened


# --------------------------------------------------------------------------------------------------------------------
# The tests
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in READ if any(commands(page))], ids=named)
def test_the_commands_of_a_page_run_in_their_order(
    page: Path, shell: Callable[[Path], Shell], request: pytest.FixtureRequest
) -> None:
    opened = shell(page)
    run = [command for command in commands(page) if not command.startswith(tuple(NOT_RUN))]
    if any("s3://bucket" in command for command in run):
        request.getfixturevalue("s3_server")
        fsspec.filesystem("s3").put(str(opened.folder / "rows.parquet"), "bucket/rows.parquet")
    for command in run:
        opened.run(command)
    for line in page.read_text(encoding="utf-8").splitlines():
        columns = re.search(r"^horoball .*-o (\S+\.parquet) +# columns ([\w, ]+)", line)
        if columns:
            assert pq.read_schema(opened.folder / columns[1]).names == columns[2].split(", "), line


@pytest.mark.parametrize("start", [*NOT_RUN, *SHORTER])
def test_what_is_not_run_as_it_stands_is_still_in_a_page(start: str) -> None:
    lines = [line for page in READ for fence in fences(page) for line in fence.text.splitlines()]
    assert any(start in line for line in lines), f"No page has {start!r} any more: take it off the table."


def test_files_are_made_for_pages_that_exist() -> None:
    assert set(GIVEN) <= set(map(named, READ))


def test_a_fence_that_is_not_run_holds_no_commands() -> None:
    for page in READ:
        for fence in fences(page):
            where = f"{named(page)}:{fence.line}"
            if fence.language in ("bash", "python", "pycon") or fence.text.startswith(tuple(NOT_RUN)):
                continue
            assert fence.language in ("", "text"), f"{where}: nothing runs {fence.language!r}. Call it python, or bash."
            found = re.search(
                r"^\s*(\$ |>>> |horoball |python |pip |pytest |torchrun |import |from )", fence.text, re.M
            )
            assert not found, f"{where} holds {found and found[0]!r} and is not run. Call it python, or bash."


def below(command: Any) -> dict[str, Any]:
    """Commands of a group; typer's groups are of its own click, in some versions."""
    return getattr(command, "commands", {})


def inline() -> list[tuple[str, str]]:
    """Commands of horoball in prose, with the page."""
    starts = r"(?:horoball |[^`\n]*-m horoball\.cli )"
    return [(named(page), code) for page in READ for code in told(page, starts)]


@pytest.mark.parametrize(("page", "code"), inline())
def test_a_command_in_prose_exists_with_its_options(page: str, code: str) -> None:
    words = shlex.split(re.sub(r"^.*?(horoball|-m horoball\.cli) ", "", code).partition(" | ")[0])
    command = typer.main.get_command(app)
    while below(command) and words:
        if words[0].startswith("-"):  # an option of all commands, with its value
            every_command = {option: not one.is_flag for one in command.params for option in one.opts}
            if words[0] not in every_command:
                break
            words = words[1 + every_command[words[0]] :]
            continue
        name = words.pop(0)
        assert name in below(command), f"{page}: `{code}`: there is no command {name}."
        command = below(command)[name]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    unknown = {word for word in words if word.startswith("-")} - known
    assert not unknown, f"{page}: `{code}` has {sorted(unknown)}. Options: {sorted(known)}."


def every(command: Any) -> Iterator[Any]:
    yield command
    for one in below(command).values():
        yield from every(one)


def test_an_option_in_prose_is_one_of_some_command() -> None:
    options = [one for command in every(typer.main.get_command(app)) for one in command.params]
    known = {name for one in options for name in (*one.opts, *one.secondary_opts)}
    for page in READ:
        for code in told(page, "--"):
            option = code.split()[0]
            assert option in known, f"{named(page)} speaks of {option}, which no command has."


def test_a_script_in_prose_exists() -> None:
    for page in READ:
        for code in told(page, "(?:OMP_NUM_THREADS=1 )?python "):
            module, script = re.search(r"-m ([\w.]+)", code), re.search(r"[\w/]+\.py", code)
            assert module or script, f"{named(page)}: `{code}` is neither a module nor a script."
            path = script[0] if script else module[1].replace(".", "/") if module else ""
            found = (ROOT / path, ROOT / f"{path}.py", ROOT / path / "__main__.py")
            assert any(file.is_file() for file in found), f"{named(page)} speaks of {path}, which is not there."
