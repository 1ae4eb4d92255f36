"""A plugin of pytest that writes the CPU seconds of every test: `python -m pytest -p tests.cpu_times`.

Lines of seconds and test are added to the file that HOROBALL_CPU_TIMES names, by all workers. From it,
`python -m tests.cpu_times FILE` makes `night.txt`: the tests that run at night, because they take more than one
second. Of every folder that is named in `SMOKE`, the shortest stays for the day, and so does what begins as `BY_DAY`
has it: a change breaks these most often, and whichever is first pays for what all of them share. What begins as
`ALWAYS` has it never stays, for it takes longer than is seen here: tests that share one result, and those that compute
in a process that outlives them.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

NIGHT = Path(__file__).with_name("night.txt")
LONGEST = 1.0  # seconds of a test that is run before every merge
BRIEF = 0.3  # of one of these folders, which are tried by day and tested at night
TRIED = ("tests/experiments", "tests/quality")
SMOKE = (
    "tests/devices",
    "tests/experiments",
    "tests/quality",
    "tests/test_benchmarks.py",
    "tests/test_without_extras.py",
    "tests/viewer",
)
BY_DAY = (
    "tests/test_docs.py::test_modules_say_what_they_offer_once",
    "tests/test_errors.py",
    "tests/test_layout.py",
    "tests/test_without_extras.py",
)
ALWAYS = (
    "tests/devices/test_simulated_device.py",
    "tests/quality/test_fuzz_cases.py",
    "tests/tables/test_costs.py::test_a_small_file_that_asks_for_much_is_refused_cheaply[xlsx, a distant row]",
)


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    began = _cpu()
    result = yield
    with Path(os.environ["HOROBALL_CPU_TIMES"]).open("a", encoding="utf-8") as file:
        file.write(f"{_cpu() - began:.2f}\t{item.nodeid}\n")
    return result


def long_tests(lines: list[str]) -> list[str]:
    """The tests that took too long for the day; of those that were run more than once, by the shortest run."""
    seconds: dict[str, float] = {}
    for line in lines:
        time_, test = line.split("\t", 1)
        seconds[test] = min(float(time_), seconds.get(test, float("inf")))
    late = {
        test
        for test, each in seconds.items()
        if each > (BRIEF if test.startswith(TRIED) else LONGEST) or test.startswith(ALWAYS)
        if not test.startswith(BY_DAY)
    }
    for folder in SMOKE:
        within = [test for test in seconds if test.startswith(folder)]
        if within and late.issuperset(within):
            late.remove(min(within, key=lambda test: seconds[test]))
    return sorted(late)


if __name__ == "__main__":
    NIGHT.write_text("\n".join(long_tests(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())) + "\n")
