"""Words are read from and written to any byte."""

import numpy as np
import pytest

from fedforest.kernels.bits.instructions import load_word, store_word
from fedforest.kernels.jit import kernel


@kernel
def copy_word(source, at, target, to):  # type: ignore[no-untyped-def]
    """Call the intrinsics, which only compiled code can."""
    store_word(target, to, load_word(source, at))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(("at", "to"), [(0, 0), (1, 6), (7, 3)])
def test_eight_bytes_go_from_any_place_to_any_other(at: int, to: int) -> None:
    source, target = np.arange(1, 16, dtype=np.uint8), np.zeros(15, np.uint8)
    copy_word(source, at, target, to)
    assert target[to : to + 8].tolist() == source[at : at + 8].tolist()
    assert int(target.astype(np.int64).sum()) == int(source[at : at + 8].astype(np.int64).sum())
