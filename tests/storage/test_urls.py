"""Every path of every command, and every writer of the Python interface, is tried in two stores.

One store is the memory of this process, the other a server that speaks S3's protocol (moto), by s3fs.
"""

from __future__ import annotations

import inspect
import io
import json
import threading
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.models import OptionInfo

import horoball as hb
from horoball.cli import app
from horoball.neighbors import Index
from horoball.storage.stores import located
from horoball.tables import read, row_groups
from horoball.training import TrainConfig
from horoball.vae import export
from horoball.vae.files import embed_folder
from horoball.vae.run import Run
from horoball.vae.train import train
from horoball.viewer import view
from tests.commands import done, refused

FAST = ["--quiet", "--hidden", "8", "--max-epochs", "2", "--batch-size", "32"]
DATA = {"data", "features", "run"}  # arguments that are read, which may be of any kind of URL


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What commands read, on this machine."""
    folder = tmp_path_factory.mktemp("urls")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=["a", "b", "c", "d"])
    frame = frame.assign(kind=[f"k{i % 3}" for i in range(60)])
    frame.loc[3, "b"] = np.nan
    frame.to_csv(folder / "gaps.csv", index=False)
    frame.fillna(0.0).to_csv(folder / "rows.csv", index=False)
    (folder / "options.toml").write_text("dim = 3\nmax_epochs = 2\n")
    (folder / "names.txt").write_text("".join(f"n{i}\n" for i in range(60)))
    (folder / "edges.csv").write_text("child,parent\n" + "".join(f"n{i},n{(i - 1) // 2}\n" for i in range(1, 20)))
    nodes = pd.DataFrame({"node": [f"n{i}" for i in range(20)], "x": rng.normal(size=20), "y": rng.normal(size=20)})
    nodes.to_csv(folder / "nodes.csv", index=False)
    done("fit", folder / "gaps.csv", "-o", folder / "run", "--label", "kind", *FAST)
    done("tree", folder / "run", folder / "rows.csv", "-o", folder / "t.csv", "--draws", 0, "--levels", 2)
    (folder / "t.csv").unlink()
    frame.fillna(0.0).assign(name=range(60)).to_csv(folder / "named.csv", index=False)
    (folder / "some.txt").write_text("1\n2\n")
    done("index", "build", folder / "run", folder / "named.csv", "-o", folder / "index", "--id", "name")
    done("graph", "fit", folder / "edges.csv", "-o", folder / "graph", "--directed", "--quiet", "--max-epochs", "2")
    return folder


@pytest.fixture(params=["memory", "s3"])
def store(
    request: pytest.FixtureRequest, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """A function from a name to its URL, in a store that holds what commands read."""
    if request.param == "s3":
        request.getfixturevalue("s3_server")
    base = f"{request.param}://bucket/{tmp_path.name}"
    system = fsspec.filesystem(request.param)
    for path in there.rglob("*"):
        if path.is_file():
            system.pipe_file(f"{base}/{path.relative_to(there).as_posix()}", path.read_bytes())
    empty = tmp_path / "here"
    empty.mkdir()
    monkeypatch.chdir(empty)
    return lambda name: f"{base}/{name}"


# The command → what each of its paths is given, and what else it is told. Names under "new" are what is written.
CASES: list[tuple[str, dict[str, str], list[object]]] = [
    ("fit", {"data": "rows.csv", "config": "options.toml", "output": "new/run"}, FAST),
    ("check", {"data": "rows.csv"}, []),
    ("embed", {"run": "run", "data": "rows.csv", "output": "new/z.csv"}, []),
    ("embed", {"run": "run", "data": "rows.csv", "output": "new/z.parquet"}, []),
    ("embed", {"run": "run", "data": "rows.csv", "output": "new/parts"}, ["--quiet", "--file-rows", 20]),
    ("evaluate", {"run": "run", "data": "rows.csv"}, ["--samples", 2]),
    ("export", {"run": "run", "output": "new/encoder.pt2"}, []),
    ("impute", {"run": "run", "data": "gaps.csv", "output": "new/filled.csv"}, ["--samples", 2]),
    ("impute", {"run": "run", "data": "gaps.csv", "output": "new/filled.parquet"}, ["--samples", 2]),
    ("info", {"run": "run"}, []),
    ("sample", {"run": "run", "output": "new/drawn.jsonl"}, ["-n", 5]),
    ("view", {"run": "run", "data": "rows.csv", "names": "names.txt", "output": "new/map.html"}, []),
    ("view", {"run": "rows.csv", "keep": "new/kept", "output": "new/map.html"}, ["--quiet"]),
    ("report", {"data": "rows.csv", "output": "new/report.html"}, ["--seeds", 2, "--max-epochs", 1, "--hidden", 8]),
    ("tree", {"run": "run", "data": "rows.csv", "output": "new/tree.nwk"}, ["--draws", 0]),
    ("tree", {"run": "rows.csv", "output": "new/tree.html"}, ["--draws", 0, "--label", "kind"]),
    ("place", {"run": "run", "data": "rows.csv", "output": "new/places.csv"}, []),
    ("place", {"run": "run", "data": "rows.csv", "output": "new/places"}, ["--quiet"]),
    ("index build", {"run": "run", "data": "rows.csv", "output": "new/index"}, []),
    ("index search", {"index": "index", "run": "run", "data": "rows.csv", "output": "new/near.csv"}, ["-k", 2]),
    ("index update", {"index": "index", "run": "run", "data": "named.csv"}, ["--id", "name"]),
    ("index remove", {"index": "index", "names_file": "some.txt"}, []),
    ("graph fit", {"source": "edges.csv", "config": "options.toml", "output": "new/graph"}, ["--quiet"]),
    (
        "graph fit",
        {"source": "edges.csv", "features": "nodes.csv", "output": "new/graph"},
        ["--quiet", "--max-epochs", 2, "--id", "node"],
    ),
    ("graph evaluate", {"run": "graph"}, []),
    ("graph embed", {"run": "graph", "output": "new/nodes.csv"}, []),
    ("graph view", {"run": "graph", "output": "new/map.html"}, []),
    ("graph info", {"run": "graph"}, []),
    ("graph parents", {"run": "graph"}, ["n3"]),
    ("graph ancestors", {"run": "graph"}, ["n3"]),
    ("graph descendants", {"run": "graph"}, ["n3"]),
    ("graph is-a", {"run": "graph"}, ["n3", "n1"]),
    ("graph tree", {"run": "graph", "output": "new/tree.nwk"}, ["--draws", 0]),
]


def commands(group: typer.Typer, before: str = "") -> Iterator[tuple[str, Callable[..., None]]]:
    for command in group.registered_commands:
        assert command.callback is not None
        yield before + (command.name or command.callback.__name__.replace("_", "-")), command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, f"{before}{inner.name} ")


def paths_of(command: Callable[..., None]) -> dict[str, Any]:
    """Parameters of a command that are paths, with what typer knows of them."""
    function = inspect.unwrap(command)
    hints = typing.get_type_hints(function, include_extras=True)
    return {
        name: next((each for each in getattr(hint, "__metadata__", ()) if hasattr(each, "parser")), None)
        for name, hint in hints.items()
        if "Path" in str(hint)
        or name in DATA
        or getattr(getattr(hint, "__metadata__", (0,))[0], "metavar", 0) == "edges"
    }


def given(name: str, paths: dict[str, str], more: list[object], url: Callable[[str], str]) -> list[object]:
    known = paths_of(dict(commands(app))[name])
    positional: list[object] = []
    named: list[object] = []
    for path in known:
        if path in paths and isinstance(known[path], OptionInfo):
            # Of an annotation, what stands first is the name of the option.
            first = known[path].default
            named += [first if str(first).startswith("--") else f"--{path}", url(paths[path])]
        elif path in paths:
            positional.append(url(paths[path]))
    return [*name.split(), *positional, *more, *named]


def test_every_path_of_every_command_is_tried() -> None:
    # `push` writes to the Hub; tests/training/test_hub.py has it.
    wanted = {(name, path) for name, command in commands(app) for path in paths_of(command) if name != "push"}
    assert wanted == {(name, path) for name, paths, _ in CASES for path in paths}
    # Path makes s3:/bucket/key of s3://bucket//key, which is another object: such options are read as they are given.
    for name, command in commands(app):
        for path, known in paths_of(command).items():
            if "Path" in str(typing.get_type_hints(inspect.unwrap(command))[path]):
                assert known.parser is not None, (name, path)


@pytest.mark.parametrize(
    ("name", "paths", "more"), CASES, ids=[f"{name}-{paths.get('output')}" for name, paths, _ in CASES]
)
def test_a_command_reads_and_writes_in_a_store(
    name: str, paths: dict[str, str], more: list[object], store: Callable[[str], str], there: Path, tmp_path: Path
) -> None:
    done(*given(name, paths, more, store))
    assert not list(Path().iterdir())
    written = {path: value for path, value in paths.items() if value.startswith("new/")}
    kept = list(located(store("new")).iterdir()) if written else []
    for value in written.values():
        output = located(store(value))
        assert output.exists()
        for file in output.iterdir() if output.is_dir() else [output]:
            assert (file.info() or {})["size"] > 0
            assert "lock" not in file.name
            assert "part" not in file.name.removesuffix(".parquet").removeprefix("part-")
    if not written:
        return
    # What is written is what is written on this machine.
    local = {path: f"here/{value}" if value.startswith("new/") else value for path, value in paths.items()}
    (there / "here" / "new").mkdir(parents=True)
    try:
        done(*given(name, local, more, lambda value: str(there / value)))
        assert sorted(path.name for path in kept) == sorted(path.name for path in (there / "here" / "new").iterdir())
        for path in kept:
            if path.suffix in (".csv", ".jsonl", ".nwk"):
                assert path.read_bytes() == (there / "here" / "new" / path.name).read_bytes()
    finally:
        import shutil

        shutil.rmtree(there / "here")
    if "." in paths["output"] and "keep" not in paths and name != "report" and ".html" not in paths["output"]:
        said = refused(*given(name, paths, more, store))
        assert "--force" in said
        assert store(paths["output"]) in said


BAD = ["https://example.org/x", "simplecache::s3://b/x", "s3://key:secret@bucket/x", "s3://b//x", "file://host/x"]
WRITERS = [case for case in CASES if "output" in case[1]]


@pytest.mark.parametrize(("bad", "case"), [(BAD[0], case) for case in WRITERS] + [(bad, WRITERS[1]) for bad in BAD])
def test_other_urls_are_refused_before_any_work(
    bad: str, case: tuple[str, dict[str, str], list[object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, paths, more = case
    for place in ("horoball.vae.run.Run.load", "horoball.graphs.run.GraphRun.load"):
        monkeypatch.setattr(place, None)
    ending = Path(paths["output"]).suffix
    paths = {path: value for path, value in paths.items() if path != "config"} | {"output": bad + ending}
    said = refused(*given(name, paths, more, lambda value: value if "://" in value else str(tmp_path / value)))
    assert "secret" not in said
    assert "URL" in said or "credentials" in said or "no name" in said or "another machine" in said


def test_file_urls_are_paths(there: Path, tmp_path: Path) -> None:
    done("embed", there / "run", there / "rows.csv", "-o", f"file://{tmp_path}/z.csv")
    assert (tmp_path / "z.csv").read_text().startswith('"row"')


def test_python_writes_and_reads_in_a_store(store: Callable[[str], str]) -> None:
    run = Run.load(Path(store("run")))
    model = hb.PoincareVAE.load(store("run"))
    model.save(store("new/model"))
    assert hb.PoincareVAE.load(store("new/model")).run_.digest == run.digest
    run.save(Path(store("new/run")))
    export(run, store("new/x.pt2"))
    embed_folder(run, run.read(store("rows.csv")), Path(store("new/parts")), rows=20)
    view(np.zeros((3, 2))).save(store("new/a.html"))
    view(np.zeros((3, 2)), path=store("new/b.html"))
    index = Index(hb.PoincareBall()).add(np.zeros((3, 2)))
    index.save(store("new/index"))
    assert len(Index.load(store("new/index"))) == 3
    table = read(np.random.default_rng(0).normal(size=(40, 3)), kind="numbers")
    train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1), Path(store("new/trained")))
    assert not list(Path().iterdir())
    names = {path.name for path in located(store("new")).iterdir()}
    assert names == {"model", "run", "x.pt2", "parts", "a.html", "b.html", "index", "trained"}


def test_credentials_are_never_printed(store: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = refused("check", "s3://a-name:a-password@nowhere/x.csv?token=a-token")
    assert "a-password" not in said
    assert "a-token" not in said
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    said = refused("embed", store("run"), store("rows.csv"), "-o", "s3://no-such-bucket/z.csv")
    assert "secret" not in json.dumps(said)


@pytest.mark.parametrize("path", ["x.csv", "a/b.csv", "/s3:/bucket", "C:/x.csv", "C:\\x.csv", "a:b/c", "12:30/x.csv"])
def test_a_local_path_is_no_url(path: str) -> None:
    assert type(located(path)) is type(Path())
    assert str(located(path)) == str(Path(path))


def test_small_files_are_read_once_each_and_several_at_once(s3_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    system, streamed = fsspec.filesystem("s3"), row_groups._stream
    content = io.BytesIO()
    pq.write_table(pa.table({"a": [1.0, 2.0], "kind": ["x", "y"]}), content)
    system.pipe({f"bucket/many/{number:02d}.parquet": content.getvalue() for number in range(40)})
    opened: list[str] = []
    together = threading.Barrier(8, timeout=30)  # passed by eight files at a time, or by none

    def stream(path: str) -> Any:
        opened.append(path)
        if len(opened) <= 8:
            together.wait()
        return streamed(path)

    monkeypatch.setattr(row_groups, "_stream", stream)
    table = read("s3://bucket/many")
    assert sum(len(block) for block in table.blocks()) == 80
    assert len(opened) == 40  # at once for what the columns are, and for the rows
