from __future__ import annotations

import pytest
from torch.distributions import Distribution


@pytest.fixture(autouse=True)
def _distributions_validate() -> None:
    """torch.compile turns validation off for the whole process; no test is to depend on which ran before."""
    Distribution.set_default_validate_args(True)
