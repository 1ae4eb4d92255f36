from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from horoball.storage.checkpoint import load_checkpoint
from tests.vae.test_fit import ENVIRONMENT, ROOT, assert_same, run, weights

pytestmark = pytest.mark.slow  # every test starts three processes, which import torch and Fabric


def two_ranks(*arguments: str) -> subprocess.CompletedProcess[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "tests.training.script", *arguments]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, timeout=180, capture_output=True, text=True)


def test_two_ranks_do_what_one_does(tmp_path: Path) -> None:
    run(tmp_path / "one")
    done = two_ranks(str(tmp_path / "two"))
    assert done.returncode == 0
    assert "deprecated" not in done.stderr
    assert_same(weights(tmp_path / "one"), weights(tmp_path / "two"), tolerance=1e-5)
    one, two = (load_checkpoint(tmp_path / name / "last.safetensors")[1]["state"]["history"] for name in ("one", "two"))
    assert [line["loss"] for line in one] == pytest.approx([line["loss"] for line in two], rel=1e-5)


def test_ranks_part_and_meet_again(tmp_path: Path) -> None:
    # Before DDP let go of the process group, two ranks hung within some twenty partings.
    assert two_ranks(str(tmp_path / "run"), "--fits", "60", "--epochs", "1").returncode == 0


def test_a_signal_to_one_rank_stops_both_after_the_same_step(tmp_path: Path) -> None:
    run(tmp_path / "one")
    stopped = two_ranks(str(tmp_path / "two"), "--sigterm")
    assert stopped.returncode != 0
    assert len(set(re.findall(r"Interrupted: Stopped in epoch .*", stopped.stderr))) == 1
    assert two_ranks(str(tmp_path / "two")).returncode == 0
    assert_same(weights(tmp_path / "one"), weights(tmp_path / "two"), tolerance=1e-5)


def test_a_loss_that_is_not_finite_on_one_rank_stops_both(tmp_path: Path) -> None:
    stopped = two_ranks(str(tmp_path / "run"), "--broken")
    assert stopped.returncode != 0
    assert "on rows of values from" in stopped.stderr
    assert "on rows of another rank" in stopped.stderr
