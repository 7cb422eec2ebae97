"""The party of alignment by private set intersection, after Diffie and Hellman.

Who learns what. A party learns which of its own rows all other parties have, too, and nothing about
rows it does not have. It shows how many rows it has, and points that only its own key leads back.
The first party meets each of the others, and they meet nobody else: both blind the list that the
other declares, so that equal ids have equal points. A party blinds a list only if its owner sealed
it, so whoever wants to know if a party has an id spends an entry of a list of its own for it; a
coordinator has none. The first piece of a list fixes all of it. Before rows are used, each pair
checks by its own points that the coordinator put the same ids together.

An alignment that extends a standing one goes on with the key and the points of that one, and its
lists hold the ids that are new since. Its limits are those of an alignment of these ids alone.
"""

import hmac
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError, ProtocolError
from fedforest.masking.blinding import (
    POINTS,
    BlindingKey,
    check_library,
    cut_points,
    hash_to_points,
)
from fedforest.masking.key_agreement import derive_key, encode_name, join_contexts
from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.protocol.aggregation.meeting import MeetingParty
from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.alignment.messages import (
    BlindIds,
    BlindLists,
    CompareRows,
    GiveList,
    IdsBlinded,
    ListGiven,
    ListsBlinded,
    MatchesTaken,
    TakeMatches,
)
from fedforest.protocol.alignment.party import OwnIds
from fedforest.protocol.alignment.payloads import (
    NO_REST,
    PIECE_IDS,
    BlindedIds,
    IdCounts,
    ListSeal,
    RowsProof,
    TwiceBlinded,
    read_bits,
)
from fedforest.protocol.alignment.standing_alignment import (
    NO_POINTS,
    Points,
    StandingIds,
    find_rows,
    tag_ids,
)
from fedforest.protocol.asking import Accepted, Message, answer, check
from fedforest.protocol.label_door import OWNER, Accountant
from fedforest.protocol.payloads import view_bytes
from fedforest.tree.workers import ALONE, Workers

_SEALING = b"alignment list"
_PROVING = b"alignment matches"
_SHARE = 512  # ids: as many as a thread takes at a time


class _OwnList:
    """The party's list: ids are blinded piece by piece, then ordered, then given piece by piece."""

    def __init__(self, key: BlindingKey, rows: NDArray[np.int64]) -> None:
        self.key = key
        self.rows = rows  # of the entries; in the order of the points once all are blinded
        self.points = NO_POINTS
        self._pieces: list[Points] = []
        self._rests: list[bytes] = []  # by piece: the digest of the next one
        self.n_blinded, self.n_given = 0, 0

    @property
    def is_blinded(self) -> bool:
        """Whether all ids are blinded and in order."""
        return bool(self._rests)

    def take(self, blinded: Points) -> None:
        """Add the points of the next ids; after the last ones, order all of them."""
        self._pieces.append(blinded)
        self.n_blinded += len(blinded)
        if self.n_blinded < len(self.rows):
            return
        points = np.concatenate(self._pieces)
        self._pieces.clear()
        order = np.argsort(points)
        self.points, self.rows = points[order], self.rows[order]
        rest, rests = NO_REST, []
        for start in reversed(range(0, max(1, len(points)), PIECE_IDS)):
            rests.append(rest)
            rest = self._piece(start, rest).digest()
        self._rests = rests[::-1]

    def give(self) -> BlindedIds:
        """Return the next piece."""
        number = self.n_given
        check(number < len(self._rests), "the list was given, or is not blinded yet")
        self.n_given += 1
        return self._piece(number * PIECE_IDS, self._rests[number])

    def _piece(self, start: int, rest: bytes) -> BlindedIds:
        data = self.points[start : start + PIECE_IDS].tobytes()
        return BlindedIds(len(self.points), start, memoryview(rest), memoryview(data))


