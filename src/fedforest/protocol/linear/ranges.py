"""Calculating with numbers that a peer chose: finite, and yet too large to be reckoned with.

Overflow is no warning here but a rule that was broken, found before anything is changed or said.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.protocol.asking import check

LARGEST = 1e100  # of what parties say per row: squares and sums of it are still numbers
_BEYOND = "its numbers lead beyond what can be calculated with"


@contextmanager
def calculate() -> Iterator[None]:
    """Results may be no numbers, and are to be looked at by `check_numbers`."""
    try:
        with np.errstate(all="ignore"):
            yield
    except np.linalg.LinAlgError:
        raise ProtocolError(_BEYOND) from None


def check_numbers(*results: NDArray[np.float64] | float) -> None:
    """Refuse what led to something that is no number."""
    check(all(bool(np.isfinite(result).all()) for result in results), _BEYOND)


def check_size(*numbers: NDArray[np.float64] | float) -> None:
    """Refuse numbers of a size that no table leads to."""
    largest = max(float(np.abs(each).max(initial=0.0)) for each in map(np.asarray, numbers))
    check(largest <= LARGEST, _BEYOND)
