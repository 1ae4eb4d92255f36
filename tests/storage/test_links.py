"""A run's folder from a stranger may hold links and pipes: nothing is written through a link, no pipe is waited for."""

from __future__ import annotations

import ast
import os
import re
import socket
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import horoball as hb
from horoball.cli import app
from horoball.graphs import Graph
from horoball.graphs.fit import FREE_TRAINING
from horoball.graphs.run import GraphRun, train_graph
from horoball.report.analysis import Report, make_report
from horoball.report.page import write_report
from horoball.storage.checkpoint import load_checkpoint, load_header, save_checkpoint
from horoball.storage.outputs import read_file
from horoball.storage.whole import LOCK, clear_parts, only_run, whole_file, write_whole
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.training.state import BEST, FINAL, GRAPH, LAST, METRICS
from horoball.vae import export
from horoball.vae.files import ABOUT, embed_file, embed_folder
from horoball.vae.run import Run
from horoball.vae.train import train

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="links need rights there, and there are no pipes"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of Fabric, at import
]
ROOT = Path(__file__).parents[2] / "src" / "horoball"
TABLE = ArrayTable(torch.randn(60, 4, generator=torch.Generator().manual_seed(0)))
BEFORE = "what was there before"


@pytest.fixture(scope="module")
def fitted() -> Run:
    return train(TABLE, {"hidden": (8,)}, TrainConfig(max_epochs=1))


def command(*arguments: object) -> None:
    """What the command line does, with its error as an exception."""
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exit_code:
        raise ValueError(done.output)


def fit(run: Run, folder: Path) -> None:
    train(TABLE, {"hidden": (8,)}, TrainConfig(max_epochs=1), folder)


def graph_fit(run: Run, folder: Path) -> None:
    train_graph(Graph.of([(0, 1), (1, 2), (2, 3)]), {}, FREE_TRAINING.replace(max_epochs=1), folder)


def graph_embed(run: Run, folder: Path) -> None:
    train_graph(Graph.of([(0, 1), (1, 2), (2, 3)]), {}, FREE_TRAINING.replace(max_epochs=1), folder / "graph")
    command("graph", "embed", folder / "graph", "-o", folder / "z.parquet")


def sample(run: Run, folder: Path) -> None:
    run.save(folder / "run")
    command("sample", folder / "run", "-o", folder / "x.parquet")


def index(run: Run, folder: Path) -> None:
    hb.neighbors.Index(hb.PoincareBall(1.0)).add(torch.zeros(3, 2)).save(folder)


@cache
def made_report() -> Report:
    return make_report(TABLE, TrainConfig(max_epochs=1), model={"hidden": (8,)}, seeds=2)


def report(run: Run, folder: Path) -> None:
    write_report(made_report(), folder / "report.html")


# Every writer of the package, and the names under which it writes.
WRITERS: dict[str, tuple[Callable[[Run, Path], object], list[str]]] = {
    "fit": (fit, [LAST, BEST, FINAL, METRICS, f"{METRICS}.horoball.part", LOCK]),
    "graph fit": (graph_fit, [LAST, FINAL, METRICS, f"{METRICS}.horoball.part", GRAPH, LOCK]),
    "save": (lambda run, folder: run.save(folder), [FINAL]),
    "index": (index, ["index.safetensors"]),
    "embed": (
        lambda run, folder: embed_file(run, TABLE, folder / "z.parquet"),
        ["z.parquet", "z.parquet.horoball.part"],
    ),
    "embed to a folder": (
        lambda run, folder: embed_folder(run, TABLE, folder),
        [ABOUT, "part-00000.parquet", "part-00000.parquet.horoball.part"],
    ),
    "graph embed": (graph_embed, ["z.parquet", "z.parquet.horoball.part"]),
    "sample": (sample, ["x.parquet", "x.parquet.horoball.part"]),
    "view": (lambda run, folder: hb.view(np.zeros((1, 2)), path=folder / "m.html"), ["m.html", "m.html.horoball.part"]),
    "report": (report, ["report.html", "report.json", "report.html.horoball.part", "report.json.horoball.part"]),
    "export": (lambda run, folder: export(run, folder / "encoder.pt2"), ["encoder.pt2", "encoder.pt2.horoball.part"]),
    "write": (lambda run, folder: write_whole(folder / "x", b""), ["x", "x.horoball.part"]),
}
CASES = [(writer, name) for writer, (_, names) in WRITERS.items() for name in names]


