"""The coordinator of alignment by keyed hashes of ids.

Who learns what. The coordinator sees how many rows each party has, how many of them have no id of
their own, and one pseudonym for every other row; so it learns the sizes of all intersections, also
of some parties only. It does not have the key and cannot test guessed ids. Together with one party
it has the key, and can test for any guessed id which parties have it.

The common order is that of the pseudonyms: unrelated to any table, and different in every run.
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
    ShareKey,
    TakeRows,
)
from fedforest.protocol.alignment.payloads import IdCounts, pack_bits
from fedforest.protocol.asking import Conversation, ask, blame, check


@dataclass(frozen=True, slots=True)
class CommonRows:
    """The counts that any alignment method gives a coordinator; only parties know the rows."""

    n_common: int
    n_rows: Mapping[str, int]
    n_left_out: Mapping[str, int]  # rows without an id, or with an id that occurs more than once


def align(run: bytes, parties: Sequence[str]) -> Conversation[CommonRows]:
    """Tell every party which of its rows all others have; return the counts."""
    yield from introduce_parties(run, parties, with_seeds=False)
    requests = yield from _share_key(parties)
    hashed = yield from ask(requests)
    refuse_other_forms({party: hashed[party].counts for party in parties})
    common = _intersect({party: hashed[party] for party in parties})
    n_common = int(common[parties[0]].sum())
    refuse_few_common(n_common, {party: hashed[party].counts for party in parties})
    taken = yield from ask({party: TakeRows(pack_bits(common[party])) for party in parties})
    proofs = {party: taken[party].proof for party in parties}
    yield from ask(
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


def refuse_other_forms(counts: Mapping[str, IdCounts]) -> None:
    """Compare ids only if all parties write them by the same rules."""
    (first, own), *others = counts.items()
    for party, each in others:
        differences = own.form.differences(each.form)
        if differences:
            raise DataError.of("ids.rules", peers=f"{first!r} and {party!r}", choices=differences)


def refuse_few_common(n_common: int, counts: Mapping[str, IdCounts]) -> None:
    """Go on with common ids only, and with as many as every party's policy demands.

    A party whose list is there to try ids out learns nothing of fewer.
    """
    if not n_common:
        raise DataError.stating(
            "the parties have no id in common. Do their id columns mean the same thing, and are "
            "they written in the same way?"
        )
    longest = max(each.n_ids for each in counts.values())
    for party, each in counts.items():
        if n_common < each.least_common:
            raise DataError.of("common.few", peer=party, limit=each.least_common)
        if n_common < each.least_fraction * longest:
            raise DataError.of("common.fraction", peer=party, limit=f"{each.least_fraction:g}")


def _share_key(parties: Sequence[str]) -> Conversation[dict[str, HashIds]]:
    """Distribute the first party's key, sealed for each other party."""
    first, *others = parties
    shared = yield from ask({first: ShareKey()})
    keys = shared[first].keys
    with blame(first):
        check(len(keys) == len(others), "not one key for every other party")
    return {first: HashIds(), **dict(zip(others, map(HashIds, keys), strict=True))}


def _intersect(hashed: Mapping[str, IdsHashed]) -> dict[str, np.ndarray]:
    """Return, for each party, which of its pseudonyms all parties have."""
    lists = []
    for party, reply in hashed.items():
        with blame(party):
            lists.append(reply.pseudonyms.read(reply.counts))
    return dict(zip(hashed, find_common(lists), strict=True))
