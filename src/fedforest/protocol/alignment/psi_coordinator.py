"""The coordinator of alignment by private set intersection: it carries points and compares them.

Who learns what. The coordinator sees how many rows each party has, how many of them have no id of
their own, and how many rows the first party has in common with each of the others, and with several
of them; it sees points that are blinded by a key of their owner, or by two. It cannot test guessed
ids, not even together with a party: a party proves that the list it has others blind is its own, so
that a guess costs an entry of that list.

The common order is that of the first party's blinded points: unrelated to any table, and different
in every run.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.aggregation.introduction import introduce_parties
from fedforest.protocol.alignment.coordinator import (
    CommonRows,
    refuse_few_common,
    refuse_other_forms,
)
from fedforest.protocol.alignment.messages import (
    BlindIds,
    BlindLists,
    CompareRows,
    IdsBlinded,
    ListsBlinded,
    TakeMatches,
)
from fedforest.protocol.asking import Conversation, ask, blame, check

Places = NDArray[np.int64]


def intersect(run: bytes, parties: Sequence[str]) -> Conversation[CommonRows]:
    """Tell every party which of its rows all others have; return the counts."""
    yield from introduce_parties(run, parties, with_seeds=False)
    first, *others = parties
    declared = yield from ask(dict.fromkeys(parties, BlindIds()))
    for party, reply in declared.items():
        with blame(party):
            reply.points.read(reply.counts)
            check(len(reply.seals) == _n_receivers(party, parties), "not one seal for a receiver")
    refuse_other_forms({party: declared[party].counts for party in parties})
    blinded = yield from ask(_exchange_lists(declared, parties))
    common, places = _match(declared, blinded, parties)
    n_common = int(common.sum())
    refuse_few_common(n_common, {party: declared[party].counts for party in parties})
    bits = memoryview(np.packbits(common, bitorder="little").tobytes())
    told = {party: memoryview(places[party][common].astype("<i4").tobytes()) for party in others}
    taken = yield from ask(
        {first: TakeMatches(bits, tuple(told.values()))}
        | {party: TakeMatches(bits, (told[party],)) for party in others}
    )
    for party in parties:
        with blame(party):
            n_proofs = len(taken[party].proofs)
            check(n_proofs == _n_receivers(party, parties), "not one proof for a receiver")
    yield from ask(
        {first: CompareRows(tuple(taken[party].proofs[0] for party in others))}
        | {
            party: CompareRows((proof,))
            for party, proof in zip(others, taken[first].proofs, strict=True)
        }
    )
    return CommonRows(
        n_common,
        {party: declared[party].counts.n_rows for party in parties},
        {party: declared[party].counts.n_left_out for party in parties},
    )


def _n_receivers(party: str, parties: Sequence[str]) -> int:
    """Return how many parties a party's list goes to: the first party meets all others."""
    return len(parties) - 1 if party == parties[0] else 1


def _exchange_lists(
    declared: Mapping[str, IdsBlinded], parties: Sequence[str]
) -> dict[str, BlindLists]:
    """Give the first party the lists of all others, and each of them that of the first."""
    first, *others = parties
    theirs = [declared[party] for party in others]
    requests = {
        first: BlindLists(
            tuple(each.points for each in theirs), tuple(each.seals[0] for each in theirs)
        )
    }
    for party, seal in zip(others, declared[first].seals, strict=True):
        requests[party] = BlindLists((declared[first].points,), (seal,))
    return requests


def _match(
    declared: Mapping[str, IdsBlinded],
    blinded: Mapping[str, ListsBlinded],
    parties: Sequence[str],
) -> tuple[NDArray[np.bool_], dict[str, Places]]:
    """Find the points of the first party's list that all have, and their places in each list."""
    first, *others = parties
    n_ids = {party: declared[party].counts.n_ids for party in parties}
    with blame(first):
        check(len(blinded[first].lists) == len(others), "not one list of every other party")
        by_first = [
            each.read(n_ids[party])
            for party, each in zip(others, blinded[first].lists, strict=True)
        ]
    common = np.ones(n_ids[first], np.bool_)
    places = {}
    for party, theirs in zip(others, by_first, strict=True):
        with blame(party):
            check(len(blinded[party].lists) == 1, "not the one list of the first party")
            own = blinded[party].lists[0].read(n_ids[first])
        is_found, places[party] = _find(own, theirs)
        common &= is_found
    return common, places


def _find(
    wanted: NDArray[np.bytes_], known: NDArray[np.bytes_]
) -> tuple[NDArray[np.bool_], Places]:
    """Tell which of the wanted points are known, and where; elsewhere the place means nothing."""
    if not len(known):
        return np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.int64)
    order = np.argsort(known)
    places = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return known[places] == wanted, places
