"""The party of a recall: the rows, now, of the ids that a standing alignment put together.

Who learns what. A party shows which of these ids have a row in the data set now, by their numbers
in the common order. It learns which of its own rows all other parties have, too, as it did when the
alignment was made. Ids that were never compared are not looked at, so that a recall of one row is
no question about one person, and no least number of ids holds for it. Before rows are used, each
pair checks that both were told the same.
"""

import hmac
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError, ProtocolError
from fedforest.masking.key_agreement import derive_key, encode_name, join_contexts
from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.protocol.aggregation.meeting import MeetingParty
from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.alignment.messages import (
    CompareRows,
    FindRows,
    MatchesTaken,
    RowsFound,
    TakeFound,
)
from fedforest.protocol.alignment.party import OwnIds
from fedforest.protocol.alignment.payloads import (
    FoundIds,
    IdCounts,
    RowsProof,
    pack_bits,
    read_bits,
)
from fedforest.protocol.alignment.standing_alignment import StandingIds, find_rows
from fedforest.protocol.asking import Accepted, Message, answer, check

if TYPE_CHECKING:
    from fedforest.protocol.aggregation.base import Handlers

_PROVING = b"alignment recall"


class RecallAligner:
    """Answers the coordinator of a recall with the ids of one data set."""

    def __init__(
        self,
        member: PartyIdentity,
        own: OwnIds,
        standing: StandingIds,
    ) -> None:
        self._member = member
        self._ids, self._form = own
        self._standing = standing
        self._meeting = MeetingParty(member, with_seeds=False)
        self._meet = self._meeting.handlers()
        self._found: NDArray[np.int64] | None = None  # the row of each common id, or -1
        self._rows: NDArray[np.int64] | None = None
        self._proofs: dict[str, bytes] = {}  # that others send if they took the same rows
        self._is_over = False
        self._handlers: Handlers = {
            Introduce: self._introduce,
            MeetPeers: self._meet_peers,
            FindRows: self._find_rows,
            TakeFound: self._take_found,
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
        check(self._found is None, "rows were found for this run already")
        return self._meet[type(request)](request)

    def _meet_peers(self, request: MeetPeers) -> Message:
        names = tuple(peer.name for peer in request.peers)
        check(names == self._standing.parties, "a standing alignment is used by other parties")
        return self._introduce(request)

    def _find_rows(self, _request: FindRows) -> RowsFound:
        self._meeting.session()
        check(self._found is None, "rows are to be found twice")
        rows = find_rows(self._ids)
        entries, common = self._standing.find(self._ids, rows), self._standing.read_common()
        row_of_entry = np.full(self._standing.n_own, -1, np.int64)
        row_of_entry[entries[entries >= 0]] = rows[entries >= 0]
        self._found = row_of_entry[common]
        counts = IdCounts(len(self._ids), len(self._ids) - len(rows), form=self._form)
        return RowsFound(counts, FoundIds(pack_bits(self._found >= 0)))

    def _take_found(self, request: TakeFound) -> MatchesTaken:
        found = self._found
        if found is None:
            raise ProtocolError.stating("rows are named before they were found")
        check(self._rows is None, "rows are named twice")
        is_common = read_bits(request.common, len(found))
        rows = found[is_common]
        check(len(rows) > 0, "no row is common")
        check(bool((rows >= 0).all()), "rows are named that this party does not have")
        content, others = bytes(request.common), list(self._meeting.session().pair_secrets)
        self._proofs = {other: self._prove(other, self._member.name, content) for other in others}
        self._rows = rows
        proofs = [self._prove(self._member.name, other, content) for other in others]
        return MatchesTaken(tuple(RowsProof(memoryview(proof)) for proof in proofs))

    def _prove(self, sender: str, receiver: str, content: bytes) -> bytes:
        partner = receiver if sender == self._member.name else sender
        secret = self._meeting.session().pair_secrets[partner]
        key = derive_key(secret, _PROVING, encode_name(sender), encode_name(receiver))
        told = join_contexts((self._standing.version, sha256(content).digest()))
        return hmac.digest(key, told, "sha256")

    def _compare_rows(self, request: CompareRows) -> Accepted:
        """Refuse rows that differ between parties: the coordinator could name different ones."""
        check(self._rows is not None, "rows are compared before they were named")
        check(len(request.proofs) == len(self._proofs), "not one proof of every pair")
        for (other, expected), proof in zip(self._proofs.items(), request.proofs, strict=True):
            if not hmac.compare_digest(expected, bytes(proof.data)):
                raise MaskingError.of("rows.differ", peer=other)
        self._is_over = True
        return Accepted()
