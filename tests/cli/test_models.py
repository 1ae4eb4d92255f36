from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

from horoball.tables import read
from horoball.vae.run import Run
from tests.commands import done, refused, run

COLUMNS = ["a", "b", "c", "d"]
FAST = ["--quiet", "--hidden", "8", "--max-epochs", "2", "--batch-size", "32"]
COMMANDS = ("fit", "embed", "evaluate", "sample", "info")


def rows_of(count: int = 90) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 4)) * [1.0, 2.0, 3.0, 4.0] + 5.0


def frame_of(x: np.ndarray) -> pa.Table:
    return pa.table([*map(pa.array, x.T), pa.array([f"k{i % 3}" for i in range(len(x))])], [*COLUMNS, "kind"])


@pytest.fixture(autouse=True)
def _a_process_of_its_own() -> Iterator[None]:
    """Commands seed the global generator."""
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    path.write_text(plain(rows_of()))
    return path


@pytest.fixture(scope="module")
def fitted(data: Path) -> Path:
    """A finished run; tests read it and leave it as it is."""
    folder = data.parent / "run"
    done("fit", data, "-o", folder, "--label", "kind", *FAST)
    return folder


@pytest.mark.whole_maps  # as the run of the fixture has them
def test_a_fit_leaves_a_run_and_says_what_it_is(data: Path, fitted: Path, tmp_path: Path) -> None:
    result = done("fit", data, "-o", tmp_path / "run", "--label", "kind", *FAST)
    told = json.loads(result.stdout)
    assert [told[name] for name in ("rows", "columns", "likelihood", "epochs")] == [90, 4, "normal", 2]
    assert "Likelihood: normal, because" in result.stderr
    names = {"model.safetensors", "last.safetensors", "best.safetensors", "metrics.jsonl", "run.toml"}
    assert {file.name for file in (tmp_path / "run").iterdir()} == names
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in metrics] == [1.0, 2.0]
    assert json.loads(done("info", tmp_path / "run").stdout) == told
    weights, again = (Run.load(folder).model.state_dict() for folder in (fitted, tmp_path / "run"))
    assert all(torch.equal(weights[name], again[name]) for name in weights)  # the same command, the same model


def plain(x: np.ndarray) -> str:
    return "a,b,c,d,kind\n" + "".join(f"{a},{b},{c},{d},k{i % 3}\n" for i, (a, b, c, d) in enumerate(x))


def to(name: str, write: Callable[[Path], object]) -> Callable[[Path], Path]:
    return lambda folder: (write(folder / name), folder / name)[1]


def parts(folder: Path) -> None:
    folder.mkdir()
    for number, rows in enumerate((rows_of()[:30], rows_of()[30:])):
        pq.write_table(frame_of(rows), folder / f"{number}.parquet")


def elsewhere(folder: Path) -> str:
    fsspec.filesystem("memory").pipe_file("/test_cli/x.parquet", PARQUET(folder).read_bytes())
    return "memory://test_cli/x.parquet"


