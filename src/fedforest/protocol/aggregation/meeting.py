"""A party's side of an introduction, and of the protected sums that follow it.

See `introduction.py`, the coordinator's side, for who learns what.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fedforest.errors import MaskingError, ProtocolError
from fedforest.masking.key_agreement import derive_key, draw_bytes, encode_name, fingerprint
from fedforest.masking.masks import Masker
from fedforest.protocol.aggregation.base import (
    LEAST_PARTICIPANTS,
    Admitted,
    Answers,
    Handlers,
    check_least,
)
from fedforest.protocol.aggregation.introduction import PartyIdentity, check_pins
from fedforest.protocol.aggregation.messages import (
    Introduce,
    Introduced,
    MeetPeers,
    Met,
    Peer,
    TakeSeeds,
)
from fedforest.protocol.aggregation.payloads import NONCE_BYTES, PublicKey, SealedSeed
from fedforest.protocol.aggregation.session import PeerSession, digest_session
from fedforest.protocol.aggregation.steps import StepMemory
from fedforest.protocol.asking import Accepted, Message, check

SEED_BYTES = 32


class MeetingParty:
    """Answers an introduction and keeps the resulting session."""

    def __init__(self, member: PartyIdentity, *, with_seeds: bool) -> None:
        self.name = member.name
        self._member = member
        self._with_seeds = with_seeds
        self._run = b""
        self._nonce = b""
        self._agreed = b""
        self._replies = StepMemory()  # the exchanges of an introduction are hops of one step
        self._session: PeerSession | None = None

    def handlers(self) -> Handlers:
        handlers: Handlers = {Introduce: self._introduce, MeetPeers: self._meet_peers}
        if self._with_seeds:
            handlers[TakeSeeds] = self._take_seeds
        return handlers

    @property
    def has_met(self) -> bool:
        """Whether the introduction is complete."""
        return self._session is not None

    def session(self) -> PeerSession:
        """Return the secrets of the run; refused before the introduction is complete."""
        if self._session is None:
            raise ProtocolError.stating("the parties of the run were not introduced")
        return self._session

    def bind(self, agreed: bytes) -> None:
        """Bind the secrets of the run to what the parties agreed on."""
        check(self._session is None, "the parties were introduced before they agreed")
        self._agreed = agreed

    def _introduce(self, request: Introduce) -> Introduced:
        run = bytes(request.run)
        if run != self._run:  # forget everything about an earlier run, including its nonce
            self._run, self._nonce = run, draw_bytes(self._member.randomness, NONCE_BYTES)
            self._replies, self._session = StepMemory(), None
        key = PublicKey(memoryview(self._member.identity.public), memoryview(self._nonce))
        return Introduced(key)

    def _meet_peers(self, request: MeetPeers) -> Met:
        check(self._run != b"", "peers are named before a run has begun")
        return self._replies.answer(0, 0, request, partial(self._meet, request.peers))

    def _meet(self, peers: tuple[Peer, ...]) -> Met:
        self._check_peers(peers)
        others = [peer for peer in peers if peer.name != self._member.name]
        session_id = digest_session(self._run, peers, self._agreed)
        secrets = {peer.name: self._agree(peer, session_id) for peer in others}
        seeds = {}
        if self._with_seeds:
            seeds[self._member.name] = draw_bytes(self._member.randomness, SEED_BYTES)
        name = self._member.name
        masker = Masker(name, secrets, session_id)
        session = PeerSession(name, session_id, secrets, seeds, StepMemory(), masker)
        letters = tuple(
            SealedSeed(session.seal(peer.name, seed, b"selection seed"))
            for seed in seeds.values()
            for peer in others
        )
        self._session = session
        return Met(letters)

    def _check_peers(self, peers: tuple[Peer, ...]) -> None:
        names = [peer.name for peer in peers]
        check(len(set(names)) == len(names), "a party is introduced twice")
        check(len(names) >= LEAST_PARTICIPANTS, "there is nobody else to be introduced to")
        check(len({bytes(peer.key) for peer in peers}) == len(peers), "two parties have one key")
        for peer in peers:
            if peer.name == self._member.name:
                is_own = bytes(peer.key) == self._member.identity.public
                check(is_own and bytes(peer.nonce) == self._nonce, "this party's key was changed")
        self._check_pins([peer for peer in peers if peer.name != self._member.name])
        check(self._member.name in names, "this party is not among the parties of the run")

    def _check_pins(self, others: Sequence[Peer]) -> None:
        pins = self._member.pins
        check_pins([peer.name for peer in others], pins)
        for peer in others:
            if not _has_fingerprint(peer, pins[peer.name]):
                raise MaskingError.of("key.other", peer=peer.name)

    def _agree(self, peer: Peer, session_id: bytes) -> bytes:
        shared = self._member.identity.pair_secret(bytes(peer.key))
        first, second = sorted((encode_name(self._member.name), encode_name(peer.name)))
        return derive_key(shared, b"pair", session_id, first, second)

    def _take_seeds(self, request: TakeSeeds) -> Accepted:
        session = self.session()
        return self._replies.answer(0, 1, request, partial(self._take, session, request))

    def _take(self, session: PeerSession, request: TakeSeeds) -> Accepted:
        others = list(session.pair_secrets)  # in the order of introduction
        check(len(request.seeds) == len(others), "not one seed of every other party")
        seeds = dict(session.seeds)
        for sender, letter in zip(others, request.seeds, strict=True):
            seed = session.open(sender, letter.data, b"selection seed")
            check(
                len(seed) == SEED_BYTES, "the seed of {sender!r} has another length", sender=sender
            )
            seeds[sender] = seed
        self._session = replace(session, seeds=seeds)
        return Accepted()


class ProtectedAggregator(ABC):
    """A party's side of protected sums: answers each step once; `hide` protects the vectors."""

    with_seeds = False  # at the introduction

    def __init__(
        self, member: PartyIdentity, *, least_participants: int = LEAST_PARTICIPANTS
    ) -> None:
        self._meeting = MeetingParty(member, with_seeds=self.with_seeds)
        self._least = check_least(least_participants)

    @property
    def party(self) -> str:
        """The party's name among the participants."""
        return self._meeting.name

    def handlers(self) -> Handlers:
        return self._meeting.handlers()

    def bind(self, agreed: bytes) -> None:
        """Bind all keys to what the parties agreed on, before they are introduced."""
        self._meeting.bind(agreed)

    def find_hop(self, request: Any) -> int:  # noqa: ARG002 - depends on it in a ring only
        """Return the number of the exchange within its step."""
        return 0

    def admit(self, request: Any, told: Sequence[bytes] = ()) -> Admitted:
        """Refuse sums that this party must not join, and steps that are over."""
        hop = self.find_hop(request)
        session = self._meeting.session()
        n_seeds = len(session.pair_secrets) + 1 if self.with_seeds else 0
        check(len(session.seeds) == n_seeds, "a sum is asked for before seeds were exchanged")
        stored = session.steps.recall(request.step, hop, request)
        if stored is not None:
            return Admitted(stored)
        return Admitted(None, hop, session.check_parts(request.parts, self._least, told))

    def protect(self, request: Any, admitted: Admitted, own: Answers) -> Message:
        """Return the reply with the party's own vectors, one per part, and remember it."""
        own.require_summable(request.parts)
        session = self._meeting.session()
        reply = self.hide(session, request, admitted.digests, own)
        session.steps.remember(request.step, admitted.hop, request, reply)
        return reply

    @abstractmethod
    def hide(
        self, session: PeerSession, request: Any, digests: Sequence[bytes], own: Answers
    ) -> Message:
        """Return the reply with the party's vectors in a form that no other party can read."""


def _has_fingerprint(peer: Peer, pinned: str) -> bool:
    try:
        return fingerprint(bytes(peer.key)) == pinned
    except MaskingError:  # not even a key
        return False
