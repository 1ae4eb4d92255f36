"""The record of a fit: what it refuses, and what it lets be resumed."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from horoball.graphs import GraphConfig
from horoball.graphs.run import GraphRecord
from horoball.storage.checkpoint import this_version
from horoball.training import TrainConfig
from horoball.training.config import FitRecord, stored_record
from horoball.vae import ModelConfig
from horoball.vae.options import TableRecord

MODEL, TRAINING = ModelConfig(features=2), TrainConfig(max_epochs=5)
TABLE = TableRecord(model=MODEL, training=TRAINING, columns=["a", "b"], rows=8, data="0f")
GRAPH = GraphRecord(model=GraphConfig(nodes=4), training=TRAINING, edges=3, digest="0f")
FILE = Path("run/model.safetensors")


def header(record: FitRecord, **change: Any) -> dict[str, Any]:
    """As a file has it."""
    return json.loads(json.dumps({"record": record.as_json() | change, "version": this_version()}))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (TABLE, GRAPH, r"run holds the run of a table. .* `horoball fit --resume`"),
        (GRAPH, TABLE, r"run holds the run of a graph. .* `horoball graph fit --resume`"),
        (TABLE, TABLE.replace(columns=["a", "c"]), "is of a table with other columns. Resume with the file"),
        (GRAPH, GRAPH.replace(digest="1f"), "is of another graph. Resume with the file"),
        (GRAPH, GRAPH.replace(edges=4), "is of another graph. Resume with the file"),
        (TABLE, TABLE.replace(model=MODEL.replace(c=0.0)), r"has c = 1\.0, not 0\.0. Resume with the options"),
        (TABLE, TABLE.replace(model=MODEL.replace(decoder="log0")), "has decoder = gyroplane, not log0"),
        (TABLE, TABLE.replace(training=TRAINING.replace(seed=1, max_epochs=9)), "has seed = 0, not 1. Resume with the"),
        (TABLE, TABLE.replace(training=TRAINING.replace(validation=0.2)), r"has validation = 0\.1, not 0\.2. Resume"),
        (GRAPH, GRAPH.replace(training=TRAINING.replace(batch_size=64)), "has batch_size = 128, not 64. Resume"),
        (TABLE, TABLE.replace(training=TRAINING.replace(beta=2.0)), r"has beta = 1\.0, not 2\.0. Resume with the"),
        (TABLE, TABLE.replace(rows=9), "has rows = 8, not 9. Resume with the options"),
        (TABLE, TABLE.replace(data="1f"), "is of other rows. Resume with the file of the first fit"),
        (GRAPH, GRAPH.replace(non_edges=3), "has non_edges = None, not 3. Resume with the options"),
        (
            TABLE.replace(model=MODEL.replace(covariates=(1,)), covariates={"batch": ["a"]}),
            TABLE.replace(model=MODEL.replace(covariates=(1,)), covariates={"batch": ["b"]}),
            "has other batches. Resume with the options",
        ),
        (TABLE, TABLE.replace(label="kind"), "has the label None, not 'kind'"),
    ],
)
def test_another_run_is_not_resumed(old: FitRecord, new: FitRecord, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        new.check_resumes(Path("run"), old)


def test_the_same_run_is_resumed_and_may_be_longer() -> None:
    for record in (TABLE, GRAPH):
        record.check_resumes(Path("run"), record)
        record.replace(training=TRAINING.replace(max_epochs=9)).check_resumes(Path("run"), record)
    TABLE.replace(model=MODEL.replace(input_limit=3.0)).check_resumes(Path("run"), TABLE)  # follows from the rows
    assert stored_record(FILE, {"record": None}) is None  # `fit` without a record


@pytest.mark.parametrize("record", [TABLE, GRAPH], ids=["table", "graph"])
def test_a_record_comes_back_from_json_and_cannot_be_changed(record: FitRecord) -> None:
    assert type(record).from_json(FILE, header(record)) == record == stored_record(FILE, header(record))
    with pytest.raises(FrozenInstanceError):
        record.version = "9"  # type: ignore[misc]


def test_the_other_kind_of_run_names_what_reads_it() -> None:
    with pytest.raises(ValueError, match=r"^run holds .*`horoball graph embed`.*PoincareGraphVAE\.load"):
        TableRecord.from_json(FILE, header(GRAPH))
    with pytest.raises(ValueError, match=r"^run holds .*`horoball embed`.*PoincareVAE\.load"):
        GraphRecord.from_json(FILE, header(TABLE))


@pytest.mark.parametrize(
    ("record", "name"), [(each, part.name) for each in (TABLE, GRAPH) for part in fields(each)], ids=str
)
@pytest.mark.parametrize("value", [-3, 1.5, [1], {"wings": 2}])
def test_every_field_of_another_type_is_refused_in_one_line(record: FitRecord, name: str, value: Any) -> None:
    if (name, value) in [("non_edges", None), ("estimator", {"wings": 2}), ("covariates", {})]:
        pytest.skip("it is of its type")
    with pytest.raises(ValueError, match=r"^run/model\.safetensors (does not hold|holds weights without)") as caught:
        type(record).from_json(FILE, header(record, **{name: value}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("record", "name"), [(each, part.name) for each in (TABLE, GRAPH) for part in fields(each)], ids=str
)
def test_every_missing_field_is_named(record: FitRecord, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horoball.training.config.this_version", lambda: "0.2.0")  # a released version has all fields
    held = header(record) | {"version": "0.2.0"}
    del held["record"][name]
    with pytest.raises(ValueError, match=rf"it lacks '{name}'|without a description of their model"):
        type(record).from_json(FILE, held)


@pytest.mark.parametrize("version", [this_version(), "0.1.0", "0.0.1"])
@pytest.mark.parametrize(
    ("record", "name"), [(TABLE, "columns"), (TABLE, "rows"), (TABLE, "data"), (GRAPH, "edges"), (GRAPH, "digest")]
)
def test_a_field_without_a_default_is_missed_in_any_version(version: str, record: FitRecord, name: str) -> None:
    held = header(record) | {"version": version}
    del held["record"][name]
    with pytest.raises(ValueError, match=rf"it lacks '{name}'"):
        type(record).from_json(FILE, held)


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0.dev0"])
def test_a_record_from_before_locality_has_its_default(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version under development gains fields while its number stays."""
    monkeypatch.setattr("horoball.training.config.this_version", lambda: "0.2.0.dev0")
    older = header(TABLE) | {"version": version}
    del older["record"]["training"]["locality"]
    assert TableRecord.from_json(FILE, older) == TABLE


def test_fields_of_an_older_version_have_their_defaults_and_those_of_a_newer_name_it() -> None:
    older = header(TABLE) | {"version": "0.0.1"}
    del older["record"]["model"]["library"], older["record"]["training"]["decay"], older["record"]["key"]
    assert TableRecord.from_json(FILE, older) == TABLE
    newer = header(TABLE, wings=2) | {"version": "9.0.0"}
    with pytest.raises(ValueError, match=r"its record has the field 'wings', .* It was written by horoball 9\.0\.0"):
        TableRecord.from_json(FILE, newer)


@pytest.mark.parametrize("kind", [None, 3, "tree"])
def test_a_record_of_an_unknown_kind_is_refused(kind: Any) -> None:
    for read in (TableRecord.from_json, GraphRecord.from_json, stored_record):
        with pytest.raises(ValueError, match=r"its kind is"):
            read(FILE, header(TABLE, kind=kind))
