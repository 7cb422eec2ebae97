"""Range checks for calculations with numbers from a peer, which may be finite but too large.

An overflow is a protocol error here, raised before any state changes or any reply is sent.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.protocol.asking import check

LARGEST = 1e100  # per row, from parties: squares and sums of it stay finite
_BEYOND = "its numbers lead beyond what can be calculated with"


@contextmanager
def calculate() -> Iterator[None]:
    """Suppress numpy warnings in the block; check its results with `check_numbers`."""
    try:
        with np.errstate(all="ignore"):
            yield
    except np.linalg.LinAlgError:
        raise ProtocolError.stating(_BEYOND) from None


def check_numbers(*results: NDArray[np.float64] | float) -> None:
    """Refuse results that are not finite."""
    check(all(bool(np.isfinite(result).all()) for result in results), _BEYOND)


def check_size(*numbers: NDArray[np.float64] | float) -> None:
    """Refuse numbers larger than any table gives."""
    largest = max(float(np.abs(each).max(initial=0.0)) for each in map(np.asarray, numbers))
    check(largest <= LARGEST, _BEYOND)
