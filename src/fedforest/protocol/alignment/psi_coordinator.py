"""The coordinator of alignment by private set intersection: it carries points and compares them.

Who learns what. The coordinator sees how many rows each party has, how many of them have no id of
their own, and how many rows the first party has in common with each of the others, and with several
of them; it sees points that are blinded by a key of their owner, or by two. It cannot test guessed
ids, not even together with a party: a party proves that the list it has others blind is its own, so
that a guess costs an entry of that list. Where an alignment is extended, it also sees which points
are new, and which of them are ids that other parties had before.

The common order is that of the first party's blinded points, those of extensions last: unrelated to
any table, and different in every run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.masking.blinding import POINTS
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
    GiveList,
    ListGiven,
    ListsBlinded,
    TakeMatches,
)
from fedforest.protocol.alignment.payloads import (
    NO_REST,
    PIECE_IDS,
    PROOF_BYTES,
    BlindedIds,
    IdCounts,
    ListSeal,
    pack_bits,
)
from fedforest.protocol.alignment.standing_alignment import Points, StandingPoints, find_points
from fedforest.protocol.asking import Conversation, ask, blame, check

Places = NDArray[np.int64]
_NO_SEAL = ListSeal(memoryview(bytes(PROOF_BYTES)))  # of a piece without points


class Intersected(NamedTuple):
    """The counts of an intersection, and what the coordinator needs to extend it."""

    common: CommonRows
    points: StandingPoints


def intersect(
    run: bytes, parties: Sequence[str], before: StandingPoints | None = None
) -> Conversation[Intersected]:
    """Tell every party which of its rows all others have; return the counts."""
    yield from introduce_parties(run, parties, with_seeds=False)
    counts = yield from _blind_ids(parties)
    lists = yield from _exchange_lists(counts, parties)
    points = lists.after(before or StandingPoints.empty(parties))
    common, places = _match(points)
    told = _told_before(before)
    common[: len(told)] &= ~told  # parties know of these already
    n_common = int(common.sum())
    if before is None or n_common:
        refuse_few_common(n_common, counts)
    yield from _tell(parties, common, places)
    common[: len(told)] |= told
    return Intersected(
        CommonRows(
            int(common.sum()),
            {party: counts[party].n_rows for party in parties},
            {party: counts[party].n_left_out for party in parties},
        ),
        StandingPoints(points.parties, points.of_first, points.of_others, bytes(pack_bits(common))),
    )


def _blind_ids(parties: Sequence[str]) -> Conversation[dict[str, IdCounts]]:
    """Have parties blind their own ids, piece by piece."""
    replies = yield from ask(dict.fromkeys(parties, BlindIds()))
    counts = {party: replies[party].counts for party in parties}
    for party in parties:
        with blame(party):
            check(counts[party].n_ids >= 0, "more rows are left out than there are")
    refuse_other_forms(counts)
    n_pieces = {party: _count_pieces(each.n_ids) for party, each in counts.items()}
    work = _Work(counts, parties)
    for number in range(1, max(n_pieces.values())):
        going_on = [party for party in parties if number < n_pieces[party]]
        note = work.note(sum(min(number + 1, n_pieces[party]) for party in parties))
        yield from ask(dict.fromkeys(going_on, BlindIds()), note)
    return counts


@dataclass(slots=True)
class _Lists:
    """The lists of every pair, as far as they came, under both keys."""

    parties: tuple[str, ...]
    of_first: dict[str, list[Points]] = field(init=False)
    of_others: dict[str, list[Points]] = field(init=False)

    def __post_init__(self) -> None:
        self.of_first = {party: [] for party in self.parties[1:]}
        self.of_others = {party: [] for party in self.parties[1:]}

    def after(self, before: StandingPoints) -> StandingPoints:
        """Return all entries, those of the alignment that is extended first."""
        return StandingPoints(
            self.parties,
            {name: before.of_first[name] + _join(known) for name, known in self.of_first.items()},
            {name: before.of_others[name] + _join(known) for name, known in self.of_others.items()},
            before.common,
        )


def _join(pieces: Sequence[Points]) -> bytes:
    return b"".join(piece.tobytes() for piece in pieces)


def _exchange_lists(counts: Mapping[str, IdCounts], parties: Sequence[str]) -> Conversation[_Lists]:
    """Give the first party the lists of all others, and each of them that of the first."""
    lists, work = _Lists(tuple(parties)), _Work(counts, parties)
    n_own = sum(_count_pieces(each.n_ids) for each in counts.values())
    n_pieces = {party: _count_pieces(each.n_ids) for party, each in counts.items()}
    for number in range(max(n_pieces.values())):
        givers = [party for party in parties if number < n_pieces[party]]
        note = work.note(n_own + work.count_lists(number))
        given = yield from ask(dict.fromkeys(givers, GiveList()), note)
        for party in givers:
            with blame(party):
                _check_given(given[party], number, counts[party], party, parties)
        requests = dict(_pass_on(given, counts, parties))
        note = work.note(n_own + work.count_lists(number + 1))
        blinded = yield from ask(requests, note)
        _take(lists, blinded, given, parties)
    return lists


def _check_given(
    given: ListGiven, number: int, counts: IdCounts, party: str, parties: Sequence[str]
) -> None:
    """Refuse a piece that is not the next one of the list that its owner counted."""
    is_next = (given.points.n_ids, given.points.start) == (counts.n_ids, number * PIECE_IDS)
    check(is_next, "a piece of another list was given")
    given.points.read()
    check(len(given.seals) == _n_receivers(party, parties), "not one seal for a receiver")


def _n_receivers(party: str, parties: Sequence[str]) -> int:
    """Return how many parties a party's list goes to: the first party meets all others."""
    return len(parties) - 1 if party == parties[0] else 1


