"""The party of alignment by keyed hashes of ids.

Who learns what. A party learns which of its own rows all other parties have, too, and nothing about
rows it does not have; with two parties, this is the intersection. It reveals its number of rows and
a pseudonym of every row, under a key that one party draws for this run and seals for the others.
Before it hashes ids, it compares every other party's key with the fingerprint it got by other
means; before rows are used, it checks that all parties took the same ones.
"""

import hmac
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError, ProtocolError
from fedforest.masking.key_agreement import (
    KEY_BYTES,
    derive_key,
    draw_bytes,
    encode_name,
    join_contexts,
)
from fedforest.masking.pseudonyms import SortedIds, sort_ids
from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.protocol.aggregation.meeting import MeetingParty
from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.alignment.messages import (
    CompareRows,
    HashIds,
    IdsHashed,
    KeyShared,
    RowsTaken,
    ShareKey,
    TakeRows,
)
from fedforest.protocol.alignment.payloads import (
    IdCounts,
    IdForm,
    Pseudonyms,
    RowsProof,
    SealedKey,
    read_bits,
)
from fedforest.protocol.asking import Accepted, Handler, Message, answer, check
from fedforest.protocol.label_door import OWNER, Accountant

_SEALING = b"alignment key"
_HASHING = b"alignment ids"
_PROVING = b"alignment rows"


class OwnIds(NamedTuple):
    """The ids of a party's rows, and the form they are written in; an empty id is none."""

    ids: Sequence[bytes]
    form: IdForm = IdForm()


class Aligner(Handler, Protocol):
    """A party's side of any method of alignment."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """The party's numbers of the common rows, in the common order; refused before the end."""


class KeyedHashAligner:
    """Answers the coordinator of an alignment with the ids of one data set."""

    def __init__(
        self,
        member: PartyIdentity,
        own: OwnIds,
        accountant: Accountant = OWNER,
    ) -> None:
        self._accountant = accountant
        self._member = member
        self._ids, self._form = own
        self._meeting = MeetingParty(member, with_seeds=False)
        self._meet = self._meeting.handlers()
        self._first = ""  # the party that draws the key
        self._key: bytes | None = None
        self._sorted: SortedIds | None = None
        self._common: SortedIds | None = None
        self._is_over = False
        self._handlers: dict[type[Message], Callable[[Any], Message]] = {
            Introduce: self._introduce,
            MeetPeers: self._meet_peers,
            ShareKey: self._share_key,
            HashIds: self._hash_ids,
            TakeRows: self._take_rows,
            CompareRows: self._compare_rows,
        }

    def handle(self, request: Message) -> Message:
        """Answer one request; refuse a request out of sequence, which then changes nothing."""
        return answer(self._handlers, request)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The party's numbers of the common rows, in the common order; refused before the end."""
        if self._common is None or not self._is_over:
            raise ProtocolError.stating("rows are not aligned yet")
        return self._common.rows

    def _introduce(self, request: Introduce | MeetPeers) -> Message:
        check(self._key is None, "a key was drawn for this run already")
        return self._meet[type(request)](request)

    def _meet_peers(self, request: MeetPeers) -> Message:
        met = self._introduce(request)
        self._first = request.peers[0].name
        return met

    def _share_key(self, _request: ShareKey) -> KeyShared:
        session = self._meeting.session()
        is_first = self._first == self._member.name
        check(is_first, "the key is asked of a party that was not introduced first")
        check(self._key is None, "the key is asked for twice")
        key = draw_bytes(self._member.randomness, KEY_BYTES)
        sealed = [session.seal(other, key, _SEALING) for other in session.pair_secrets]
        self._key = key
        return KeyShared(tuple(map(SealedKey, sealed)))

    def _hash_ids(self, request: HashIds) -> IdsHashed:
        check(self._sorted is None, "ids are asked for twice")
        key = self._find_key(request.key)
        ids = sort_ids(derive_key(key, _HASHING, self._meeting.session().id), self._ids)
        self._accountant.approve(request, len(ids.rows))
        n_left_out = len(self._ids) - len(ids.rows)
        least, fraction = self._accountant.least_common
        counts = IdCounts(len(self._ids), n_left_out, least, self._form, fraction)
        self._key, self._sorted = key, ids
        return IdsHashed(counts, Pseudonyms.of(ids.pseudonyms))

    def _find_key(self, sealed: SealedKey | None) -> bytes:
        """Return the key this party drew, or the one that the first party sealed for it."""
        session = self._meeting.session()
        if self._key is not None:
            check(sealed is None, "this party drew the key itself")
            return self._key
        if sealed is None or self._first == self._member.name:
            raise ProtocolError.stating("there is no key to hash ids under")
        key = session.open(self._first, sealed.data, _SEALING)
        check(len(key) == KEY_BYTES, "the key has another length")
        return key

    def _take_rows(self, request: TakeRows) -> RowsTaken:
        ids = self._sorted
        if ids is None:
            raise ProtocolError.stating("rows are named before ids were hashed")
        check(self._common is None, "rows are named twice")
        n_ids = len(ids.rows)
        is_common = read_bits(request.common, n_ids)
        check(bool(is_common.any()), "no row is common")
        self._accountant.approve(request, int(is_common.sum()), n_ids)
        common = SortedIds(ids.pseudonyms[is_common], ids.rows[is_common])
        proof = self._prove(self._member.name, common)
        self._common = common
        return RowsTaken(RowsProof(memoryview(proof)))

    def _compare_rows(self, request: CompareRows) -> Accepted:
        """Refuse rows that differ between parties: the coordinator could name different ones."""
        common = self._common
        if common is None:
            raise ProtocolError.stating("rows are compared before they were named")
        others = list(self._meeting.session().pair_secrets)
        check(len(request.proofs) == len(others), "not one proof of every other party")
        for other, proof in zip(others, request.proofs, strict=True):
            if not hmac.compare_digest(self._prove(other, common), bytes(proof.data)):
                raise MaskingError.of("rows.differ", peer=other)
        self._is_over = True
        return Accepted()

    def _prove(self, party: str, common: SortedIds) -> bytes:
        """Compute the proof that `party` sends if it took these rows."""
        assert self._key is not None, "ids were hashed under it"
        key = derive_key(self._key, _PROVING, self._meeting.session().id)
        digest = sha256(common.pseudonyms.tobytes()).digest()
        return hmac.digest(key, join_contexts((encode_name(party), digest)), "sha256")
