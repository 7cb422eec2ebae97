"""Arrays on large pages are arrays like any other."""

import numpy as np
import pytest

from fedforest.tree.large_pages import PAGE_BYTES, join_pieces, make_room

SIZES = [0, 1, PAGE_BYTES // 4 - 1, PAGE_BYTES // 4, PAGE_BYTES // 4 + 1, 3 * PAGE_BYTES // 4]


@pytest.mark.parametrize("n_items", SIZES)
def test_room_holds_as_many_items_as_asked_for_and_can_be_written(n_items: int) -> None:
    room = make_room(n_items, np.float32)
    assert room.shape == (n_items,)
    assert room.dtype == np.float32
    assert room.flags.writeable
    assert room.flags.aligned
    assert room.flags.c_contiguous
    room[:] = np.arange(n_items)
    assert np.array_equal(room, np.arange(n_items, dtype=np.float32))


def test_large_room_begins_where_a_large_page_does() -> None:
    assert make_room(PAGE_BYTES, np.uint8).ctypes.data % PAGE_BYTES == 0


def test_rooms_share_no_memory() -> None:
    first, second = make_room(PAGE_BYTES, np.uint8), make_room(PAGE_BYTES, np.uint8)
    first[:], second[:] = 1, 2
    assert first.min() == first.max() == 1


def test_room_lives_as_long_as_a_part_of_it() -> None:
    part = make_room(PAGE_BYTES, np.uint8)[-10:]
    part[:] = 7
    assert part.tolist() == [7] * 10


@pytest.mark.parametrize("n_bytes", [0, 3, PAGE_BYTES + 5])
def test_pieces_are_joined_in_order_and_cannot_be_changed(n_bytes: int) -> None:
    numbers = np.arange(n_bytes, dtype=np.float64)
    pieces: list[memoryview | bytes] = [b"head", numbers.data, b"", memoryview(b"tail")]
    joined = join_pieces(pieces)
    assert joined == b"".join(pieces)
    assert joined.readonly
