"""What has to agree before a release."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import horoball
from tests.late import late

yaml = late("yaml")

ROOT = Path(__file__).parents[1]
CI, WORKFLOWS = ROOT / ".ci", ROOT / ".github" / "workflows"


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


def scripts() -> dict[str, list[str]]:
    """Lines of the scripts of .ci by name, without comments."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in CI.iterdir() if path.suffix == ""}
    shell = {name: text for name, text in texts.items() if text.startswith("#!")}
    return {
        name: [line for line in text.splitlines() if not line.lstrip().startswith("#")] for name, text in shell.items()
    }


def test_scripts_install_by_hash() -> None:
    for name, lines in scripts().items():
        for line in lines:
            if "pip install" not in line:
                continue
            alone = name == "torch" and "--no-deps" in line  # one package, from one index, where no hash is known
            own = "--no-deps --no-build-isolation -e ." in line
            assert "--require-hashes" in line or alone or own, f"{name}: {line}"


def test_no_index_stands_beside_the_usual_one() -> None:
    lines = [line for script in scripts().values() for line in script]
    for path in WORKFLOWS.glob("*.yml"):
        lines += path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if "extra-index" in line.lower() or "EXTRA_INDEX" in line] == []


def test_the_audit_covers_every_lock() -> None:
    (command,) = (line for line in scripts()["audit"] if "--strict" in line)
    assert {word for word in command.split() if word.endswith(".lock")} == {
        f".ci/{path.name}" for path in CI.glob("*.lock")
    }


def test_tools_are_locked_in_the_pinned_version() -> None:
    lines = (CI / "tools.in").read_text(encoding="utf-8").splitlines()
    wanted = dict(line.split("==") for line in lines if not line.startswith("#"))
    packages = locked("tools.lock")
    assert {name: packages[name][0] for name in wanted} == wanted
    assert [name for name, (_, hashes) in packages.items() if hashes == 0] == []
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert backend == f"hatchling=={wanted['hatchling']}"


