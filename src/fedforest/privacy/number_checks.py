"""Whether what a user passed as a setting is a number at all: truth values are not."""

import math
from numbers import Integral, Real


def is_whole(value: object) -> bool:
    """Whether it is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_real(value: object) -> bool:
    """Whether it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return math.isfinite(value)
