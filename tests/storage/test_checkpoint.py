from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from horoball.storage import checkpoint
from horoball.storage.checkpoint import (
    FORMAT,
    load_checkpoint,
    load_header,
    load_optimizer,
    optimizer_tensors,
    save_checkpoint,
    this_version,
)

TENSORS = {
    "model.weight": torch.arange(6.0).reshape(2, 3).T,  # not contiguous
    "model.bias": torch.tensor([float("inf"), -0.0, 1e-45, float("nan")]),
    "scaler.mean": torch.ones(3, dtype=torch.float64),
    "step": torch.tensor(7.0),
    "count": torch.tensor([2**40], dtype=torch.int64),
    "none": torch.empty(0, 3),
}
STATE = {"state": {"epoch": 3, "best": 0.1, "history": [{"loss": 1 / 3}]}, "record": {"columns": ["a", "ü", '"']}}


def bits(tensor: Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    return tensor.dtype, tensor.shape, tensor.detach().contiguous().numpy().tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "last.safetensors"


def test_what_is_saved_comes_back_bit_by_bit(path: Path) -> None:
    save_checkpoint(path, TENSORS, STATE)
    tensors, state = load_checkpoint(path)
    assert {name: bits(tensor) for name, tensor in tensors.items()} == {k: bits(v) for k, v in TENSORS.items()}
    assert state == {"format": FORMAT, "version": this_version()} | STATE
    assert load_header(path) == state
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_best_loss_of_a_run_without_validation_comes_back(path: Path) -> None:
    save_checkpoint(path, {}, {"best": float("inf")})
    assert load_checkpoint(path)[1]["best"] == float("inf")


def test_what_needs_gradients_is_saved_too_and_loads_without(path: Path) -> None:
    save_checkpoint(path, {"w": nn.Parameter(torch.ones(2))}, {})
    assert not load_checkpoint(path)[0]["w"].requires_grad


def test_a_new_checkpoint_takes_the_place_of_the_old(path: Path) -> None:
    for step in range(3):
        save_checkpoint(path, {"w": torch.full((2,), float(step))}, {"step": step})
    tensors, state = load_checkpoint(path)
    assert (tensors["w"].tolist(), state["step"]) == ([2.0, 2.0], 2)


def test_a_part_that_was_left_over_is_ignored(path: Path) -> None:
    save_checkpoint(path, {"w": torch.ones(2)}, {"step": 1})
    for pid in (1, os.getpid()):
        path.with_name(f"{path.name}.{pid}.part").write_bytes(b"half")
    assert load_checkpoint(path)[1]["step"] == 1
    save_checkpoint(path, {"w": torch.ones(2)}, {"step": 2})
    assert load_checkpoint(path)[1]["step"] == 2


@pytest.mark.parametrize("where", ["os.fsync", "os.replace"])
def test_a_writer_that_is_killed_leaves_the_old_checkpoint(
    path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(path, {"w": torch.ones(2)}, {"step": 1})

    def killed(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(where, killed)
        with pytest.raises(OSError, match="No space left"):
            save_checkpoint(path, {"w": torch.zeros(2)}, {"step": 2})
    tensors, state = load_checkpoint(path)
    assert (tensors["w"].tolist(), state["step"]) == ([1.0, 1.0], 1)


class Bomb:
    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, ("unpickled",)


def something_else(metadata: dict[str, str] | None) -> bytes:
    return safetensors.torch.save({"w": torch.ones(2)}, metadata)


def whole() -> bytes:
    return something_else({"horoball": json.dumps({"format": FORMAT})})


LONG = json.dumps({"a" * 3000: {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}).encode()
NO_CHECKPOINT = {
    "garbage": (b"garbage" * 100, "is not a whole safetensors file"),
    "nothing": (b"", "is not a whole safetensors file"),
    "a pickle": (pickle.dumps(Bomb()), "is not a whole safetensors file.*pickled checkpoints are not read"),
    "a zip": (b"PK\x03\x04" + bytes(500), "is not a whole safetensors file"),
    "a long name": (
        len(LONG).to_bytes(8, "little") + LONG,
        "is not a whole safetensors file.{1,250}It may be cut short",
    ),
    "another format": (
        something_else({"horoball": '{"format": 999, "version": "7.8.9"}'}),
        f"has checkpoint format 999 and was written by horoball 7.8.9; this is horoball .*reads format {FORMAT}",
    ),
    "the first format": (
        something_else({"horoball": '{"format": 1}'}),
        f"format 1 and was written by a version of horoball that it does not name; .*reads format {FORMAT}",
    ),
    "no format": (something_else({"horoball": "{}"}), f"has checkpoint format None.*reads format {FORMAT}"),
    "a version that is no version": (
        something_else({"horoball": '{"format": 3, "version": "\\u001b[2J"}'}),
        "written by a version of horoball that it does not name",
    ),
    "a newer version": (
        something_else({"horoball": json.dumps({"format": FORMAT, "version": "7.8.9"})}),
        r"was written by horoball 7\.8\.9, which is newer than this one, horoball .*Use that version, or a newer one",
    ),
    "something else": (something_else({"format": "pt"}), "safetensors file, but not a checkpoint of horoball"),
    "no header": (something_else(None), "safetensors file, but not a checkpoint of horoball"),
    "a broken state": (something_else({"horoball": "{"}), "last.safetensors"),
    "no state": (something_else({"horoball": "[1]"}), "last.safetensors"),
}


def refuses(path: Path, match: str) -> None:
    with pytest.raises(ValueError, match=match) as caught:
        load_checkpoint(path)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NO_CHECKPOINT)
def test_what_is_no_checkpoint_is_refused_in_one_line(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, says = NO_CHECKPOINT[name]
    monkeypatch.chdir(path.parent)
    path.write_bytes(content)
    refuses(path, says)
    assert not Path("unpickled").exists()


@pytest.mark.parametrize(
    ("written", "now", "newer"),
    [
        ("0.1.0", "0.2.0.dev0", False),
        ("0.2.0.dev0", "0.2.0.dev0", False),
        ("0.2.0.dev1", "0.2.0.dev0", True),
        ("0.2.0", "0.2.0.dev0", True),
        ("0.2.0.dev0", "0.2.0", False),
        ("0.10.0", "0.9.1", True),
        ("0.2.1", "0.2.0", True),
        ("1.0.0.dev0", "0.2.0", True),
        ("nonsense", "0.2.0", False),
    ],
)
def test_versions_are_read_in_their_order(
    written: str, now: str, newer: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(something_else({"horoball": json.dumps({"format": FORMAT, "version": written})}))
    monkeypatch.setattr(checkpoint, "this_version", lambda: now)
    if newer:
        refuses(path, f"was written by horoball {written}, which is newer than this one, horoball {now}")
    else:
        assert load_header(path)["version"] == written


def test_a_pickle_of_torch_is_refused(path: Path) -> None:
    torch.save({"w": torch.ones(2)}, path)
    refuses(path, "pickled checkpoints are not read")


@pytest.mark.parametrize("kept", [1, 7, 8, 9, 40, -8, -1])
def test_a_file_that_is_cut_short_is_refused(kept: int, path: Path) -> None:
    path.write_bytes(whole())
    assert load_checkpoint(path)[0]["w"].tolist() == [1.0, 1.0]
    path.write_bytes(whole()[:kept])
    refuses(path, "is not a whole safetensors file.*cut short")


def test_a_missing_file_and_a_folder_are_refused(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no checkpoint .*last\.safetensors"):
        load_checkpoint(path)
    path.mkdir()
    refuses(path, "is not a regular file")


def some_steps(optimizer: torch.optim.Optimizer, model: nn.Module, steps: range) -> None:
    for step in steps:
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Adam]] = {
    "fused Adam": lambda model: torch.optim.Adam(model.parameters(), 1e-2, fused=True),
    "Adam": lambda model: torch.optim.Adam(model.parameters(), 1e-2),
    "AdamW, amsgrad": lambda model: torch.optim.AdamW(model.parameters(), 1e-2, amsgrad=True),
}


def a_model() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model.register_parameter("unused", nn.Parameter(torch.ones(2)))  # never has a gradient, and so no state
    return model


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_goes_on_as_if_it_had_not_been_saved(name: str, path: Path) -> None:
    model = a_model()
    optimizer = OPTIMIZERS[name](model)
    some_steps(optimizer, model, range(5))
    saved = optimizer_tensors(optimizer)
    save_checkpoint(path, dict(model.state_dict(prefix="model.")) | saved, {})

    again = a_model()
    fresh = OPTIMIZERS[name](again)
    tensors = load_checkpoint(path)[0]
    again.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
    load_optimizer(fresh, tensors)
    restored = optimizer_tensors(fresh)
    assert {k: bits(v) for k, v in restored.items()} == {k: bits(v) for k, v in saved.items()}

    some_steps(optimizer, model, range(5, 9))
    some_steps(fresh, again, range(5, 9))
    assert [bits(p) for p in model.parameters()] == [bits(p) for p in again.parameters()]


def test_an_optimizer_before_its_first_step_has_no_state() -> None:
    optimizer = torch.optim.Adam(a_model().parameters())
    assert optimizer_tensors(optimizer) == {}
    load_optimizer(optimizer, {"model.weight": torch.ones(2)})
    assert optimizer_tensors(optimizer) == {}
