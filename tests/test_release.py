"""What has to agree before a release."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

import horoball

ROOT = Path(__file__).parents[1]


def test_the_version_is_one_in_all_places() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert citation is not None
    assert {project, citation[1], version("horoball"), horoball.__version__} == {project}
    released = project.split(".dev")[0]
    assert headings[0] == "Unreleased"
    # A version under development is the one after the last that was released, which keeps its number.
    assert headings[1] == project if released == project else Version(headings[1]) < Version(project)


def test_the_changelog_has_days_of_releases() -> None:
    for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## [") and "Unreleased" not in line:
            assert re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", line), line


def test_actions_are_pinned_by_commit() -> None:
    used = [
        line.split("uses:")[1].split("#")[0].strip()
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "uses:" in line
    ]
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []


def test_tools_of_the_scripts_are_pinned_by_version() -> None:
    for path in (ROOT / ".ci").iterdir():
        lines = path.read_text("utf-8").splitlines() if path.suffix == "" else []
        for line in (line.split("pip install -q ")[1] for line in lines if "pip install -q " in line):
            if "constraints.txt" not in line and ".lock" not in line:
                assert all(
                    "==" in word or word in ("--no-deps", "--no-build-isolation", "-e", ".") for word in line.split()
                ), line


def locked() -> dict[str, tuple[str, int]]:
    """Package → its version and the number of hashes, of the two locks."""
    packages: dict[str, tuple[str, int]] = {}
    for name in ("requirements.lock", "torch.lock"):
        for block in re.split(r"\n(?=\w)", (ROOT / ".ci" / name).read_text(encoding="utf-8")):
            if found := re.match(r"([\w.-]+)==(\S+)", block):
                packages[canonical(found[1])] = (found[2], block.count("--hash=sha256:"))
    return packages


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_locked_package_has_hashes_and_the_pinned_version() -> None:
    packages = locked()
    assert [name for name, (_, hashes) in packages.items() if hashes == 0] == []
    for line in (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, pinned = line.split("==")
            assert packages[canonical(name)][0] == pinned, line


def test_the_lock_covers_all_that_a_plain_install_pulls_in() -> None:
    packages, seen, open_ = locked(), set(), ["horoball"]
    while open_:
        name = open_.pop()
        for requirement in map(Requirement, requires(name) or ()):
            wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if wanted and (dependency := canonical(requirement.name)) not in seen:
                seen.add(dependency)
                open_.append(dependency)
    assert {"torch", "numpy", "pyarrow", "safetensors"} <= seen
    assert seen - packages.keys() == set()
