from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from torch.distributions import Distribution

# The same examples in every run, so that a failure is one of the change at hand; `--hypothesis-profile=search` looks
# for new ones. Time is not judged: these tests run beside others.
settings.register_profile(
    "promised", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("promised")


@pytest.fixture(autouse=True)
def _distributions_validate() -> None:
    """torch.compile turns validation off for the whole process; no test is to depend on which ran before."""
    Distribution.set_default_validate_args(True)
