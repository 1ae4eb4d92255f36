"""How much memory a file may take: by its size, by the machine, or as the user says."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from horoball.cli import app
from horoball.process import given_memory, machine_memory, max_memory, parse_bytes
from horoball.tables.limits import allowed, check_held


@pytest.mark.parametrize(("text", "size"), [("1", 1), ("4GB", 4 * 10**9), ("1.5gib", 3 << 29), ("20 kB", 20_000)])
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "much", "4 PB", "nan", "1e9"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 4GB"):
        parse_bytes(text)


def test_what_the_user_says_counts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOROBALL_MAX_MEMORY", raising=False)
    assert given_memory() is None
    assert allowed(10**15) <= machine_memory()
    with max_memory("1TB"), max_memory("2MB"):
        assert allowed(10**9) == 2 * 10**6
        with pytest.raises(ValueError, match=r"more than the 2,000,000 that are allowed; .*--max-memory"):
            check_held(3 * 10**6, 10**9, "it")
    with max_memory("1TB"):
        check_held(10**11, 10, "it")
    monkeypatch.setenv("HOROBALL_MAX_MEMORY", "5MB")
    assert allowed(10**9) == 5 * 10**6
    monkeypatch.setenv("HOROBALL_MAX_MEMORY", "much")
    with pytest.raises(ValueError, match="HOROBALL_MAX_MEMORY"):
        given_memory()


def test_a_command_takes_it_before_its_name(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 500_000))
    result = CliRunner().invoke(app, ["--max-memory", "1MB", "fit", str(path), "-o", str(tmp_path / "run")])
    assert result.exit_code == 1
    assert "--max-memory" in " ".join(result.output.split())
    assert given_memory() is None
    result = CliRunner().invoke(app, ["--max-memory", "much", "fit", str(path), "-o", str(tmp_path / "run")])
    assert result.exit_code == 2
