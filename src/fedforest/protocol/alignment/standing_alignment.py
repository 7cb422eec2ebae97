"""What the roles keep of a standing alignment, so that later ones need not repeat it.

A standing alignment is an intersection whose keys and points are kept for some time. Entries of a
list are numbered in the order in which they were declared: first those of the first alignment, then
those of each extension. Nothing here has a clock: stores let alignments expire.

Who keeps what. A party keeps its key, a keyed tag of each of its own ids and the points of other
parties' lists under both keys, which tell it nothing. The coordinator keeps points under two keys.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.masking.blinding import POINTS

TAGS = np.dtype("S16")
Points = NDArray[np.bytes_]
NO_POINTS = np.empty(0, POINTS)


class StandingIds(msgspec.Struct, frozen=True, array_like=True):
    """A party's side of a standing alignment.

    `common` are the numbers of its own entries that all parties have, in the common order.
    """

    version: bytes  # the run that made it, or extended it last
    root: bytes  # the session of the run that made it: points of ids follow from it
    secret: bytes  # its key
    parties: tuple[str, ...]  # in order: the first one meets all others
    tags: bytes  # of its own entries
    theirs: Mapping[str, bytes]  # by party: the points of that party's entries, under both keys
    common: bytes  # <i8

    @property
    def n_own(self) -> int:
        """The number of own entries."""
        return len(self.tags) // TAGS.itemsize

    def read_common(self) -> NDArray[np.int64]:
        """Read the numbers of the own entries that all parties have."""
        return np.frombuffer(self.common, "<i8").astype(np.int64)

    def find(self, ids: Sequence[bytes], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the entry of each of these rows; -1 for ids that were never compared."""
        known = np.frombuffer(self.tags, TAGS)
        wanted = tag_ids(self.secret, ids, rows)
        is_known, places = find_points(wanted, known)
        return np.where(is_known, places, -1)

    def points_of(self, party: str) -> Points:
        """Return the points of another party's entries, under both keys."""
        return np.frombuffer(self.theirs[party], POINTS)


class StandingPoints(msgspec.Struct, frozen=True, array_like=True):
    """The coordinator's side: the points of each pair's lists under both keys, by the other party.

    `common` has one bit for each entry of the first party's list.
    """

    parties: tuple[str, ...]
    of_first: Mapping[str, bytes]  # the first party's list under its key and this party's
    of_others: Mapping[str, bytes]  # this party's list under its key and the first party's
    common: bytes

    @classmethod
    def empty(cls, parties: Sequence[str]) -> Self:
        """Return the points of parties that have compared nothing yet."""
        nothing = dict.fromkeys(parties[1:], b"")
        return cls(tuple(parties), nothing, nothing, b"")


def find_rows(ids: Sequence[bytes]) -> NDArray[np.int64]:
    """Find the rows whose id is given and stands in no other row."""
    counts = Counter(ids)
    return np.array([row for row, each in enumerate(ids) if each and counts[each] == 1], np.int64)


def tag_ids(secret: bytes, ids: Sequence[bytes], rows: NDArray[np.int64]) -> Points:
    """Return keyed tags of the ids in these rows, by which their owner knows them again."""
    start = blake2b(key=secret, digest_size=TAGS.itemsize, person=b"alignment tags")
    tags = []
    for row in rows.tolist():
        tag = start.copy()
        tag.update(ids[row])
        tags.append(tag.digest())
    return np.frombuffer(b"".join(tags), TAGS)


def find_points(wanted: Points, known: Points) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Tell which of the wanted are known, and where; elsewhere the place means nothing."""
    if not len(known):
        return np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.int64)
    order, asked = np.argsort(known), np.argsort(wanted)  # both: the search walks through memory
    found = np.searchsorted(known[order], wanted[asked])
    places = np.empty(len(wanted), np.int64)
    places[asked] = order[np.minimum(found, len(known) - 1)]
    return known[places] == wanted, places
