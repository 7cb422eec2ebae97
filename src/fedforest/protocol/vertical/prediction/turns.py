"""Turns of rows on their way between coordinator and parties, in 64-bit words."""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.prediction.positions import is_padded_with_zeros
from fedforest.protocol.asking import check
from fedforest.protocol.payloads import from_bytes


def read_turns(data: memoryview, counts: NDArray[np.int64], n_levels: int) -> NDArray[np.uint64]:
    """The words of so many levels, for so many rows of each tree."""
    n_words = n_levels * int(((counts + 63) >> 6).sum())
    check(len(data) >= 8 * n_words, "turns are too short")
    check(len(data) == 8 * n_words, "turns are too long")
    words = from_bytes(data, "<u8", n_words, "turns")
    check(bool(is_padded_with_zeros(words, counts, n_levels)), "turns are padded with ones")
    return words
