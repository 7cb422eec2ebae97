"""Parties that know each other: keys agreed and selection seeds told, from seeded randomness."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.masking.key_agreement import IdentityKey
from fedforest.masking.keystream import WORD
from fedforest.masking.masks import Masker, PairStream, Summand, bind_vector, open_streams
from fedforest.masking.peers import find_partners

Peers = Mapping[str, tuple[str, ...]]


class OneVector(NamedTuple):
    """A reply that has one vector: the run, the step, and a hash of what the vector answers."""

    run: bytes
    step: int
    digest: bytes


USE = OneVector(b"run of today", 7, sha256(b"request").digest())


def mask_one(
    plain: NDArray[np.int64],
    party: str,
    peers: Peers,
    pair_secrets: Mapping[str, bytes],
    use: OneVector = USE,
) -> NDArray[np.uint64]:
    """What a party sends for one vector."""
    summand = Summand(len(plain), find_partners(party, peers), use.digest)
    return Masker(party, pair_secrets, use.run).mask(plain, [summand], use.step)


def directed_mask(
    pair_secret: bytes, sender: str, receiver: str, use: OneVector, length: int
) -> NDArray[np.uint64]:
    """The mask of one vector that the sender subtracts and the receiver adds."""
    words = np.empty(length, WORD)
    pair = PairStream.of(pair_secret, use.run, (sender, receiver))
    [[stream]] = open_streams([[pair]], [bind_vector(use.digest, length)], use.step)
    stream.fill(words)
    return words


def own_mask(
    pair_secret: bytes, party: str, partner: str, use: OneVector, length: int
) -> NDArray[np.uint64]:
    """What the mask that two parties share adds to the vector of the first of them."""
    if party < partner:
        return -directed_mask(pair_secret, party, partner, use, length)
    return directed_mask(pair_secret, partner, party, use, length)


def unmask_sum(vectors: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """The sum of all participants' vectors, in which every mask meets its opposite."""
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total += vector
    return total.view(np.int64)


class Federation(NamedTuple):
    """What parties know: secrets[one][other] is shared by these two, seeds are known to all."""

    names: tuple[str, ...]
    secrets: dict[str, dict[str, bytes]]
    seeds: dict[str, bytes]

    def mask_all(
        self, plain: Mapping[str, NDArray[np.int64]], peers: Peers, use: OneVector = USE
    ) -> dict[str, NDArray[np.uint64]]:
        """What each participant sends."""
        return {name: mask_one(plain[name], name, peers, self.secrets[name], use) for name in peers}


@cache
def introduce(n_parties: int) -> Federation:
    rng = np.random.default_rng([2024, n_parties])
    names = tuple(f"party {i}" for i in range(n_parties))
    keys = {name: IdentityKey.from_randomness(rng.bytes) for name in names}
    secrets = {
        name: {other: key.pair_secret(keys[other].public) for other in names if other != name}
        for name, key in keys.items()
    }
    return Federation(names, secrets, {name: rng.bytes(32) for name in names})


def neighbours(party: str, peers: Peers) -> set[str]:
    """Whom a party shares masks with: those it chose and those that chose it."""
    return {*peers[party], *(other for other, chosen in peers.items() if party in chosen)}


def strip_known_masks(
    federation: Federation,
    masked: Mapping[str, NDArray[np.uint64]],
    peers: Peers,
    colluders: Collection[str],
    use: OneVector = USE,
) -> dict[str, NDArray[np.uint64]]:
    """All that the coordinator and its colluders can do to each honest party's vector.

    They know exactly the masks that one of them has a part in, and take every one off.
    """
    stripped = {}
    for victim in peers.keys() - set(colluders):
        vector = masked[victim].copy()
        for colluder in colluders:
            secret = federation.secrets[colluder].get(victim, b"")
            if colluder in neighbours(victim, peers):
                vector -= own_mask(secret, victim, colluder, use, len(vector))
        stripped[victim] = vector
    return stripped
