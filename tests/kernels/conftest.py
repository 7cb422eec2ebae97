"""What the tests of kernels share, compiled or not."""

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True, scope="session")
def _silent_arithmetic() -> Iterator[None]:
    """Compiled integers wrap round and 0 / 0 is NaN, silently; plain numpy would warn of both."""
    with np.errstate(all="ignore"):
        yield
