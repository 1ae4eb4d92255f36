"""What was found by attacks on a run's folder, an index and an embedding: each is refused, by name and at once."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quality.fuzzing.folders import Folder, Special
from quality.fuzzing.seeds import seeds
from quality.fuzzing.tensors import Stored, Tensor, stored
from quality.fuzzing.watch import Outcome
from quality.fuzzing.worker import Stretch, outcomes

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import

Change = Callable[[Folder, list[Folder]], None]
LAST, MODEL = "run/last.safetensors", "model.safetensors"


def tensors(file: str, change: Callable[[Stored], None]) -> Change:
    """Change tensors of a file."""

    def damage(folder: Folder, _: list[Folder]) -> None:
        held = stored(bytes(folder[file]))
        assert held is not None
        change(held)
        folder[file] = held.bytes()

    return damage


def described(file: str, change: Callable[[Any], None]) -> Change:
    """Change the JSON of a file."""

    def damage(folder: Folder, _: list[Folder]) -> None:
        held = stored(bytes(folder[file]))
        assert held is not None
        state = held.state
        change(state)
        folder[file] = held.with_state(state).bytes()

    return damage


def placed(name: str, entry: bytes | Special) -> Change:
    """Put something into the folder."""
    return lambda folder, _: folder.update({name: entry})


def exchanged(name: str) -> Change:
    """Take a file of the second folder."""
    return lambda folder, others: folder.update({name: others[1][name]})


def foreign_graph(name: str) -> Change:
    """Take a file of a graph that has as many nodes and edges, and other names."""

    def damage(folder: Folder, others: list[Folder]) -> None:
        mine, other = others[-4], others[-2]
        folder.clear()
        folder.update(mine | {name: other[name]})

    return damage


def moments(shape: tuple[int, ...]) -> Callable[[Stored], None]:
    def change(held: Stored) -> None:
        for name, tensor in held.tensors.items():
            if "exp_avg" in name:
                held.tensors[name] = Tensor(tensor.dtype, np.resize(tensor.array, shape))

    return change


def filled(part: str, value: float) -> Callable[[Stored], None]:
    def change(held: Stored) -> None:
        for name, tensor in held.tensors.items():
            if part in name and tensor.array.dtype.kind == "f":  # names of settings are whole numbers
                tensor.array[...] = value

    return change


def cast(part: str, dtype: str) -> Callable[[Stored], None]:
    def change(held: Stored) -> None:
        for name, tensor in held.tensors.items():
            if part in name:
                held.tensors[name] = tensor.cast(dtype)

    return change


def long_name(held: Stored) -> None:
    """4,000 points, of which one has a name of 8,000 characters: 128 MB as an array of one width."""
    rows = 4000
    held.tensors["points"] = Tensor("F32", np.resize(held.tensors["points"].array, (rows, 2)))
    held.tensors["names.text"] = Tensor("U8", np.full(3 * rows, 97, np.uint8))
    held.tensors["names.ends"] = Tensor("I64", np.append(np.arange(rows - 1), 3 * rows))


def put(*path: str, value: Any) -> Callable[[Any], None]:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return change


def drop(*path: str) -> Callable[[Any], None]:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        del state[path[-1]]

    return change


CANARY = Special("link", "{outside}/canary")
REFUSED: dict[str, tuple[str, Change]] = {
    "moments of one element": ("resume, table", tensors(LAST, moments((1,)))),
    "moments of 7 × 7": ("resume, table", tensors(LAST, moments((7, 7)))),
    "moments of a graph": ("resume, graph", tensors(LAST, moments((1,)))),
    "moments that are NaN": ("resume, table", tensors(LAST, filled("exp_avg", np.nan))),
    "second moments below 0": ("resume, table", tensors(LAST, filled("exp_avg_sq", -1.0))),
    "moments in float16": ("resume, table", tensors(LAST, cast("exp_avg", "F16"))),
    "steps of the optimizer without an end": ("resume, table", tensors(LAST, filled(".step", np.inf))),
    "no second moments": (
        "resume, table",
        tensors(LAST, lambda held: [held.tensors.pop(name) for name in list(held.tensors) if "_sq" in name] and None),
    ),
    "weights that are NaN, to go on with": ("resume, table", tensors(LAST, filled("model.", np.nan))),
    "weights in float16, to go on with": ("resume, table", tensors(LAST, cast("model.", "F16"))),
    "weights that are NaN": ("run of a table", tensors(MODEL, filled("model.", np.nan))),
    "weights that are infinite": ("run of a table", tensors(MODEL, filled("model.encoder", np.inf))),
    "weights in float16": ("run of a table", tensors(MODEL, cast("model.", "F16"))),
    "weights in bfloat16": ("run of a table", tensors(MODEL, cast("model.", "BF16"))),
    "weights that are whole numbers": ("run of a table", tensors(MODEL, cast("model.", "I64"))),
    "a scaling that is NaN": ("run of a table", tensors(MODEL, filled("scaler.mean", np.nan))),
    "weights of a graph that are NaN": ("run of a graph", tensors(MODEL, filled("model.", np.nan))),
    "weights of a graph in float64": ("run of a graph", tensors(MODEL, cast("model.", "F64"))),
    "a tensor beside the best weights": (
        "resume, table",
        tensors("run/best.safetensors", lambda held: held.tensors.update(x=Tensor("F32", np.zeros(1, np.float32)))),
    ),
    "step −3": ("resume, table", described(LAST, put("state", "step", value=-3))),
    "history 5": ("resume, table", described(LAST, put("state", "history", value=5))),
    "a history of commands": (
        "resume, table",
        described(LAST, put("state", "history", value=[{"epoch": 1.0, "\ntouch x\n": "\ntouch x\n"}])),
    ),
    "a state of a newer version": ("resume, table", described(LAST, put("state", "new_in_2", value=1))),
    "a model of a newer version": ("run of a table", described(MODEL, put("record", "model", "new_in_2", value=1))),
    "a newer format": ("run of a table", described(MODEL, put("format", value=99))),
    "20,000 layers": ("run of a table", described(MODEL, put("record", "model", "hidden", value=[1] * 20_000))),
    "no number of rows": ("run of a table", described(MODEL, drop("record", "rows"))),
    "a last checkpoint of another run": ("resume, table", exchanged(LAST)),
    "the best weights of another run": ("resume, table", exchanged("run/best.safetensors")),
    "a last checkpoint of another graph": ("resume, graph", exchanged(LAST)),
    "the graph of another run": ("run of a graph", foreign_graph("graph.safetensors")),
    "the model of another graph": ("run of a graph", foreign_graph(MODEL)),
    "a pipe as a model": ("run of a table", placed(MODEL, Special("pipe"))),
    "a pipe to go on from": ("resume, table", placed(LAST, Special("pipe"))),
    "a link as a lock": ("resume, table", placed("run/run.lock", CANARY)),
    "a link where metrics are written": ("resume, table", placed("run/metrics.jsonl.horoball.part", CANARY)),
    "an embedding's record that is a list": ("embedding folder", placed("z/_embedding.json", b"[]")),
    "an embedding's record that is empty": ("embedding folder", placed("z/_embedding.json", b"")),
    "an embedding's record of other rows": ("embedding folder", exchanged("z/_embedding.json")),
    "a pipe as an embedding's record": ("embedding folder", placed("z/_embedding.json", Special("pipe"))),
    "points that are NaN": ("index", tensors("index.safetensors", filled("points", np.nan))),
    "points in float16": ("index", tensors("index.safetensors", cast("points", "F16"))),
}
# These may be refused or put right, and must not be used as they are.
MENDED: dict[str, tuple[str, Change]] = {
    "a link where a checkpoint is written": ("resume, table", placed("run/last.safetensors.{pid}.part", CANARY)),
    "a link where an embedding is written": ("embedding folder", placed("z/part-00001.parquet.part", CANARY)),
    "a part of another embedding": ("embedding folder", exchanged("z/part-00001.parquet")),
    "a part that is empty": ("embedding folder", placed("z/part-00001.parquet", b"")),
    "an index with a long name": ("index", lambda folder, others: _long(folder, others)),
    "escapes in a label": ("run of a table", described(MODEL, put("record", "label", value="\x1b[31mred\x07"))),
    "weights beyond float32's sums": ("run of a table", tensors(MODEL, filled("model.encoder", 3e38))),
}


def _long(folder: Folder, others: list[Folder]) -> None:
    folder.update(others[1])
    tensors("index.safetensors", long_name)(folder, others)


@pytest.fixture(scope="module")
def judged() -> dict[str, Outcome]:
    """All cases, in one process."""
    files, cases = seeds(), REFUSED | MENDED
    inputs = {reader: folders[:1] for reader, folders in files.items()}
    named = defaultdict(list)
    for name, (reader, change) in cases.items():
        folder = copy.deepcopy(files[reader][0])
        change(folder, files[reader])
        inputs[reader] = [*inputs[reader], folder]
        named[reader].append(name)
    stretches = [Stretch(reader, 1, 1 + len(names)) for reader, names in named.items()]
    return {named[reader][number - 1]: outcome for reader, number, outcome in outcomes(stretches, None, inputs)}


@pytest.mark.parametrize("case", REFUSED)
def test_a_folder_is_refused_that_has(case: str, judged: dict[str, Outcome]) -> None:
    assert judged[case].kind == "refused", judged[case].what


@pytest.mark.parametrize("case", MENDED)
def test_nothing_is_hurt_by(case: str, judged: dict[str, Outcome]) -> None:
    assert judged[case].kind != "finding", judged[case].what
