"""Parties get to know each other through the coordinator: keys, and seeds for choosing peers.

Who learns what. The coordinator sees public keys, nonces and sealed seeds: no secret, and not who
will choose whom. A party learns every other party's public key and selection seed. The coordinator
carries all of it and could sit in the middle, so a party compares each key with the fingerprint it
was given by other means (its *pins*) and sends nothing where one is missing or differs.

Secrets of pairs are bound to the run and to everybody's nonces. A coordinator that begins a run id
again, or shows parties different lists, only gets keys that were never used or do not fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from fedforest.errors import MaskingError, ProtocolError, TooFewParties
from fedforest.masking.key_agreement import (
    Entropy,
    IdentityKey,
    derive_key,
    draw_bytes,
    encode_name,
    fingerprint,
)
from fedforest.masking.masks import Masker
from fedforest.protocol.aggregation.base import LEAST_PARTICIPANTS, Handlers
from fedforest.protocol.aggregation.messages import (
    Introduce,
    Introduced,
    MeetPeers,
    Met,
    Peer,
    TakeSeeds,
)
from fedforest.protocol.aggregation.payloads import NONCE_BYTES, PublicKey, SealedSeed
from fedforest.protocol.aggregation.session import Session, digest_session
from fedforest.protocol.aggregation.steps import StepMemory
from fedforest.protocol.asking import Accepted, Ask, Conversation, blame, check

SEED_BYTES = 32


def introduce_parties(
    run: bytes, parties: Sequence[str], *, with_seeds: bool
) -> Conversation[None]:
    """Two exchanges, or three where selection seeds are needed."""
    if len(parties) < LEAST_PARTICIPANTS:
        raise TooFewParties(f"{len(parties)} party has nobody to hide among; two or more can")
    introduced = yield Ask(dict.fromkeys(parties, Introduce(memoryview(run))), Introduced)
    peers = tuple(
        Peer(party, introduced[party].key.key, introduced[party].key.nonce) for party in parties
    )
    met = yield Ask(dict.fromkeys(parties, MeetPeers(peers)), Met)
    n_seeds = len(parties) - 1 if with_seeds else 0
    for party in parties:
        with blame(party):
            check(len(met[party].seeds) == n_seeds, "not one seed for every other party")
    if with_seeds:
        letters = _deliver({party: met[party].seeds for party in parties})
        yield Ask({party: TakeSeeds(tuple(letters[party])) for party in parties})


def _deliver(sent: Mapping[str, tuple[SealedSeed, ...]]) -> dict[str, list[SealedSeed]]:
    """What everybody is sent, by what everybody sends; all in the order of introduction."""
    letters: dict[str, list[SealedSeed]] = {party: [] for party in sent}
    for sender, seeds in sent.items():
        receivers = [party for party in sent if party != sender]
        for receiver, seed in zip(receivers, seeds, strict=True):
            letters[receiver].append(seed)
    return letters


@dataclass(frozen=True, slots=True)
class Member:
    """What a party needs to be one of several: a name, a key, and the others' fingerprints."""

    name: str
    identity: IdentityKey = field(repr=False)
    pins: Mapping[str, str]  # of every other party, confirmed by other means than this federation
    entropy: Entropy = field(repr=False)


def make_members(entropies: Mapping[str, Entropy]) -> dict[str, Member]:
    """Members of a federation in one process, where fingerprints need no comparing."""
    keys = {name: IdentityKey.from_entropy(entropy) for name, entropy in entropies.items()}
    pins = {name: fingerprint(key.public) for name, key in keys.items()}
    return {name: Member(name, keys[name], pins, entropies[name]) for name in entropies}


