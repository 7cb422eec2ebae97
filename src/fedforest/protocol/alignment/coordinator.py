"""The coordinator of alignment by keyed hashes of ids.

Who learns what. The coordinator sees how many rows each party has, how many of them have no id of
their own, and one pseudonym for every other row: so the sizes of all intersections, also partial
ones. It does not have the key and cannot try ids out. Together with one party it has the key, and
can tell of any id it can think of whether any party has it.

The common order is that of the pseudonyms: of no party's table, and another one in every run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedforest.errors import DataError
from fedforest.masking.pseudonyms import find_common
from fedforest.protocol.aggregation.introduction import introduce_parties
from fedforest.protocol.alignment.messages import (
    CompareRows,
    HashIds,
    IdsHashed,
    KeyShared,
    RowsTaken,
    ShareKey,
    TakeRows,
)
from fedforest.protocol.asking import Ask, Conversation, blame, check


@dataclass(frozen=True, slots=True)
class CommonRows:
    """What alignment tells a coordinator, by whatever method; rows are known to parties only."""

    n_common: int
    n_rows: Mapping[str, int]
    n_left_out: Mapping[str, int]  # rows without an id, or whose id stands in another row, too


def align(run: bytes, parties: Sequence[str]) -> Conversation[CommonRows]:
    """Have every party know which of its rows all others have, in one order."""
    yield from introduce_parties(run, parties, with_seeds=False)
    requests = yield from _share_key(parties)
    hashed: Mapping[str, IdsHashed] = yield Ask(requests, IdsHashed)
    common = _intersect({party: hashed[party] for party in parties})
    n_common = int(common[parties[0]].sum())
    if not n_common:
        raise DataError(
            "the parties have no id in common. Do their id columns mean the same thing, and are "
            "they written in the same way?"
        )
    bits = {
        party: memoryview(np.packbits(is_common, bitorder="little").tobytes())
        for party, is_common in common.items()
    }
    taken = yield Ask({party: TakeRows(bits[party]) for party in parties}, RowsTaken)
    proofs = {party: taken[party].proof for party in parties}
    yield Ask(
        {
            party: CompareRows(tuple(proofs[other] for other in parties if other != party))
            for party in parties
        }
    )
    return CommonRows(
        n_common,
        {party: hashed[party].counts.n_rows for party in parties},
        {party: hashed[party].counts.n_left_out for party in parties},
    )


def _share_key(parties: Sequence[str]) -> Conversation[dict[str, HashIds]]:
    """The first party's key to all others, for whom it is sealed."""
    first, *others = parties
    shared: Mapping[str, KeyShared] = yield Ask({first: ShareKey()}, KeyShared)
    keys = shared[first].keys
    with blame(first):
        check(len(keys) == len(others), "not one key for every other party")
    return {first: HashIds(), **dict(zip(others, map(HashIds, keys), strict=True))}


def _intersect(hashed: Mapping[str, IdsHashed]) -> dict[str, np.ndarray]:
    """For each party, which of its pseudonyms everybody has."""
    lists = []
    for party, reply in hashed.items():
        with blame(party):
            lists.append(reply.pseudonyms.read(reply.counts))
    return dict(zip(hashed, find_common(lists), strict=True))