PARQUET = to("x.parquet", lambda path: pq.write_table(frame_of(rows_of()), path))
SOURCES: dict[str, Callable[[Path], object]] = {  # each writes the rows and says where they are
    "csv": to("x.csv", lambda path: path.write_text(plain(rows_of()))),
    "upper case": to("X.CSV", lambda path: path.write_text(plain(rows_of()))),
    "quoted names": to("x.csv", lambda path: pa.csv.write_csv(frame_of(rows_of()), path)),
    "parquet": PARQUET,
    "folder": to("x", parts),
    "elsewhere": elsewhere,
    "no label": to("x.parquet", lambda path: pq.write_table(frame_of(rows_of()).drop("kind"), path)),
    "array": to("x.npy", lambda path: np.save(path, rows_of())),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_row_of_any_source_gets_a_point_of_the_ball(name: str, fitted: Path, tmp_path: Path) -> None:
    """Whether the rows come with their label or without."""
    done("embed", fitted, SOURCES[name](tmp_path), "-o", tmp_path / "z.parquet")
    table = pq.read_table(tmp_path / "z.parquet")
    assert table.column_names == ["row", "z0", "z1", "radius", "scale"]
    assert table["row"].to_pylist() == list(range(90))
    z = np.stack([table["z0"], table["z1"]], 1)
    np.testing.assert_allclose(z, next(Run.load(fitted).embed(read(rows_of(), kind="numbers"))).numpy(), atol=1e-6)
    assert (np.linalg.norm(z, axis=1) < 1).all()
    assert len(np.unique(z, axis=0)) == 90
    assert not list(tmp_path.glob("*.part"))


def test_an_encoder_is_written_for_other_programs(fitted: Path, tmp_path: Path) -> None:
    result = done("export", fitted, "-o", tmp_path / "encoder.pt2")
    assert "x: 4 columns → z, radius, scale" in result.stderr
    z = torch.export.load(tmp_path / "encoder.pt2").module()(torch.from_numpy(rows_of()).float())[0]
    assert torch.equal(z, next(Run.load(fitted).embed(read(rows_of(), kind="numbers"))))
    assert "named .onnx or .pt2" in refused("export", fitted, "-o", tmp_path / "encoder.txt")


def test_an_evaluation_prints_a_bound_below_the_likelihood(data: Path, fitted: Path) -> None:
    told = json.loads(done("evaluate", fitted, data, "--samples", "50").stdout)
    assert told["elbo"] < told["log-likelihood, 50 samples"]
    assert (told["rows"], told["kl"] > 0) == (90, True)
    assert json.loads(done("evaluate", fitted, data, "--samples", "50").stdout) == told


def test_an_evaluation_tells_how_many_rows_are_done(data: Path, fitted: Path) -> None:
    fit = Run.load(fitted)
    counts: list[tuple[int, int]] = []
    fit.evaluate(fit.read(data), 2, lambda done, of: counts.append((done, of)))
    assert counts == [(64, 90), (90, 90)]


def test_samples_are_rows_in_the_units_of_the_data(fitted: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.parquet" for name in "abc"]
    for path, seed in zip(paths, (0, 0, 1), strict=True):
        done("sample", fitted, "-n", "2000", "--seed", seed, "-o", path)
    first, again, other = (pq.read_table(path) for path in paths)
    assert (first.column_names, first.num_rows) == (COLUMNS, 2000)
    assert [first.equals(table) for table in (again, other)] == [True, False]
    x = np.stack(first.columns, 1)
    np.testing.assert_allclose(x.mean(0), rows_of().mean(0), atol=2.0)
    assert (np.diff(x.std(0)) > 0).all()  # as the data's, 1 to 4


@pytest.mark.parametrize(("c", "posterior"), [("0", "riemannian"), ("learn", "riemannian"), ("0.5", "wrapped")])
def test_other_models_go_all_the_way(c: str, posterior: str, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done("fit", data, "-o", folder, "--label", "kind", "--c", c, "--posterior", posterior, "--dim", 3, *FAST)
    told = json.loads(done("info", folder).stdout)
    assert (told["posterior"], told["d"], told["c"] == 1.0) == (posterior, 3, False)
    done("embed", folder, data, "-o", tmp_path / "z.parquet")
    assert pq.read_table(tmp_path / "z.parquet").column_names[:4] == ["row", "z0", "z1", "z2"]


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "negative_binomial", "categorical"])
def test_other_laws_go_all_the_way(likelihood: str, tmp_path: Path) -> None:
    x, run_folder, new = tmp_path / "x.npy", tmp_path / "run", tmp_path / "new.parquet"
    np.save(x, np.random.default_rng(0).integers(0, 2 if likelihood == "bernoulli" else 4, (60, 4)))
    done("fit", x, "-o", run_folder, "--likelihood", likelihood, *FAST)
    done("sample", run_folder, "-n", "20", "-o", new)
    assert all((column.to_numpy() % 1 == 0).all() for column in pq.read_table(new).itercolumns())
    assert json.loads(done("evaluate", run_folder, x).stdout)["elbo"] < 0


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    text = done(*command, "--help").stdout
    assert all(name in text for name in COMMANDS) if not command else f"Example: horoball {command[0]}" in text


@pytest.mark.parametrize("left", ["model", "last"])  # by a run that ended, by one that was stopped
def test_a_run_is_not_written_over(left: str, data: Path, fitted: Path, tmp_path: Path) -> None:
    shutil.copy(fitted / f"{left}.safetensors", tmp_path)
    said = refused("fit", data, "-o", tmp_path, "--label", "kind", *FAST)
    assert "another folder, or resume it with --resume" in said


def test_a_model_without_a_checkpoint_is_not_replaced_on_resuming(data: Path, fitted: Path, tmp_path: Path) -> None:
    shutil.copy(fitted / "model.safetensors", tmp_path)
    told = refused("fit", data, "-o", tmp_path, "--label", "kind", *FAST, "--resume")
    assert "holds a model, but no last.safetensors to resume from" in told


def test_the_numbers_shown_are_those_of_the_weights_that_are_kept(data: Path, tmp_path: Path) -> None:
    options = ["--c", "learn", "--hidden", 8, "--max-epochs", 30, "--patience", 2, "--learning-rate", 0.05, "--quiet"]
    told = json.loads(done("fit", data, "-o", tmp_path / "run", "--label", "kind", *options).stdout)
    run = Run.load(tmp_path / "run")
    best = min(run.history, key=lambda line: line["validation"])
    assert best is not run.history[-1]
    assert told["c"] == run.model.ball.c_value == best["c"]
    assert (told["best epoch"], told["validation"]) == (best["epoch"], best["validation"])


def test_a_row_that_is_no_number_is_refused_in_a_streamed_table_too(fitted: Path, tmp_path: Path) -> None:
    x = rows_of()
    x[17, 2] = np.nan
    pq.write_table(frame_of(x), tmp_path / "x.parquet")
    said = refused("embed", fitted, tmp_path / "x.parquet", "-o", tmp_path / "z.parquet")
    assert "missing or infinite value in row 17, column 'c'" in said


def test_a_finished_run_is_resumed_to_itself_or_to_more_epochs(data: Path, tmp_path: Path) -> None:
    command = ["fit", data, "-o", tmp_path / "run", "--label", "kind", *FAST]
    told = json.loads(done(*command).stdout)
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert json.loads(done(*command, "--resume").stdout) == told
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert json.loads(done(*command, "--resume", "--max-epochs", 3).stdout)["epochs"] == 3


def test_every_part_of_the_model_can_be_chosen(data: Path, tmp_path: Path) -> None:
    chosen = ["--decoder", "log0", "--prior-scale", "learn", "--validation", 0.3, "--posterior", "wrapped"]
    done("fit", data, "-o", tmp_path / "run", "--label", "kind", *FAST, *chosen)
    record = Run.load(tmp_path / "run").record
    model = record.model
    assert (model.decoder, model.learn_prior, model.posterior) == ("log0", True, "wrapped")
    assert record.training.validation == 0.3


BAD_OPTIONS = {  # what is added to a fit, what the error says
    "c": (["--c", "round"], "--c is a number or 'learn' or 'auto', got 'round'"),
    "prior": (["--prior-scale", "wide"], "--prior-scale is a number or 'learn', got 'wide'"),
    "validation": (["--validation", "1"], "validation must be at least 0 and below 1, got 1.0"),
    "negative c": (["--c=-1"], "c"),
    "dim": (["--dim", "0"], "dim must be at least 1 and at most 4096, got 0"),
    "hidden": (["--hidden", "0"], "hidden"),
    "epochs": (["--max-epochs", "0"], "max_epochs must be at least 1 and at most 1e+09, got 0"),
    "label": (["--label", "type"], "has no column 'type'. Its columns are: a, b, c, d, kind"),
    "counts": (["--likelihood", "poisson"], "counts"),
    "truths": (["--likelihood", "bernoulli"], "[0, 1]"),
    "categories": (["--likelihood", "categorical"], "categor"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_an_option_that_cannot_be_is_refused_in_one_line(name: str, data: Path, tmp_path: Path) -> None:
    options, says = BAD_OPTIONS[name]
    assert says in refused("fit", data, "-o", tmp_path / "run", "--label", "kind", *FAST, *options)
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_info_says_what_a_device_would_be(fitted: Path) -> None:
    told = json.loads(done("info", "--device", "cpu").stdout)
    assert (told["device"], told["float64"], told["available"][-1]) == ("cpu", True, "cpu")
    assert "is not there" in refused("info", "--device", "cuda:99")
    assert "either the folder of a run or --device" in refused("info")
    assert "either the folder of a run or --device" in refused("info", fitted, "--device", "cpu")


def test_bad_input_is_refused_in_one_line(data: Path, fitted: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "z.parquet", tmp_path / "other.parquet"
    assert "There is no file" in refused("fit", tmp_path / "none.csv", "-o", tmp_path / "run", *FAST)
    assert "has no column 'knd'. Did you mean 'kind'?" in refused("fit", data, "-o", tmp_path / "run", "--drop", "knd")
    pq.write_table(frame_of(rows_of()).drop("a"), other)
    assert "lacks 1 of the model's 4 columns: a. Give all" in refused("embed", fitted, other, "-o", out)
    np.save(tmp_path / "other.npy", rows_of()[:, 1:])
    told = refused("evaluate", fitted, tmp_path / "other.npy")
    assert "was fitted to 4 columns, the table has 3" in told
    assert "holds no model" in refused("info", tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"garbage")
    for arguments in (["info", tmp_path], ["embed", tmp_path, data, "-o", out], ["sample", tmp_path, "-o", out]):
        assert "is not a whole safetensors file" in refused(*arguments)
    assert not out.exists()


@pytest.mark.parametrize("change", [["--dim", "3"], ["--hidden", "9"], ["--posterior", "wrapped"]])
def test_a_run_is_not_resumed_with_another_model(change: list[str], data: Path, fitted: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(fitted, tmp_path / "run")
    assert refused("fit", data, "-o", folder, "--label", "kind", "--resume", *FAST, *change)


def test_numbers_below_one_are_refused(data: Path, fitted: Path, tmp_path: Path) -> None:
    for command in (["evaluate", fitted, data, "--samples", 0], ["sample", fitted, "-o", tmp_path / "x", "-n", -5]):
        exception = run(*command).exception
        assert isinstance(exception, SystemExit), repr(exception)


@pytest.mark.parametrize("options", [["--posterior", "gauss"], ["--likelihood", "gauss"], ["--dim", "two"], ["--nope"]])
def test_an_unknown_choice_is_a_mistake_in_usage(options: list[str], data: Path, tmp_path: Path) -> None:
    result = run("fit", data, "-o", tmp_path / "run", *options)
    assert (result.exit_code, options[0] in result.stderr, (tmp_path / "run").exists()) == (2, True, False)


def test_metrics_for_tensorboard(data: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorboard") is None:
        assert "pip install tensorboard" in refused("fit", data, "-o", tmp_path, "--label", "kind", "--tensorboard")
        return
    done("fit", data, "-o", tmp_path / "run", "--label", "kind", "--tensorboard", *FAST)
    assert list((tmp_path / "run").glob("events.out.tfevents.*"))


def test_a_run_is_not_resumed_without_its_label(data: Path, fitted: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(fitted, tmp_path / "run")
    other = tmp_path / "without.csv"
    lines = data.read_text().splitlines()
    other.write_text("\n".join(line.rsplit(",", 1)[0] for line in lines))
    assert "has the label 'kind'" in refused("fit", other, "-o", folder, "--resume", *FAST)


@pytest.mark.parametrize("command", ["embed", "sample"])
def test_an_unknown_ending_is_refused_with_those_there_are(
    command: str, data: Path, fitted: Path, tmp_path: Path
) -> None:
    given = [fitted, data] if command == "embed" else [fitted]
    told = refused(command, *given, "-o", tmp_path / "map.xlsx")
    assert "ends in .parquet, .pq, .csv, .tsv or .jsonl, not 'map.xlsx'" in told
    assert not list(tmp_path.iterdir())


READERS: dict[str, Callable[[Path], pa.Table]] = {
    ".csv": pa.csv.read_csv,
    ".tsv": lambda path: pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter="\t")),
    ".jsonl": lambda path: pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()]),
}


@pytest.mark.parametrize("ending", READERS)
def test_a_table_is_the_same_in_every_format(ending: str, data: Path, fitted: Path, tmp_path: Path) -> None:
    for command in (["embed", fitted, data], ["sample", fitted, "-n", 50]):
        paths = tmp_path / f"{command[0]}.parquet", tmp_path / f"{command[0]}{ending}"
        for path in paths:
            done(*command, "-o", path)
        expected, found = pq.read_table(paths[0]), READERS[ending](paths[1])
        assert found.column_names == expected.column_names
        for name in expected.column_names:
            np.testing.assert_allclose(found[name].to_numpy(), expected[name].to_numpy(), rtol=1e-6)


def test_the_version_is_told() -> None:
    assert done("--version").stdout == f"horoball {version('horoball')}\n"


def test_a_mistyped_word_is_told_with_what_there_is() -> None:
    assert "Did you mean 'fit'?" in run("fti").stderr
    assert "Commands: fit, embed, export" in run("xyzzy").stderr
    assert "Commands: fit, evaluate, embed, view, info" in run("graph", "xyzzy").stderr
    assert "--dim" in run("fit", "x.csv", "-o", "run", "--dimm", 3).stderr
    assert "Options of sample: --device, --force, --output, --seed." in run("sample", "run", "--xyzzy").stderr
    assert "Choose one of: wrapped, riemannian." in run("fit", "x.csv", "-o", "run", "--posterior", "normal").stderr


def test_a_rank_that_is_not_the_first_says_why_it_stops(data: Path, fitted: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "horoball", "embed", fitted, data, "-o", tmp_path / "places", "--id", "none"]
    told = subprocess.run(
        command, env=os.environ | {"RANK": "3", "WORLD_SIZE": "64"}, capture_output=True, text=True, check=False
    )
    assert told.returncode == 1
    assert told.stderr.startswith("Error on rank 3: "), told.stderr
    assert "has no column 'none'" in told.stderr
