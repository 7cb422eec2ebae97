"""Masks that hide each party's vector and cancel in the sum over all parties, modulo 2^64.

A party subtracts one mask for each peer it chose and adds one for each party that chose it (k-PPD-
ERT, section 3.1). A mask from sender to receiver is not the mask from receiver to sender: were it
so, two parties that chose each other would subtract and add the same, and send their plain vectors.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.masking.key_agreement import derive_key, encode_name, encode_number
from fedforest.masking.keystream import PIECE_WORDS, WORD, Keystream, expand

DIGEST_BYTES = 32
_PAIR_MASK = b"pair mask"

Peers = Mapping[str, tuple[str, ...]]  # whom each participant chose


class MaskUse(NamedTuple):
    """The one vector that masks are for; a second under the same use would expose both.

    `run` must hold fresh bytes of every party: a coordinator that could name a run as an earlier
    one would be sent the same masks around changed rows. `digest` (32 bytes) is a hash of what
    the vector answers: the request, its participants, and which part of the request it is.
    """

    run: bytes
    step: int
    digest: bytes


def directed_mask(
    pair_secret: bytes, sender: str, receiver: str, use: MaskUse, length: int
) -> NDArray[np.uint64]:
    """The mask that the sender subtracts and the receiver adds."""
    return expand(_mask_key(pair_secret, sender, receiver, use, length), length)


def mask(
    plain: NDArray[np.int64],
    party: str,
    peers: Peers,
    pair_secrets: Mapping[str, bytes],
    use: MaskUse,
) -> NDArray[np.uint64]:
    """The party's vector under all its masks; without a single mask it is refused."""
    if plain.dtype != np.int64 or plain.ndim != 1:
        raise MaskingError(
            f"a vector of int64 can be masked, not {plain.ndim} dimensions of {plain.dtype}"
        )
    check_peers(peers)
    if party not in peers:
        raise MaskingError(f"party {party!r} masks a vector but takes no part in its sum")
    masked = plain.astype(np.int64).view(np.uint64)  # a copy
    length = len(masked)
    streams = [
        (apply, Keystream(_mask_key(_secret_with(other, pair_secrets), *way, use, length)))
        for apply, other, way in _directions(party, peers)
    ]
    words = np.empty(min(length, PIECE_WORDS), WORD)
    for start in range(0, length, PIECE_WORDS):  # all masks of a piece while it is in the cache
        piece = masked[start : start + PIECE_WORDS]
        drawn = words[: len(piece)]
        for apply, stream in streams:
            stream.fill(drawn)
            apply(piece, drawn, out=piece)
    return masked


def unmask_sum(vectors: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """The sum of all participants' vectors, in which every mask meets its opposite."""
    if len(vectors) < 2:
        raise MaskingError(f"masks cancel between two vectors or more, not in {len(vectors)}")
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        if vector.dtype != np.uint64 or vector.ndim != 1 or vector.shape != total.shape:
            raise MaskingError(
                f"masked vectors do not fit together: {vector.shape} of {vector.dtype} beside "
                f"{total.shape} of {total.dtype}"
            )
        total += vector
    return total.view(np.int64)


def check_peers(peers: Peers) -> None:
    """Refuse choices under which masks would not cancel, or a party would have none of its own."""
    for party, chosen in peers.items():
        if not chosen:
            raise MaskingError(f"party {party!r} has no peers, so nothing would mask its vector")
        if party in chosen:
            raise MaskingError(f"party {party!r} is its own peer: that mask would cancel at once")
        if len(set(chosen)) != len(chosen):
            raise MaskingError(f"party {party!r} names a peer twice: it would use one mask twice")
        strangers = sorted(set(chosen) - peers.keys())
        if strangers:
            raise MaskingError(
                f"party {party!r} has peers that take no part, so masks would stay in the sum: "
                f"{', '.join(map(repr, strangers))}"
            )


def _directions(party: str, peers: Peers) -> Iterator[tuple[np.ufunc, str, tuple[str, str]]]:
    """What the party does with each of its masks: how, shared with whom, from whom to whom."""
    for peer in peers[party]:
        yield np.subtract, peer, (party, peer)
    for other, chosen in peers.items():
        if party in chosen:
            yield np.add, other, (other, party)


def _secret_with(other: str, pair_secrets: Mapping[str, bytes]) -> bytes:
    if other not in pair_secrets:
        raise MaskingError(f"no secret is shared with party {other!r}: exchange keys with it first")
    return pair_secrets[other]


def _mask_key(pair_secret: bytes, sender: str, receiver: str, use: MaskUse, length: int) -> bytes:
    if sender == receiver:
        raise MaskingError(f"party {sender!r} cannot share a mask with itself")
    if not use.run or len(use.digest) != DIGEST_BYTES:
        raise MaskingError(
            f"a mask is bound to a run and to a digest of {DIGEST_BYTES} bytes; got "
            f"{len(use.run)} bytes naming the run and {len(use.digest)} of digest"
        )
    return derive_key(
        pair_secret,
        _PAIR_MASK,
        use.run,
        encode_name(sender),
        encode_name(receiver),
        encode_number(use.step),
        use.digest,
        encode_number(length),  # or a longer vector would begin with the masks of a shorter one
    )
