"""The party of alignment by private set intersection, after Diffie and Hellman.

Who learns what. A party learns which of its own rows all other parties have, too, and nothing about
rows it does not have. It shows how many rows it has, and points that only its own key of this run
leads back to. The first party meets each of the others, and they meet nobody else: both blind the
list that the other declares, so that equal ids have equal points. A party blinds a list only if its
owner sealed it, so whoever wants to know if a party has an id spends an entry of a list of its own
for it; a coordinator has none. Before rows are used, each pair checks by its own points that the
coordinator put the same ids together.
"""

import hmac
from collections import Counter
from collections.abc import Callable, Sequence
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
    IdsBlinded,
    ListsBlinded,
    MatchesTaken,
    TakeMatches,
)
from fedforest.protocol.alignment.party import OwnIds
from fedforest.protocol.alignment.payloads import (
    BlindedIds,
    IdCounts,
    ListSeal,
    RowsProof,
    TwiceBlinded,
)
from fedforest.protocol.asking import Accepted, Message, answer, check
from fedforest.protocol.label_door import OWNER, Accountant
from fedforest.protocol.payloads import view_bytes
from fedforest.tree.workers import ALONE, Workers

_SEALING = b"alignment list"
_PROVING = b"alignment matches"
_PIECE = 512  # ids: as many as a thread takes at a time

Points = NDArray[np.bytes_]


class _OwnList(NamedTuple):
    """The declared list: its points in ascending order, and the rows they stand for."""

    points: Points
    rows: NDArray[np.int64]