class MeetingParty:
    """Answers an introduction; knows the session that comes of it."""

    def __init__(self, member: Member, *, with_seeds: bool) -> None:
        self._member = member
        self._with_seeds = with_seeds
        self._run = b""
        self._nonce = b""
        self._replies = StepMemory()  # the exchanges of an introduction are hops of one step
        self._session: Session | None = None

    def handlers(self) -> Handlers:
        handlers: Handlers = {Introduce: self._introduce, MeetPeers: self._meet_peers}
        if self._with_seeds:
            handlers[TakeSeeds] = self._take_seeds
        return handlers

    def session(self) -> Session:
        """The secrets of the run; refused before everybody was introduced."""
        session = self._met_session()
        n_seeds = len(session.pair_secrets) + 1 if self._with_seeds else 0
        check(len(session.seeds) == n_seeds, "a sum is asked for before seeds were exchanged")
        return session

    def _met_session(self) -> Session:
        if self._session is None:
            raise ProtocolError("the parties of the run were not introduced")
        return self._session

    def _introduce(self, request: Introduce) -> Introduced:
        run = bytes(request.run)
        if run != self._run:  # all that is known of an earlier run is forgotten, its nonce too
            self._run, self._nonce = run, draw_bytes(self._member.entropy, NONCE_BYTES)
            self._replies, self._session = StepMemory(), None
        key = PublicKey(memoryview(self._member.identity.public), memoryview(self._nonce))
        return Introduced(key)

    def _meet_peers(self, request: MeetPeers) -> Met:
        check(self._run != b"", "peers are named before a run has begun")
        return self._replies.answer(0, 0, request, partial(self._meet, request.peers))

    def _meet(self, peers: tuple[Peer, ...]) -> Met:
        self._check_peers(peers)
        others = [peer for peer in peers if peer.name != self._member.name]
        session_id = digest_session(self._run, peers)
        secrets = {peer.name: self._agree(peer, session_id) for peer in others}
        seeds = {}
        if self._with_seeds:
            seeds[self._member.name] = draw_bytes(self._member.entropy, SEED_BYTES)
        name = self._member.name
        masker = Masker(name, secrets, session_id)
        session = Session(name, session_id, secrets, seeds, StepMemory(), masker)
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
                raise MaskingError(
                    f"party {peer.name!r} shows a key that is not the pinned one: somebody may sit "
                    "in between; compare fingerprints with its operator before anything is sent"
                )

    def _agree(self, peer: Peer, session_id: bytes) -> bytes:
        shared = self._member.identity.pair_secret(bytes(peer.key))
        first, second = sorted((encode_name(self._member.name), encode_name(peer.name)))
        return derive_key(shared, b"pair", session_id, first, second)

    def _take_seeds(self, request: TakeSeeds) -> Accepted:
        session = self._met_session()
        return self._replies.answer(0, 1, request, partial(self._take, session, request))

    def _take(self, session: Session, request: TakeSeeds) -> Accepted:
        others = list(session.pair_secrets)  # in the order of introduction
        check(len(request.seeds) == len(others), "not one seed of every other party")
        seeds = dict(session.seeds)
        for sender, letter in zip(others, request.seeds, strict=True):
            seed = session.open(sender, letter.data, b"selection seed")
            check(len(seed) == SEED_BYTES, f"the seed of {sender!r} has another length")
            seeds[sender] = seed
        self._session = replace(session, seeds=seeds)
        return Accepted()


def check_pins(peers: Sequence[str], pins: Mapping[str, str]) -> None:
    """Refuse to meet parties whose fingerprints nobody has confirmed; names all of them."""
    strangers = [peer for peer in peers if peer not in pins]
    if strangers:
        names = ", ".join(map(repr, strangers))
        commands = "; ".join(f"fedforest party trust {peer} FINGERPRINT" for peer in strangers)
        raise MaskingError(
            f"no fingerprint of {names} is pinned here; ask who operates party {names}, by other "
            f"means than this federation, and run here: {commands}"
        )


def _has_fingerprint(peer: Peer, pinned: str) -> bool:
    try:
        return fingerprint(bytes(peer.key)) == pinned
    except MaskingError:  # not even a key
        return False