@pytest.mark.parametrize(("writer", "name"), CASES)
@pytest.mark.parametrize("link", ["symbolic", "dangling", "hard"])
def test_no_writer_writes_through_a_link(writer: str, name: str, link: str, fitted: Run, tmp_path: Path) -> None:
    folder, target = tmp_path / "folder", tmp_path / "target"
    folder.mkdir()
    if link != "dangling":
        target.write_text(BEFORE)
    (folder / name).hardlink_to(target) if link == "hard" else (folder / name).symlink_to(target)
    refused = ""
    try:
        WRITERS[writer][0](fitted, folder)
    except (ValueError, OSError) as error:
        refused = str(error)
    assert str(folder) in refused or (link == "hard" and not refused)  # which another file may take the place of
    assert target.read_text() == BEFORE if link != "dangling" else not target.exists()


REFUSED = "not a regular file|already holds a run|but no run that it belongs to|holds Parquet files"


@pytest.mark.parametrize(("writer", "name"), CASES)
def test_no_writer_waits_for_a_pipe(writer: str, name: str, fitted: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises((ValueError, OSError), match=REFUSED):
        WRITERS[writer][0](fitted, tmp_path)
    assert (tmp_path / name).is_fifo()


def test_what_another_process_wrote_under_the_name_of_a_part_is_never_written_to(tmp_path: Path) -> None:
    """The file of another name keeps its bytes, even where a killed writer left it under two names."""
    (tmp_path / "x.horoball.part").write_text(BEFORE)
    (tmp_path / "kept").hardlink_to(tmp_path / "x.horoball.part")
    with whole_file(tmp_path / "x") as file:
        file.write(b"new")
    assert (tmp_path / "kept").read_text() == BEFORE
    assert (tmp_path / "x").read_text() == "new"


def test_a_folder_that_is_a_link_may_be_written_to(tmp_path: Path) -> None:
    """It is what the user named; what a stranger gives is inside it."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    write_whole(tmp_path / "link" / "x", "new")
    assert (tmp_path / "disk" / "x").read_text() == "new"


def test_links_that_look_like_parts_are_removed_and_not_what_they_point_to(tmp_path: Path) -> None:
    (tmp_path / "target").write_text(BEFORE)
    (tmp_path / "last.safetensors.00000001.horoball.part").symlink_to(tmp_path / "target")
    (tmp_path / "last.safetensors.00000002.horoball.part").mkdir()
    clear_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.safetensors.00000002.horoball.part", "target"]
    assert (tmp_path / "target").read_text() == BEFORE


READERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "checkpoint": (load_checkpoint, LAST),
    "header": (load_header, LAST),
    "bytes": (lambda path: read_file(path, 100), ABOUT),
    "run": (lambda path: Run.load(path.parent), FINAL),
    "stopped run": (lambda path: Run.load(path.parent), LAST),
    "graph": (lambda path: GraphRun.load(path.parent), FINAL),
    "estimator": (lambda path: hb.PoincareVAE.load(path.parent), FINAL),
    "index": (lambda path: hb.neighbors.Index.load(path.parent), "index.safetensors"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "socket"])
def test_no_reader_opens_what_is_no_file(
    reader: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, name = READERS[reader]
    path = tmp_path / name
    if kind == "link":
        save_checkpoint(tmp_path / "elsewhere", {}, {})
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        monkeypatch.chdir(tmp_path)  # the paths of sockets are short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
    with pytest.raises(ValueError, match=f"{name} is {'a link' if kind == 'link' else 'not a regular file'}"):
        read(path)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(101))
    with pytest.raises(ValueError, match="has more than 100 bytes"):
        read_file(tmp_path / "x", 100)


@pytest.mark.parametrize("name", [METRICS, f"{METRICS}.horoball.part", LOCK])
def test_resume_does_not_write_through_a_link(name: str, tmp_path: Path) -> None:
    folder, target = tmp_path / "run", tmp_path / "profile"
    train(TABLE, {"hidden": (8,)}, TrainConfig(max_epochs=1), folder)
    target.write_text(BEFORE)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    with pytest.raises(ValueError, match=f"{name} is a link"):
        train(TABLE, {"hidden": (8,)}, TrainConfig(max_epochs=2), folder, resume=True)
    assert target.read_text() == BEFORE


def test_a_link_planted_between_look_and_open_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "target").write_text(BEFORE)
    (tmp_path / LOCK).symlink_to(tmp_path / "target")
    monkeypatch.setattr("horoball.storage.outputs.Folder.check_plain", lambda self, name: None)
    with pytest.raises(OSError, match="symbolic links"), only_run(tmp_path):
        pass
    assert (tmp_path / "target").read_text() == BEFORE


# Files are opened for writing, made and renamed by `storage` alone. Others, by name and reason:
ALLOWED = {
    ("__main__.py", "open"),  # of os.devnull, in place of a stream that nobody reads
    ("cli/graphs.py", "write_table"),  # of horoball.vae.files, through storage
    ("cli/index.py", "write_table"),
    ("cli/models.py", "write_table"),
    ("cli/tree.py", "write_table"),
    ("tables/frames.py", "rename"),  # of the columns of a data frame
    ("vae/impute.py", "write_table"),
    ("vae/files.py", "write_table"),
    ("process.py", "write"),  # to the terminal
    ("training/progress.py", "SummaryWriter"),  # a file named by the time, the host and the process
}
RAW = {
    "write_text", "write_bytes", "touch", "rename", "symlink_to", "hardlink_to", "save_file", "savefig", "to_csv",
    "to_parquet", "to_json", "write_h5ad", "tofile", "SummaryWriter", "NamedTemporaryFile", "mkstemp",
}  # fmt: skip
RAW_OF = {
    "os": {"open", "fdopen", "replace", "rename", "write", "mkfifo"},
    "np": {"save", "savez", "savetxt"},
    "shutil": {"copy", "copyfile", "move"},
}
INTO = {"write_table", "ParquetWriter", "write_csv", "dump"}  # which take a path or an open file


def raw_writes(tree: ast.AST) -> Iterator[str]:
    """Calls that write a file by its path."""
    items = [item for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items]
    whole = {ast.unparse(i.optional_vars) for i in items if i.optional_vars and "whole_file(" in ast.unparse(i)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        owner, _, name = ast.unparse(call.func).rpartition(".")
        given = [ast.unparse(each) for each in (*call.args, *(keyword.value for keyword in call.keywords))]
        opens = name == "open" and any(re.fullmatch(r"'[rbt]*[wxa+][wxarbt+]*'", text) for text in given)
        into = name in INTO and len(call.args) > 1 and not whole & set(given)
        if name in RAW or name in RAW_OF.get(owner, ()) or opens or into:
            yield name


SOURCES = sorted(path for path in ROOT.rglob("*.py") if path.parent.name != "storage")


def test_all_that_is_written_goes_through_storage() -> None:
    assert SOURCES
    found = {
        (path.relative_to(ROOT).as_posix(), call)
        for path in SOURCES
        for call in raw_writes(ast.parse(path.read_text(encoding="utf-8")))
    } - ALLOWED
    assert not found, "Write with horoball.storage.whole.whole_file."


@pytest.mark.parametrize(
    "source",
    ["path.write_text('x')", "open(path, 'w')", "path.open('ab')", "open(path, mode='r+')", "os.open(p, os.O_WRONLY)",
     "np.save(path, x)", "pq.write_table(t, path)", "pq.ParquetWriter(path, schema)", "frame.to_csv(path)",
     "os.replace(a, b)", "json.dump(x, out)", "figure.savefig(path)"],
)  # fmt: skip
def test_a_writer_that_goes_around_storage_would_be_seen(source: str) -> None:
    assert list(raw_writes(ast.parse(source)))


def test_a_writer_that_uses_storage_is_allowed() -> None:
    source = "with whole_file(path) as file:\n    pq.write_table(t, file)\nopen(path, 'rb')\npath.read_text()"
    assert not list(raw_writes(ast.parse(source)))