class _TheirList:
    """Another party's list, as far as it came, under both keys."""

    def __init__(self) -> None:
        self._n_ids: int | None = None
        self._n_come = 0
        self._rest = b""  # the digest of the next piece
        self._last: Points = NO_POINTS
        self._blinded: list[Points] = []

    @property
    def n_ids(self) -> int | None:
        """The length of the list; None before it begins."""
        return self._n_ids

    @property
    def is_complete(self) -> bool:
        """Whether all pieces came."""
        return self._n_come == self._n_ids

    def check(self, piece: BlindedIds) -> Points:
        """Read the next piece; refuse any other."""
        check(piece.start == self._n_come, "a piece of a list is out of turn")
        check(not self.is_complete, "a list goes on after its end")
        if self._n_ids is not None:
            is_next = piece.n_ids == self._n_ids and piece.digest() == self._rest
            check(is_next, "a list changed after it was declared")
        points = piece.read()
        ascends = not len(self._last) or not len(points) or points[0] > self._last[0]
        check(bool(ascends), "points are out of order, or repeated")
        return points

    def take(self, piece: BlindedIds, points: Points, blinded: Points) -> None:
        """Add a piece that was checked."""
        self._n_ids, self._rest = piece.n_ids, bytes(piece.rest)
        self._n_come += len(points)
        self._last = points[-1:]
        self._blinded.append(blinded)

    def points(self) -> Points:
        """Return all points of the list under both keys."""
        return np.concatenate(self._blinded)


class _Outcome(NamedTuple):
    """The rows, and the entries of the own list, that all parties have."""

    rows: NDArray[np.int64]
    entries: NDArray[np.int64]


