"""Seeds of the tests of distributions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.distributions import Distribution


@pytest.fixture
def seed() -> Iterator[None]:
    Distribution.set_default_validate_args(True)  # torch.compile turns it off for the whole process
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
