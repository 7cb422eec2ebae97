"""Eight entries at once, against lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.bits.entry_lanes import LANE_ORDER, pack_lanes
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, move_rows
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import RowOrder

ENTRY_TYPES = st.sampled_from([np.uint32, np.uint64])


@kernel
def pack(source, at, byte, target, to):  # type: ignore[no-untyped-def]
    """Call the intrinsic, which only compiled code can."""
    pack_lanes(source, np.uint64(at), np.uint64(byte), LANE_ORDER, target, np.uint64(to))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_entries_with_a_set_bit_come_first_and_all_keep_their_order(
    dtype: type[np.unsignedinteger],
) -> None:
    source = np.arange(100, 120, dtype=dtype)
    for byte in range(256):
        target = np.zeros(20, dtype)
        pack(source, 3, byte, target, 5)
        first = [103 + k for k in range(8) if byte >> k & 1]
        others = [103 + k for k in range(8) if not byte >> k & 1]
        assert target.tolist() == [0] * 5 + first + others + [0] * 7


def pack_bits(goes_left: list[bool]) -> NDArray[np.uint8]:
    return np.packbits(np.array(goes_left, np.bool_), bitorder="little")


@given(
    st.lists(st.booleans(), min_size=1, max_size=120),
    st.sampled_from([OPEN_LEFT, OPEN_RIGHT, OPEN_LEFT | OPEN_RIGHT]),
    ENTRY_TYPES,
)
def test_rows_of_large_nodes_move_as_one_by_one_and_nothing_is_written_beside_them(
    goes_left: list[bool], fate: int, dtype: type[np.unsignedinteger]
) -> None:
    n, before = len(goes_left), 3
    entries = np.arange(1000, 1000 + before + n, dtype=dtype)
    order = RowOrder(entries, np.uint64(20), np.array([before]), np.array([before + n]))
    target = np.zeros(n + 20, dtype)
    n_left, place = np.array([sum(goes_left)]), np.array([7])
    fates, nowhere = np.array([fate], np.uint8), np.zeros(1, np.int64)
    move_rows(order, target, fates, nowhere, pack_bits(goes_left), n_left, place, 0, 1)
    rows = list(zip(entries[before:].tolist(), goes_left, strict=True))
    left = [entry for entry, is_left in rows if is_left] if fate & OPEN_LEFT else []
    right = [entry for entry, is_left in rows if not is_left] if fate & OPEN_RIGHT else []
    kept = left + right
    assert target.tolist() == [0] * 7 + kept + [0] * (n + 13 - len(kept))
