"""Arrays on large pages: for tables and buffers that are read at scattered places.

A processor remembers where a few thousand pages lie. Of the usual 4 KiB these hold less than one
party's values of a level, so every other access would look its page up first; and every page that
is touched for the first time is an interruption. Large ones are asked for, never relied on.
"""

import mmap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

PAGE_BYTES = 2**21
_MAY_ASK = hasattr(mmap, "MADV_HUGEPAGE")


def make_room(n_items: int, dtype: DTypeLike) -> NDArray[Any]:
    """A vector of so many items, with any content; its memory goes back when nobody holds it."""
    n_bytes = n_items * np.dtype(dtype).itemsize
    if n_bytes < PAGE_BYTES or not _MAY_ASK:
        return np.empty(n_items, dtype)
    n_pages = 1 + -(-n_bytes // PAGE_BYTES)  # one more: the system places memory where it likes
    memory = mmap.mmap(-1, n_pages * PAGE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without large pages has small ones
        memory.madvise(mmap.MADV_HUGEPAGE)
    room = np.frombuffer(memory, np.uint8)
    start = -room.ctypes.data % PAGE_BYTES
    return room[start : start + n_bytes].view(dtype)


def join_pieces(pieces: Sequence[memoryview | bytes]) -> memoryview:
    """The pieces one after the other, to be read only: what `b"".join` gives, on large pages."""
    room = make_room(sum(map(_count_bytes, pieces)), np.uint8)
    at = 0
    for piece in pieces:
        end = at + _count_bytes(piece)
        room.data[at:end] = memoryview(piece).cast("B")
        at = end
    return room.data.toreadonly()


def _count_bytes(piece: memoryview | bytes) -> int:
    return memoryview(piece).nbytes
