"""Cores are those that the process may use, not those of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from horoball import process as cores
from horoball.process import available_cores, workers_within


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 64 cores whose control groups are in a folder."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(cores, "_PROCESS", tmp_path)
    return tmp_path


def groups(machine: Path, mounts: str, groups: str, files: dict[str, str]) -> None:
    (machine / "mountinfo").write_text(mounts.replace("TOP", str(machine / "sys")))
    (machine / "cgroup").write_text(groups)
    for name, text in files.items():
        path = machine / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


V1 = "40 30 0:29 {root} TOP/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
V2 = "30 23 0:26 {root} TOP rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_without_limits_all_cores_of_the_machine_are_there(machine: Path) -> None:
    assert available_cores() == 64  # no control groups at all, as on macOS
    groups(machine, V2.format(root="/"), "0::/\n", {"cpu.max": "max 100000\n"})
    assert available_cores() == 64


def test_affinity_counts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7})
    assert available_cores() == 3


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_process_bound_to_one_core_has_one() -> None:
    code = """import os
from horoball.process import available_cores
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(available_cores())"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def test_a_system_without_affinity_has_the_cores_of_the_machine(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert available_cores() == 64
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1


@pytest.mark.parametrize(("limit", "expected"), [("200000 100000", 2), ("150000 100000", 2), ("5000 100000", 1)])
def test_the_quota_of_version_2_counts(machine: Path, limit: str, expected: int) -> None:
    groups(machine, V2.format(root="/"), "0::/\n", {"cpu.max": limit + "\n"})
    assert available_cores() == expected


def test_the_smallest_quota_of_the_groups_around_counts(machine: Path) -> None:
    files = {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n", "other/cpu.max": "100000 100000\n"}
    groups(machine, V2.format(root="/"), "0::/a/b\n", files)
    assert available_cores() == 3


@pytest.mark.parametrize(("quota", "expected"), [("400000", 4), ("-1", 64)])
def test_the_quota_of_version_1_counts(machine: Path, quota: str, expected: int) -> None:
    files = {"cpu,cpuacct/job/cpu.cfs_quota_us": quota, "cpu,cpuacct/job/cpu.cfs_period_us": "100000"}
    groups(machine, V1.format(root="/"), "4:cpu,cpuacct:/job\n3:memory:/elsewhere\n0::/\n", files)
    assert available_cores() == expected


@pytest.mark.parametrize(
    ("root", "group"), [("/docker/abc", "/docker/abc"), ("/", "/../../outside"), ("/docker/abc", "/")]
)
def test_a_container_sees_its_own_group_as_the_top_folder(machine: Path, root: str, group: str) -> None:
    files = {"cpu,cpuacct/cpu.cfs_quota_us": "200000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}
    groups(machine, V1.format(root=root), f"4:cpu,cpuacct:{group}\n", files)
    assert available_cores() == 2


def test_a_hybrid_system_takes_the_limit_of_version_1(machine: Path) -> None:
    mounts = V1.format(root="/") + V2.format(root="/").replace("TOP", "TOP/unified")
    files = {"cpu,cpuacct/cpu.cfs_quota_us": "200000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}
    groups(machine, mounts, "1:cpu,cpuacct:/\n0::/\n", files)
    assert available_cores() == 2


def test_a_limit_that_cannot_be_read_is_none(machine: Path) -> None:
    groups(machine, V2.format(root="/"), "0::/\n", {"cpu.max": "nonsense"})
    assert available_cores() == 64


def test_workers_stay_within_the_budget_however_many_cores_there_are(machine: Path) -> None:
    gib = 2**30
    assert [workers_within(8 * gib, 3 * gib, most=cores) for cores in (1, 2, 64, 1024)] == [1, 2, 2, 2]
    assert workers_within(8 * gib, gib // 2) == 16
    assert workers_within(1000 * gib, gib) == 64  # the available cores
    assert workers_within(gib, 3 * gib) == 1


def test_workers_need_a_size_and_a_number() -> None:
    with pytest.raises(ValueError, match="at least 1 byte for each worker, got each=0"):
        workers_within(100, 0)
    with pytest.raises(ValueError, match="got most=0"):
        workers_within(100, 1, most=0)