class IntersectionAligner:
    """Answers the coordinator of an intersection with the ids of one data set."""

    def __init__(
        self,
        member: PartyIdentity,
        own: OwnIds,
        accountant: Accountant = OWNER,
        workers: Workers = ALONE,
        before: StandingIds | None = None,
    ) -> None:
        check_library()
        self._accountant = accountant
        self._member = member
        self._ids, self._form = own
        self._workers = workers
        self._before = before
        self._meeting = MeetingParty(member, with_seeds=False)
        self._meet = self._meeting.handlers()
        self._parties: tuple[str, ...] = ()  # the first of them meets all others
        self._secret = b""
        self._counts: IdCounts | None = None
        self._own: _OwnList | None = None
        self._theirs: dict[str, _TheirList] = {}
        self._all_theirs: dict[str, Points] = {}  # with those of the alignment that is extended
        self._proofs: dict[str, bytes] = {}  # that others send if they took the same rows
        self._outcome: _Outcome | None = None
        self._is_over = False
        self._handlers: dict[type[Message], Callable[[Any], Message]] = {
            Introduce: self._introduce,
            MeetPeers: self._meet_peers,
            BlindIds: self._blind_ids,
            GiveList: self._give_list,
            BlindLists: self._blind_lists,
            TakeMatches: self._take_matches,
            CompareRows: self._compare_rows,
        }

    def handle(self, request: Message) -> Message:
        """Answer one request; refuse a request out of sequence, which then changes nothing."""
        return answer(self._handlers, request)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The party's numbers of the common rows, in the common order; refused before the end."""
        return self._ended().rows

    def standing(self, version: bytes) -> StandingIds:
        """Return what the party keeps for later alignments; refused before the end."""
        outcome, own, before = self._ended(), self._own, self._before
        assert own is not None, "rows are of a list"
        tags, common = tag_ids(self._secret, self._ids, own.rows), outcome.entries.astype("<i8")
        return StandingIds(
            version,
            self._root,
            self._secret,
            self._parties,
            (b"" if before is None else before.tags) + tags.tobytes(),
            {partner: points.tobytes() for partner, points in self._all_theirs.items()},
            (b"" if before is None else before.common) + common.tobytes(),
        )

    def _ended(self) -> _Outcome:
        if self._outcome is None or not self._is_over:
            raise ProtocolError.stating("rows are not aligned yet")
        return self._outcome

    def _introduce(self, request: Introduce | MeetPeers) -> Message:
        check(self._own is None, "ids were blinded for this run already")
        return self._meet[type(request)](request)

    def _meet_peers(self, request: MeetPeers) -> Message:
        names = tuple(peer.name for peer in request.peers)
        is_same = self._before is None or names == self._before.parties
        check(is_same, "an alignment is extended with other parties, or in another order")
        met = self._introduce(request)
        self._parties = names
        return met

    @property
    def _is_first(self) -> bool:
        return self._parties[0] == self._member.name

    def _partners(self) -> list[str]:
        """List the parties that this one exchanges lists with, in the order of introduction."""
        others = list(self._meeting.session().pair_secrets)
        return others if self._is_first else [self._parties[0]]

    @property
    def _root(self) -> bytes:
        """The session whose points ids become: that of the alignment that was made first."""
        return self._meeting.session().id if self._before is None else self._before.root

    def _blind_ids(self, request: BlindIds) -> IdsBlinded:
        own = self._own or self._begin_list(request)
        check(not own.is_blinded, "all ids were blinded")
        rows = own.rows[own.n_blinded : own.n_blinded + PIECE_IDS].tolist()
        root, key = self._root, own.key
        blinded = self._spread(
            lambda some: key.blind(hash_to_points(root, some)), [self._ids[row] for row in rows]
        )
        own.take(blinded)
        self._own = own
        assert self._counts is not None, "made with the list"
        return IdsBlinded(self._counts)

    def _begin_list(self, request: BlindIds) -> _OwnList:
        """Draw a key, or take that of the alignment that is extended; the list is fixed."""
        self._meeting.session()
        rows, n_known, before = find_rows(self._ids), 0, self._before
        if before is not None:
            is_new = before.find(self._ids, rows) < 0
            n_known, rows = int((~is_new).sum()), rows[is_new]
        if before is None or len(rows):
            self._accountant.approve(request, len(rows))
        if before is None:
            self._secret = BlindingKey.draw(self._member.randomness)
        else:
            self._secret = before.secret
        n_left_out = len(self._ids) - len(rows) - n_known
        least, fraction = self._accountant.least_common
        self._counts = IdCounts(len(self._ids), n_left_out, least, self._form, fraction, n_known)
        return _OwnList(BlindingKey(self._secret), rows)

    def _give_list(self, _request: GiveList) -> ListGiven:
        own = self._own
        if own is None:
            raise ProtocolError.stating("a list is to be given before ids were blinded")
        piece = own.give()
        name = self._member.name
        seals = [self._seal(name, partner, piece) for partner in self._partners()]
        return ListGiven(piece, tuple(ListSeal(memoryview(seal)) for seal in seals))

    def _blind_lists(self, request: BlindLists) -> ListsBlinded:
        own = self._own
        if own is None or not own.n_given:
            raise ProtocolError.stating("lists are to be blinded before this party gave its own")
        partners = self._partners()
        n_lists = {len(request.lists), len(request.seals)}
        check(n_lists == {len(partners)}, "not one list of every party that this one meets")
        theirs = {partner: self._theirs.get(partner) or _TheirList() for partner in partners}
        come: dict[str, tuple[BlindedIds, Points]] = {}
        for partner, piece, seal in zip(partners, request.lists, request.seals, strict=True):
            if theirs[partner].is_complete and piece.is_end_only:
                continue
            if not hmac.compare_digest(
                self._seal(partner, self._member.name, piece), bytes(seal.data)
            ):
                raise MaskingError.of("list.not_own", peer=partner)
            come[partner] = piece, theirs[partner].check(piece)
            if piece.start == 0 and (self._before is None or piece.n_ids):
                self._accountant.approve(request, piece.n_ids)
        check(bool(come), "no list goes on")
        blinded = {
            partner: self._spread(partial(own.key.blind, owner=partner), cut_points(piece.data))
            for partner, (piece, _) in come.items()
        }
        for partner, (piece, points) in come.items():
            theirs[partner].take(piece, points, blinded[partner])
        self._theirs = theirs
        told = [blinded.get(partner, NO_POINTS).tobytes() for partner in partners]
        return ListsBlinded(tuple(TwiceBlinded(memoryview(each)) for each in told))

    def _spread(self, blind: Callable[[list[Any]], bytes], items: list[Any]) -> Points:
        """Blind on all workers: libsodium multiplies without the interpreter's lock."""
        starts = range(0, len(items), _SHARE)
        pieces: dict[int, bytes] = {}

        def work(start: int) -> None:
            pieces[start] = blind(items[start : start + _SHARE])

        self._workers.run(work, starts)
        return np.frombuffer(b"".join(pieces[start] for start in starts), POINTS)

    def _seal(self, owner: str, receiver: str, piece: BlindedIds) -> bytes:
        """Compute the check value that shows a receiver whose list it is."""
        content = join_contexts((self._version, piece.digest()))
        return hmac.digest(self._pair_key(_SEALING, owner, receiver), content, "sha256")

    @property
    def _version(self) -> bytes:
        """The alignment that is extended: parties that extend different ones do not go on."""
        return b"" if self._before is None else self._before.version

    def _pair_key(self, purpose: bytes, sender: str, receiver: str) -> bytes:
        partner = receiver if sender == self._member.name else sender
        secret = self._meeting.session().pair_secrets[partner]
        return derive_key(secret, purpose, encode_name(sender), encode_name(receiver))

    def _take_matches(self, request: TakeMatches) -> MatchesTaken:
        own, partners = self._own, self._partners()
        is_blinded = len(self._theirs) == len(partners) and all(
            each.is_complete for each in self._theirs.values()
        )
        if own is None or not is_blinded:
            raise ProtocolError.stating("rows are named before lists were blinded")
        check(self._outcome is None, "rows are named twice")
        check(len(request.places) == len(partners), "not the places of every pair")
        theirs = {partner: self._with_earlier(partner) for partner in partners}
        n_own = self._n_earlier() + len(own.points)
        n_of_first = n_own if self._is_first else len(theirs[self._parties[0]])
        common = np.flatnonzero(read_bits(request.common, n_of_first))
        self._approve_common(request, len(common))
        entries, proofs, expected = common, [], {}
        for partner, given in zip(partners, request.places, strict=True):
            n_listed = len(theirs[partner]) if self._is_first else n_own
            places = _read_places(given, len(common), n_listed)
            matched = theirs[partner][places if self._is_first else common]
            content = _digest(request.common, given, matched)
            proofs.append(self._prove(self._member.name, partner, content))
            expected[partner] = self._prove(partner, self._member.name, content)
            entries = entries if self._is_first else places
        self._check_news(entries)
        new = entries - self._n_earlier()
        rows = own.rows[new[new >= 0]]
        self._outcome, self._proofs = _Outcome(rows, entries), expected
        self._all_theirs = theirs
        return MatchesTaken(tuple(RowsProof(memoryview(proof)) for proof in proofs))

    def _n_earlier(self) -> int:
        """Return how many entries the own list had before it was extended."""
        return 0 if self._before is None else self._before.n_own

    def _with_earlier(self, partner: str) -> Points:
        """Return all entries of another party under both keys, in the order they were declared."""
        new = self._theirs[partner].points()
        if self._before is None:
            return new
        return np.concatenate([self._before.points_of(partner), new])

    def _approve_common(self, request: TakeMatches, n_common: int) -> None:
        """Ask the owner about the ids that are told now, against each list that came now."""
        assert self._own is not None, "asked after it was blinded"
        lengths = [len(self._own.points), *(each.n_ids or 0 for each in self._theirs.values())]
        if self._before is None or n_common:
            self._accountant.approve(request, n_common, max(lengths))
        check(n_common > 0 or self._before is not None, "no row is common")

    def _check_news(self, entries: NDArray[np.int64]) -> None:
        """Refuse to be told of an id twice: the common order would repeat its row."""
        told = np.empty(0, np.int64) if self._before is None else self._before.read_common()
        check(not np.isin(entries, told).any(), "rows are named that were named before")

    def _prove(self, sender: str, receiver: str, content: bytes) -> bytes:
        return hmac.digest(self._pair_key(_PROVING, sender, receiver), content, "sha256")

    def _compare_rows(self, request: CompareRows) -> Accepted:
        """Refuse rows that are not the same ids at the other party of each pair."""
        check(self._outcome is not None, "rows are compared before they were named")
        check(len(request.proofs) == len(self._proofs), "not one proof of every pair")
        for (partner, expected), proof in zip(self._proofs.items(), request.proofs, strict=True):
            if not hmac.compare_digest(expected, bytes(proof.data)):
                raise MaskingError.of("rows.differ", peer=partner)
        self._is_over = True
        return Accepted()


def _read_places(data: memoryview, n_common: int, n_ids: int) -> NDArray[np.int64]:
    """Read where the common ids stand in a list of `n_ids`."""
    places = view_bytes(data, "<i4", n_common, "places").astype(np.int64)
    is_inside = bool(((places >= 0) & (places < n_ids)).all())
    check(is_inside and len(np.unique(places)) == n_common, "places are repeated, or none")
    return places


def _digest(common: memoryview, places: memoryview, matched: Points) -> bytes:
    """Digest what both parties of a pair took: which entries, and under both keys, which ids."""
    parts = (bytes(common), bytes(places), matched.tobytes())
    return sha256(join_contexts(sha256(part).digest() for part in parts)).digest()