def workflow(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8")))


def test_only_publishing_has_rights_and_comes_after_everything_else() -> None:
    release = workflow("release.yml")
    jobs = release["jobs"]
    assert release["permissions"] == {"contents": "read"}
    rights = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    assert rights == {
        "publish": {"contents": "read", "id-token": "write", "attestations": "write"},
        "page": {"contents": "write"},
    }
    assert set(jobs["publish"]["needs"]) == jobs.keys() - {"publish", "page"}
    assert jobs["publish"]["if"] == "github.event_name == 'push'"
    assert release[True]["push"] == {"tags": ["v*"]}  # YAML reads the key "on" as true
    assert "secrets." not in (WORKFLOWS / "release.yml").read_text(encoding="utf-8")


def test_the_release_is_built_twice_attested_and_published_from_a_tested_signed_tag() -> None:
    jobs = workflow("release.yml")["jobs"]
    run = {name: " ".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()}
    used = [step["uses"].split("@")[0] for step in jobs["publish"]["steps"] if "uses" in step]
    assert "bash .ci/tag" in run["tag"]
    assert "bash .ci/build" in run["build"]
    assert "diff built/SHA256SUMS again/SHA256SUMS" in run["again"]
    assert "bash .ci/package" in run["test"]
    assert "bash .ci/audit" in run["audit"]
    assert "sha256sum --check --strict" in run["publish"]
    assert used[1:] == [
        "actions/attest-build-provenance",
        "actions/attest-sbom",
        "pypa/gh-action-pypi-publish",
    ]
    assert jobs["publish"]["steps"][-1]["with"]["attestations"] is True


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yml")), ids=lambda path: path.name)
def test_workflows_start_scripts_that_are_there(path: Path) -> None:
    jobs = workflow(path.name)["jobs"].values()
    lines = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    names = {name for line in lines for name in re.findall(r"bash \.ci/([\w.]+)", line)}
    names |= {name for job in jobs for name in job.get("strategy", {}).get("matrix", {}).get("script", [])}
    assert names
    assert names <= scripts().keys()


def test_the_page_on_releases_names_every_script() -> None:
    page = (ROOT / "docs" / "release.md").read_text(encoding="utf-8")
    assert [name for name in scripts() if f".ci/{name}" not in page] == []


@pytest.fixture
def tagged(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A repository whose maintainer's key is known; the function tags a version in it and asks .ci/tag."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("needs ssh-keygen")
    where = tmp_path / "project"
    where.mkdir()
    held = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": str(tmp_path)}

    def run(*command: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=where, env=os.environ | held | more, capture_output=True, text=True, check=check
        )

    for name in ("maintainer", "stranger"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name))
    run("git", "init", "-q", "-b", "main")
    for key, value in {"user.name": "a", "user.email": "a@example.org", "gpg.format": "ssh"}.items():
        run("git", "config", key, value)
    (where / ".ci").mkdir()
    key = (tmp_path / "maintainer.pub").read_text(encoding="utf-8")
    (where / ".ci" / "signers").write_text(f'a@example.org namespaces="git" {key}', encoding="utf-8")
    (where / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n', encoding="utf-8")
    (where / "CITATION.cff").write_text("version: 1.2.3\n", encoding="utf-8")
    (where / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n", encoding="utf-8")
    run("git", "add", "-A")
    run("git", "commit", "-qm", "All")

    def tagged(*how: str, tag: str = "v1.2.3", key: str = "maintainer", **files: str) -> Any:
        for name, text in files.items():
            run("git", "checkout", "-q", "-B", "other")
            (where / name.replace("_", ".")).write_text(text, encoding="utf-8")
            run("git", "commit", "-qam", name)
        run("git", "-c", f"user.signingkey={tmp_path / key}", "tag", *how, tag)
        return run("bash", str(CI / "tag"), tag, check=False, MAIN="other" if "pyproject_toml" in files else "main")

    return tagged


def test_a_signed_tag_of_its_version_may_be_released(tagged: Callable[..., Any]) -> None:
    asked = tagged("-sm", "x")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout == "v1.2.3 may be released.\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"how": "--no-sign"}, "there is no annotated tag of this name. Make it: git tag -s v1.2.3"),
        ({"how": "-am x"}, "it has no signature by a key of .ci/signers on main."),
        ({"key": "stranger"}, "it has no signature by a key of .ci/signers on main."),
        ({"tag": "v1.2.4"}, "pyproject.toml of its commit has version 1.2.3."),
        ({"CHANGELOG_md": "## [Unreleased]\n"}, "its commit is not on main."),
        ({"pyproject_toml": 'version = "1.2.4"\n', "tag": "v1.2.4"}, "CITATION.cff of its commit has another version."),
    ],
    ids=["a name of a commit", "unsigned", "another key", "another version", "another branch", "another citation"],
)
def test_another_tag_is_not_released(tagged: Callable[..., Any], options: dict[str, str], said: str) -> None:
    asked = tagged(*options.pop("how", "-sm x").split(), **options)
    assert asked.returncode == 1
    assert f"is not released: {said}" in asked.stderr


def locked(*names: str) -> dict[str, tuple[str, int]]:
    """Package → its version and the number of hashes, of the given locks, or of the development environment."""
    packages: dict[str, tuple[str, int]] = {}
    for name in names or ("requirements.lock", "torch.lock"):
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


def imported(folder: Path) -> dict[str, str]:
    """Top-level modules that the files of a folder import, with one file each."""
    found: dict[str, str] = {}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found |= {name.split(".")[0]: str(path.relative_to(ROOT)) for name in names}
    return found


def test_the_test_group_has_every_package_that_tests_import() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = (*settings["project"]["dependencies"], *settings["dependency-groups"]["test"])
    there = {canonical(Requirement(line).name) for line in wanted}
    own = {"horoball", "tests", "benchmarks", "examples", "experiments", "quality", *sys.stdlib_module_names}
    homes = packages_distributions()
    for module, file in sorted(imported(ROOT / "tests").items()):
        if module not in own:
            assert {canonical(name) for name in homes.get(module, [module])} & there, (
                f"{file} imports {module}, which is in no group."
            )
