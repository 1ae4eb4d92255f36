"""What every test begins with. Nothing of horoball is imported here, so that a test waits for its own imports alone."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.patches import once_imported, shorten_layouts

# The same examples in every run, so that a failure is one of the change at hand; `--hypothesis-profile=search` looks
# for new ones. Time is not judged: these tests run beside others.
settings.register_profile(
    "promised", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("promised")
os.environ.setdefault("MPLBACKEND", "agg")  # figures without windows, on a desktop too


# A browser draws in processes of its own, whose time no test is charged for: two tests of it are of the day.
BROWSER_BY_DAY = (
    "tests/viewer/test_moving.py::test_points_are_shown_where_they_are",
    "tests/viewer/test_controls.py::test_search_finds_names",
)
NIGHT = frozenset(Path(__file__).with_name("night.txt").read_text(encoding="utf-8").splitlines())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that take more than one second, see `cpu_times.py`, and those that draw in a browser."""
    for item in items:
        drawn = "browser" in getattr(item, "fixturenames", ()) and item.nodeid not in BROWSER_BY_DAY
        if item.nodeid in NIGHT or drawn:
            item.add_marker(pytest.mark.night)


@pytest.fixture(autouse=True)
def _distributions_validate() -> None:
    """torch.compile turns validation off for the whole process; no test is to depend on which ran before."""
    if "torch.distributions" in sys.modules:
        sys.modules["torch.distributions"].Distribution.set_default_validate_args(True)


@pytest.fixture(autouse=True)
def _log_is_left_alone() -> Iterator[None]:
    """A command that runs within the tests sends the library's log to the console; the next test shall not see it."""
    logger = logging.getLogger("horoball")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    """pyplot keeps figures until they are closed, and warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def _registrations_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test, or an example of a page, registers is there for that test alone."""
    for module, name in (("horoball.likelihoods", "LIKELIHOODS"), ("horoball.distributions", "POSTERIORS")):
        once_imported(module, lambda found, name=name: _copy(monkeypatch, getattr(found, name)), monkeypatch)


def _copy(monkeypatch: pytest.MonkeyPatch, registry: Any) -> None:
    monkeypatch.setattr(registry, "_classes", dict(registry._classes))


@pytest.fixture(autouse=True)
def _layouts_are_short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps of a few steps, which is all that most tests need; `@pytest.mark.whole_maps` has them as users do."""
    if request.node.get_closest_marker("whole_maps") is None:
        shorten_layouts(monkeypatch)


@pytest.fixture(scope="module")
def s3_server() -> Iterator[None]:
    """A server that speaks S3's protocol, with a bucket of the name bucket."""
    pytest.importorskip("s3fs")
    import fsspec

    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "a-key",
            "AWS_SECRET_ACCESS_KEY": "a-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()  # which know the server of another module
        fsspec.filesystem("s3").makedirs("bucket", exist_ok=True)
        yield
        fsspec.get_filesystem_class("s3").clear_instance_cache()
    server.stop()