class IntersectionAligner:
    """Answers the coordinator of an intersection with the ids of one data set."""

    def __init__(
        self,
        member: PartyIdentity,
        own: OwnIds,
        accountant: Accountant = OWNER,
        workers: Workers = ALONE,
    ) -> None:
        check_library()
        self._accountant = accountant
        self._member = member
        self._ids, self._form = own
        self._workers = workers
        self._meeting = MeetingParty(member, with_seeds=False)
        self._meet = self._meeting.handlers()
        self._first = ""  # the party that meets all others
        self._key: BlindingKey | None = None
        self._own: _OwnList | None = None
        self._blinded: dict[str, Points] = {}  # the lists of others, under both keys
        self._proofs: dict[str, bytes] = {}  # that others send if they took the same rows
        self._rows: NDArray[np.int64] | None = None
        self._is_over = False
        self._handlers: dict[type[Message], Callable[[Any], Message]] = {
            Introduce: self._introduce,
            MeetPeers: self._meet_peers,
            BlindIds: self._blind_ids,
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
        if self._rows is None or not self._is_over:
            raise ProtocolError.stating("rows are not aligned yet")
        return self._rows

    def _introduce(self, request: Introduce | MeetPeers) -> Message:
        check(self._own is None, "ids were blinded for this run already")
        return self._meet[type(request)](request)

    def _meet_peers(self, request: MeetPeers) -> Message:
        met = self._introduce(request)
        self._first = request.peers[0].name
        return met

    def _partners(self) -> list[str]:
        """List the parties that this one exchanges lists with, in the order of introduction."""
        others = list(self._meeting.session().pair_secrets)
        return others if self._first == self._member.name else [self._first]

    def _blind_ids(self, request: BlindIds) -> IdsBlinded:
        check(self._own is None, "ids are asked for twice")
        partners, run = self._partners(), self._meeting.session().id
        rows = _find_rows(self._ids)
        self._accountant.approve(request, len(rows))
        key = BlindingKey.from_randomness(self._member.randomness)
        known = [self._ids[row] for row in rows]
        points = self._spread(lambda some: key.blind(hash_to_points(run, some)), known)
        order = np.argsort(points)
        own = _OwnList(points[order], rows[order])
        sealed = BlindedIds(memoryview(own.points.tobytes()))
        seals = tuple(
            ListSeal(memoryview(self._seal(self._member.name, partner, sealed)))
            for partner in partners
        )
        self._key, self._own = key, own
        n_left_out = len(self._ids) - len(rows)
        counts = IdCounts(len(self._ids), n_left_out, self._accountant.least_common, self._form)
        return IdsBlinded(counts, sealed, seals)

    def _blind_lists(self, request: BlindLists) -> ListsBlinded:
        key = self._key
        if key is None:
            raise ProtocolError.stating("lists are to be blinded before ids were")
        check(not self._blinded, "lists are to be blinded twice")
        partners = self._partners()
        n_lists = {len(request.lists), len(request.seals)}
        check(n_lists == {len(partners)}, "not one list of every party that this one meets")
        for partner, each, seal in zip(partners, request.lists, request.seals, strict=True):
            expected = self._seal(partner, self._member.name, each)
            if not hmac.compare_digest(expected, bytes(seal.data)):
                raise MaskingError.of("list.not_own", peer=partner)
            self._accountant.approve(request, len(each.check_order()))
        blinded = {
            partner: self._spread(partial(key.blind, owner=partner), cut_points(each.data))
            for partner, each in zip(partners, request.lists, strict=True)
        }
        self._blinded = blinded
        return ListsBlinded(
            tuple(TwiceBlinded(memoryview(each.tobytes())) for each in blinded.values())
        )

    def _spread(self, blind: Callable[[list[Any]], bytes], items: list[Any]) -> Points:
        """Blind pieces on all workers: libsodium multiplies without the interpreter's lock."""
        starts = range(0, len(items), _PIECE)
        pieces: dict[int, bytes] = {}

        def work(start: int) -> None:
            pieces[start] = blind(items[start : start + _PIECE])

        self._workers.run(work, starts)
        return np.frombuffer(b"".join(pieces[start] for start in starts), POINTS)

    def _seal(self, owner: str, receiver: str, points: BlindedIds) -> bytes:
        """Compute the check value that shows a receiver whose list it is."""
        return hmac.digest(self._pair_key(_SEALING, owner, receiver), points.data, "sha256")

    def _pair_key(self, purpose: bytes, sender: str, receiver: str) -> bytes:
        partner = receiver if sender == self._member.name else sender
        secret = self._meeting.session().pair_secrets[partner]
        return derive_key(secret, purpose, encode_name(sender), encode_name(receiver))

    def _take_matches(self, request: TakeMatches) -> MatchesTaken:
        own = self._own
        if own is None or not self._blinded:
            raise ProtocolError.stating("rows are named before lists were blinded")
        check(self._rows is None, "rows are named twice")
        partners, is_first = self._partners(), self._first == self._member.name
        check(len(request.places) == len(partners), "not the places of every pair")
        n_of_first = len(own.points) if is_first else len(self._blinded[self._first])
        common = _read_common(request.common, n_of_first)
        self._accountant.approve(request, len(common))
        rows, proofs, expected = own.rows[common] if is_first else None, [], {}
        for partner, given in zip(partners, request.places, strict=True):
            theirs = self._blinded[partner]
            places = _read_places(given, len(common), len(theirs if is_first else own.points))
            matched = theirs[places if is_first else common]
            content = _digest(request.common, given, matched)
            proofs.append(self._prove(self._member.name, partner, content))
            expected[partner] = self._prove(partner, self._member.name, content)
            rows = rows if is_first else own.rows[places]
        self._rows, self._proofs = rows, expected
        return MatchesTaken(tuple(RowsProof(memoryview(proof)) for proof in proofs))

    def _prove(self, sender: str, receiver: str, content: bytes) -> bytes:
        return hmac.digest(self._pair_key(_PROVING, sender, receiver), content, "sha256")

    def _compare_rows(self, request: CompareRows) -> Accepted:
        """Refuse rows that are not the same ids at the other party of each pair."""
        check(self._rows is not None, "rows are compared before they were named")
        check(len(request.proofs) == len(self._proofs), "not one proof of every pair")
        for (partner, expected), proof in zip(self._proofs.items(), request.proofs, strict=True):
            if not hmac.compare_digest(expected, bytes(proof.data)):
                raise MaskingError.of("rows.differ", peer=partner)
        self._is_over = True
        return Accepted()


def _find_rows(ids: Sequence[bytes]) -> NDArray[np.int64]:
    """Find the rows whose id is given and stands in no other row."""
    counts = Counter(ids)
    return np.array([row for row, each in enumerate(ids) if each and counts[each] == 1], np.int64)


def _read_common(data: memoryview, n_ids: int) -> NDArray[np.int64]:
    """Read which entries of the first party's list are common."""
    packed = view_bytes(data, "u1", (n_ids + 7) // 8, "common rows")
    bits = np.unpackbits(packed, bitorder="little")
    check(not bits[n_ids:].any(), "common rows are padded with ones")
    common = np.flatnonzero(bits[:n_ids])
    check(len(common) > 0, "no row is common")
    return common


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
