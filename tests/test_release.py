"""What has to agree before a release."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import horoball

ROOT = Path(__file__).parents[1]


def test_the_version_is_one_in_all_places() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert citation is not None
    assert {project, citation[1], version("horoball"), horoball.__version__} == {project}
    assert headings[:2] == ["Unreleased", project]


def test_the_changelog_has_days_of_releases() -> None:
    for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## [") and "Unreleased" not in line:
            assert re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", line), line
