"""Keyed hashes that stand for row ids: equal ids have equal ones, and only the key leads back.

HMAC-SHA256, the first 16 bytes. Without the key, guessed ids cannot be tested. A holder of the key
can hash every possible id, so a key serves one run and no coordinator gets it.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.masking.key_agreement import KEY_BYTES

PSEUDONYM_BYTES = 16
HALVES = np.dtype([("high", ">u8"), ("low", ">u8")])  # of one pseudonym, as its bytes are ordered
_BLOCK_BYTES = 64  # of SHA-256
_INNER, _OUTER = np.uint8(0x36), np.uint8(0x5C)


class SortedIds(NamedTuple):
    """Pseudonyms of the ids that stand once, in ascending order, and the rows they stand in."""

    pseudonyms: NDArray[np.void]
    rows: NDArray[np.int64]


def hash_ids(key: bytes, ids: Iterable[bytes]) -> NDArray[np.void]:
    """Return the pseudonym of every id, in the order of the ids.

    HMAC as RFC 2104 writes it: the library's own function pads the key anew for every id and takes
    2.7 times as long for a million of them.
    """
    if len(key) != KEY_BYTES:
        raise MaskingError(f"ids are hashed under a key of {KEY_BYTES} bytes, not {len(key)}")
    padded = np.frombuffer(key.ljust(_BLOCK_BYTES, b"\0"), np.uint8)
    inner, outer = (padded ^ _INNER).tobytes(), (padded ^ _OUTER).tobytes()
    data = b"".join(
        [sha256(outer + sha256(inner + each).digest()).digest()[:PSEUDONYM_BYTES] for each in ids]
    )
    return np.frombuffer(data, HALVES)


def sort_ids(key: bytes, ids: Iterable[bytes]) -> SortedIds:
    """Pseudonyms without those of empty and repeated ids, which stand for no one row."""
    known = list(ids)
    is_given = np.fromiter(map(bool, known), np.bool_, len(known))
    pseudonyms = hash_ids(key, known)
    order = sort_pseudonyms(pseudonyms)
    order = order[is_given[order]]
    ordered = pseudonyms[order]
    differs = np.ones(len(ordered) + 1, np.bool_)
    differs[1:-1] = ordered[1:] != ordered[:-1]
    stands_once = differs[1:] & differs[:-1]
    return SortedIds(ordered[stands_once], order[stands_once])


def sort_pseudonyms(pseudonyms: NDArray[np.void]) -> NDArray[np.int64]:
    """Places of the pseudonyms in ascending order of their bytes."""
    halves = (pseudonyms["low"].astype(np.uint64), pseudonyms["high"].astype(np.uint64))
    return np.lexsort(halves)


def find_common(lists: list[NDArray[np.void]]) -> list[NDArray[np.bool_]]:
    """For each list, which of its pseudonyms are in all; in a list they differ and ascend."""
    everything = np.concatenate(lists)
    order = sort_pseudonyms(everything)
    ordered = everything[order]
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    group = np.cumsum(is_first) - 1
    is_common = np.empty(len(ordered), np.bool_)
    is_common[order] = (np.bincount(group) == len(lists))[group]
    return np.split(is_common, np.cumsum([len(each) for each in lists])[:-1])
