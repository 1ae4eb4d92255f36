from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from horoball.storage.whole import clear_parts, whole_file, write_whole


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with whole_file(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt(), OSError("no number")])
def test_what_goes_wrong_is_raised_as_it_is_and_leaves_the_old_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(type(error)) as caught, whole_file(path) as file:  # noqa: PT012  what is written is half
        file.write(b"half")
        raise error
    assert caught.value is error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("there", [True, False])
def test_a_full_disk_is_told_with_the_file(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "page.html"
    if there:
        path.write_text("old")
    says = "what was there before is kept" if there else "nothing of it is left"
    with pytest.raises(OSError, match=f"No space is left to write .*page.html; {says}") as caught, whole_file(path):
        raise OSError(errno.ENOSPC, "Error writing bytes\n")
    assert caught.value.errno == errno.ENOSPC
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"), whole_file(tmp_path / "nowhere" / "x") as file:
        file.write(b"")


def test_a_second_writer_is_refused_and_what_a_killed_one_left_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "z.parquet"
    (tmp_path / "z.parquet.horoball.part").write_text("left by a process that was killed")
    with whole_file(path) as file:
        with pytest.raises(ValueError, match=r"Another process is writing .*z\.parquet: process .*another name"):
            whole_file(path).__enter__()
        file.write(b"first")
        file.flush()
        with pytest.raises(ValueError, match=r"z\.parquet: a process that does not say which\. Wait"):
            whole_file(path).__enter__()
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_others_that_end_in_part_are_kept(tmp_path: Path) -> None:
    """As a browser names what it is downloading."""
    for name in ("z.csv.part", "notes.safetensors.1.part"):
        (tmp_path / name).write_text("of somebody else")
    write_whole(tmp_path / "z.csv", "mine")
    clear_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.safetensors.1.part", "z.csv", "z.csv.part"]
    assert (tmp_path / "z.csv.part").read_text() == "of somebody else"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="folders without write access need a user")
def test_a_folder_that_cannot_be_written_to_is_told_with_the_whole_path(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=str(tmp_path / "x.horoball.part")):
        write_whole(tmp_path / "x", "")


def test_errors_of_a_file_name_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "x")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=f"Read-only file system: '{tmp_path / 'x'}'"):
        write_whole(tmp_path / "x", "")
    assert list(tmp_path.iterdir()) == []
