"""A party's secrets after the introduction of a run, and its checks of requested sums."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fedforest.errors import MaskingError
from fedforest.masking.key_agreement import derive_key, encode_name
from fedforest.masking.masks import Masker
from fedforest.masking.sealing import open_sealed, seal
from fedforest.protocol.aggregation.messages import Part, Peer
from fedforest.protocol.aggregation.steps import StepMemory
from fedforest.protocol.asking import check

MOST_KNOWN = 256  # sets of participants that a party remembers


@dataclass(slots=True)
class _Accepted:
    """Participants that were checked already, with their encoded names."""

    last: list[tuple[str, ...]] = field(default_factory=list)  # of the last request, part by part
    joined: list[bytes] = field(default_factory=list)
    known: dict[tuple[str, ...], bytes] = field(default_factory=dict)
    least: int = 0  # the minimum of participants that they were checked against


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PeerSession:
    """A party's secrets after the introduction, one per other party, for one run only."""

    party: str
    id: bytes  # hash of the run id, of every party's name, key and nonce, and of the agreement
    pair_secrets: Mapping[str, bytes]
    seeds: Mapping[str, bytes]  # by party, to choose its peers; empty if unused
    steps: StepMemory
    masker: Masker
    accepted: _Accepted = field(default_factory=_Accepted)

    def check_parts(
        self, parts: Sequence[Part], least: int, told: Sequence[bytes] = ()
    ) -> list[bytes]:
        """Refuse sums that this party must not join; return a digest of each part.

        A digest covers participants, question and what the answer depends on beside it (`told`).
        """
        check(len(parts) > 0, "nothing is asked")
        joined = self._join_participants([part.participants for part in parts], least)
        asked = zip(joined, parts, told or [b""] * len(parts), strict=True)
        digests = [_digest(one, part.question, beside) for one, part, beside in asked]
        check(len(set(digests)) == len(digests), "a question is asked twice in one step")
        return digests

    def _join_participants(self, named: list[tuple[str, ...]], least: int) -> list[bytes]:
        """Encode the participants of each part; cached, as most steps name the same ones."""
        accepted = self.accepted
        if least != accepted.least or len(accepted.known) > MOST_KNOWN:
            accepted.known, accepted.last, accepted.least = {}, [], least
        if named != accepted.last:
            accepted.joined = [self._join_known(participants) for participants in named]
            accepted.last = named
        return accepted.joined

    def _join_known(self, participants: tuple[str, ...]) -> bytes:
        known = self.accepted.known
        if participants not in known:
            self._check_participants(participants, self.accepted.least)
            known[participants] = _join_names(participants)
        return known[participants]

    def _check_participants(self, participants: tuple[str, ...], least: int) -> None:
        names = set(participants)
        check(self.party in names, "a sum is asked of a party that takes no part in it")
        check(len(names) == len(participants), "a participant is named twice")
        check(names - {self.party} <= self.pair_secrets.keys(), "a participant is a stranger")
        check(len(names) >= least, "a sum over fewer than {least} parties", least=least)

    def seal(self, receiver: str, plain: bytes, *context: bytes) -> memoryview:
        """Encrypt for another party; use each context once."""
        ends = (encode_name(self.party), encode_name(receiver))
        key = derive_key(self.pair_secrets[receiver], *context, *ends)
        return memoryview(seal(key, plain, self.id))

    def open(self, sender: str, sealed: memoryview, *context: bytes) -> bytes:
        """Decrypt bytes that another party sealed for this one in the same context."""
        ends = (encode_name(sender), encode_name(self.party))
        key = derive_key(self.pair_secrets[sender], *context, *ends)
        try:
            return open_sealed(key, bytes(sealed), self.id)
        except MaskingError:
            raise MaskingError.of("key.not_opened", peer=sender, receiver=self.party) from None


def digest_session(run: bytes, peers: Sequence[Peer], agreed: bytes = b"") -> bytes:
    """Hash run id, agreement and introductions: equal only if all parties were told the same."""
    fields = [run, agreed]
    for peer in peers:
        fields += [encode_name(peer.name), bytes(peer.key), bytes(peer.nonce)]
    return hashlib.sha256(_join(b"session", len(fields), fields)).digest()


def digest_part(
    participants: tuple[str, ...], question: memoryview | bytes, told: bytes = b""
) -> bytes:
    """Hash the participants and the question of a sum, and what its answers depend on beside it."""
    return _digest(_join_names(participants), question, told)


def _digest(joined: bytes, question: memoryview | bytes, told: bytes = b"") -> bytes:
    return hashlib.sha256(
        b"".join((joined, len(question).to_bytes(8, "little"), question, told))
    ).digest()


def _join_names(participants: tuple[str, ...]) -> bytes:
    """Encode the participants of a part."""
    return _join(b"part", len(participants) + 1, map(encode_name, participants))


def _join(what: bytes, n_fields: int, fields: Iterable[bytes]) -> bytes:
    """Join fields with their lengths, so that no two lists of fields give the same bytes."""
    sized = [len(content).to_bytes(8, "little") + content for content in fields]
    return b"".join([what, n_fields.to_bytes(8, "little"), *sized])
