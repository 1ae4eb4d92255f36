"""Running out of memory is one typed error that says how much was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import horoball as hb
from horoball.cli import app
from horoball.process import OutOfMemoryError, memory_asked

X = np.random.default_rng(0).normal(size=(24, 3))


def test_torch_asked_for_too_much_is_a_memory_error_with_the_size() -> None:
    with pytest.raises(OutOfMemoryError, match=r"Out of memory: 4 PiB were asked for at once\. Use"), memory_asked():
        torch.zeros(1 << 50, dtype=torch.int32)


def test_numpy_asked_for_too_much_is_a_memory_error_with_the_size() -> None:
    with pytest.raises(OutOfMemoryError, match=r"Out of memory: 8\.00 PiB were asked for at once"), memory_asked():
        np.zeros(1 << 50)


def test_another_runtime_error_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="other"), memory_asked():
        raise RuntimeError("other")


def test_a_fit_that_is_too_large_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match=r"Out of memory: 3\.64 TiB were asked for at once"):
        hb.PoincareVAE(hidden=(10**6, 10**6), max_epochs=1).fit(X)


def test_a_command_without_memory_ends_with_one_line_that_says_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocate(*_: object, **__: object) -> None:
        raise RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 2048 bytes."
        )

    np.save(tmp_path / "x.npy", X)
    monkeypatch.setattr("horoball.vae.model.VAE.from_config", allocate)
    ended = CliRunner().invoke(app, ["fit", str(tmp_path / "x.npy"), "-o", str(tmp_path / "run"), "--quiet"])
    assert ended.exit_code == 1
    assert "Error: Out of memory: 2 KiB were asked for at once. Use fewer" in ended.output
