from __future__ import annotations

import pytest
import torch

from benchmarks import device as benchmark
from horoball.devices import available, check_name, has_float64, resolved
from horoball.storage.settings import SettingError
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.training.state import run_digest
from horoball.vae.train import train


def test_auto_is_the_first_device_there_is() -> None:
    assert resolved("auto").type == available()[0]
    assert resolved("cpu") == torch.device("cpu")
    assert has_float64(resolved("cpu"))


@pytest.mark.parametrize("name", ["gpu", "", "meta", "cuda:x", "cpu cuda"])
def test_what_is_no_device_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=r"torch's devices, got"):
        check_name(name)
    with pytest.raises(SettingError, match=r"device is .* got"):
        TrainConfig(device=name)


def test_a_device_that_is_not_there_is_refused_with_those_that_are() -> None:
    missing = next(name for name in ("cuda", "mps", "xpu") if name not in available())
    assert TrainConfig(device=missing).device == missing  # as a record of another machine may say
    with pytest.raises(ValueError, match=f"The device '{missing}' is not there: .* have .*cpu"):
        train(ArrayTable(torch.randn(20, 3)), {"hidden": (4,)}, TrainConfig(max_epochs=1, device=missing))


def test_a_precision_has_a_name_of_fabric() -> None:
    with pytest.raises(SettingError, match=r"precision is one of 32-true, bf16-mixed, got '8'"):
        TrainConfig(precision="8")


def test_mixed_precision_trains_to_nearly_the_same_numbers() -> None:
    table = ArrayTable(torch.randn(200, 5, generator=torch.Generator().manual_seed(0)))
    whole, mixed = (
        train(table, {"hidden": (16,)}, TrainConfig(max_epochs=2, precision=precision)).history[-1]["loss"]
        for precision in ("32-true", "bf16-mixed")
    )
    assert mixed != whole
    assert mixed == pytest.approx(whole, rel=0.02)


def test_device_and_precision_are_no_part_of_a_run() -> None:
    layer = torch.nn.Linear(2, 1)
    assert run_digest(layer, TrainConfig(device="cuda", precision="bf16-mixed"), None) == run_digest(
        layer, TrainConfig(), None
    )


def test_the_benchmark_prints_both_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--quick", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("Riemannian") == 2
    assert "cpu / bare" in printed
