"""Introduction: parties exchange keys, and seeds for choosing peers, through the coordinator.

Who learns what. The coordinator sees public keys, nonces and sealed seeds: no secret, and not which
party will choose which peers. A party learns every other party's public key and selection seed. The
coordinator relays all messages and could replace keys, so a party compares each key with the
fingerprint it got by other means (its *pins*) and sends nothing if one is missing or differs.

Pair secrets are bound to the run and to the nonces of all parties. If a coordinator reuses a run id
or shows parties different lists, the parties derive keys that are new or do not match.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedforest.errors import MaskingError, TooFewParties
from fedforest.masking.key_agreement import (
    IdentityKey,
    Randomness,
    fingerprint,
)
from fedforest.protocol.aggregation.base import LEAST_PARTICIPANTS
from fedforest.protocol.aggregation.messages import (
    Introduce,
    MeetPeers,
    Peer,
    TakeSeeds,
)
from fedforest.protocol.aggregation.payloads import SealedSeed
from fedforest.protocol.asking import Conversation, ask, blame, check

SEED_BYTES = 32


def introduce_parties(
    run: bytes, parties: Sequence[str], *, with_seeds: bool
) -> Conversation[None]:
    """Introduce the parties in two exchanges, or in three if selection seeds are needed."""
    if len(parties) < LEAST_PARTICIPANTS:
        raise TooFewParties(f"{len(parties)} party has nobody to hide among; two or more can")
    introduced = yield from ask(dict.fromkeys(parties, Introduce(memoryview(run))))
    peers = tuple(
        Peer(party, introduced[party].key.key, introduced[party].key.nonce) for party in parties
    )
    met = yield from ask(dict.fromkeys(parties, MeetPeers(peers)))
    n_seeds = len(parties) - 1 if with_seeds else 0
    for party in parties:
        with blame(party):
            check(len(met[party].seeds) == n_seeds, "not one seed for every other party")
    if with_seeds:
        letters = _deliver({party: met[party].seeds for party in parties})
        yield from ask({party: TakeSeeds(tuple(letters[party])) for party in parties})


def _deliver(sent: Mapping[str, tuple[SealedSeed, ...]]) -> dict[str, list[SealedSeed]]:
    """Sort sealed seeds by receiver; senders and receivers are in the order of introduction."""
    letters: dict[str, list[SealedSeed]] = {party: [] for party in sent}
    for sender, seeds in sent.items():
        receivers = [party for party in sent if party != sender]
        for receiver, seed in zip(receivers, seeds, strict=True):
            letters[receiver].append(seed)
    return letters


@dataclass(frozen=True, slots=True)
class PartyIdentity:
    """A party's credentials in a federation: its name, its key and the others' fingerprints."""

    name: str
    identity: IdentityKey = field(repr=False)
    pins: Mapping[str, str]  # of every other party, confirmed by other means than this federation
    randomness: Randomness = field(repr=False)


def make_members(randomness_by_party: Mapping[str, Randomness]) -> dict[str, PartyIdentity]:
    """Make the members of a federation in one process, where all pins are known."""
    keys = {
        name: IdentityKey.from_randomness(randomness)
        for name, randomness in randomness_by_party.items()
    }
    pins = {name: fingerprint(key.public) for name, key in keys.items()}
    return {
        name: PartyIdentity(name, keys[name], pins, randomness_by_party[name])
        for name in randomness_by_party
    }


def check_pins(peers: Sequence[str], pins: Mapping[str, str]) -> None:
    """Refuse to meet parties without a confirmed fingerprint; the error names all of them."""
    strangers = [peer for peer in peers if peer not in pins]
    if strangers:
        names = ", ".join(map(repr, strangers))
        commands = "; ".join(f"fedforest party trust {peer} FINGERPRINT" for peer in strangers)
        raise MaskingError.of("key.not_pinned", peers=names, commands=commands)