def _pass_on(
    given: Mapping[str, ListGiven], counts: Mapping[str, IdCounts], parties: Sequence[str]
) -> Iterator[tuple[str, BlindLists]]:
    """Yield each receiver and the pieces for it; a list that is over has no further points."""
    first, *others = parties
    if any(party in given for party in others):
        pieces = [_piece_of(party, given, counts) for party in others]
        seals = [given[party].seals[0] if party in given else _NO_SEAL for party in others]
        yield first, BlindLists(tuple(pieces), tuple(seals))
    if first in given:
        for party, seal in zip(others, given[first].seals, strict=True):
            yield party, BlindLists((given[first].points,), (seal,))


def _piece_of(
    party: str, given: Mapping[str, ListGiven], counts: Mapping[str, IdCounts]
) -> BlindedIds:
    if party in given:
        return given[party].points
    n_ids = counts[party].n_ids
    return BlindedIds(n_ids, n_ids, memoryview(NO_REST), memoryview(b""))


def _take(
    lists: _Lists,
    blinded: Mapping[str, ListsBlinded],
    given: Mapping[str, ListGiven],
    parties: Sequence[str],
) -> None:
    """Add the pieces that came back to the lists."""
    first, *others = parties
    if first in blinded:
        with blame(first):
            check(len(blinded[first].lists) == len(others), "not one list of every other party")
            for party, each in zip(others, blinded[first].lists, strict=True):
                n_points = len(given[party].points.read()) if party in given else 0
                lists.of_others[party].append(each.read(n_points))
    for party in others:
        if party in blinded:
            with blame(party):
                check(len(blinded[party].lists) == 1, "not the one list of the first party")
                n_points = len(given[first].points.read())
                lists.of_first[party].append(blinded[party].lists[0].read(n_points))


def _match(points: StandingPoints) -> tuple[NDArray[np.bool_], dict[str, Places]]:
    """Find the points of the first party's list that all have, and their places in each list."""
    first, *others = points.parties
    common, places = None, {}
    for party in others:
        by_first = _read_points(points.of_others[party], first)
        own = _read_points(points.of_first[party], party)
        is_found, places[party] = find_points(own, by_first)
        common = is_found if common is None else common & is_found
    assert common is not None, "two parties or more"
    return common, places


def _read_points(data: bytes, blinder: str) -> Points:
    """Read points under two keys; the party that blinded last repeats none."""
    points = np.frombuffer(data, POINTS)
    ordered = np.sort(points)
    with blame(blinder):
        check(not bool((ordered[1:] == ordered[:-1]).any()), "points are repeated")
    return points


def _told_before(before: StandingPoints | None) -> NDArray[np.bool_]:
    """Return which entries of the first party were common in the alignment that is extended."""
    if before is None:
        return np.empty(0, np.bool_)
    n_entries = len(before.of_first[before.parties[1]]) // POINTS.itemsize
    bits = np.unpackbits(np.frombuffer(before.common, np.uint8), bitorder="little")
    return bits[:n_entries].astype(np.bool_)


def _tell(
    parties: Sequence[str], common: NDArray[np.bool_], places: Mapping[str, Places]
) -> Conversation[None]:
    """Tell every party its common entries, and have each pair compare what it was told."""
    first, *others = parties
    bits = pack_bits(common)
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


def _count_pieces(n_ids: int) -> int:
    """Return how many pieces a list has; an empty list has one."""
    return max(1, -(-n_ids // PIECE_IDS))


class _Work:
    """Counts pieces for the watchers of a run: those of own lists, then those of others' lists."""

    def __init__(self, counts: Mapping[str, IdCounts], parties: Sequence[str]) -> None:
        first, *others = parties
        n_pieces = {party: _count_pieces(counts[party].n_ids) for party in parties}
        self._given = [n_pieces[first]] * len(others) + [n_pieces[party] for party in others]
        self._total = sum(n_pieces.values()) + sum(self._given)

    def count_lists(self, n_rounds: int) -> int:
        """Return how many pieces of others' lists are blinded after so many rounds."""
        return sum(min(n_rounds, each) for each in self._given)

    def note(self, n_done: int) -> dict[str, int]:
        """Return the note of the exchange after which so many pieces are done."""
        return {"done": n_done, "total": self._total}
