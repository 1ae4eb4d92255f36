from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def warn_always() -> Iterator[None]:
    """Not once per process: warnings are errors here, and a test must not depend on its order."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)
