"""Masks that hide each party's vectors and cancel in the sums over all parties, modulo 2^64.

A party subtracts one mask for each peer it chose and adds one for each party that chose it (k-PPD-
ERT, section 3.1). A mask from sender to receiver is not the mask from receiver to sender: were it
so, two parties that chose each other would subtract and add the same, and send their plain vectors.

    party a's reply in a step      a -> b reads one stream, a -> c another; no word is read twice
    sum 1, of a and b     | ab |
    sum 2, of a, b and c  | ab | ac |
    sum 3, of a and c     | ac |
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.masking.key_agreement import derive_key, encode_name, encode_number
from fedforest.masking.keystream import PIECE_WORDS, WORD, Keystream
from fedforest.masking.peers import Peers

DIGEST_BYTES = 32
_PAIR_MASKS = b"pair masks"

Shared = tuple[bytes, int]  # digest and length of a vector that two parties mask with each other
Way = tuple[str, str]  # from sender to receiver


class MaskUse(NamedTuple):
    """The one reply that masks are for; a second under the same use would expose both.

    `run` must hold fresh bytes of every party: a coordinator that could name a run as an earlier
    one would be sent the same masks around changed rows.
    """

    run: bytes
    step: int


class Summand(NamedTuple):
    """A party's vector in one sum of its reply.

    `digest` (32 bytes) is a hash of what the vector answers: the question and its participants.
    """

    plain: NDArray[np.int64]
    peers: Peers
    digest: bytes


def mask(
    summands: Sequence[Summand], party: str, pair_secrets: Mapping[str, bytes], use: MaskUse
) -> list[NDArray[np.uint64]]:
    """The party's vectors under all its masks; without a single mask one is refused."""
    for plain, _, _ in summands:
        _check_vector(plain)
    for peers in {id(peers): peers for _, peers, _ in summands}.values():  # many have the same
        _check_takes_part(party, peers)
    shared: dict[Way, list[Shared]] = {}
    for plain, peers, digest in summands:
        for _, way in _directions(party, peers):
            shared.setdefault(way, []).append((digest, len(plain)))
    streams = {
        way: open_stream(_secret_of(way, party, pair_secrets), way, use, vectors)
        for way, vectors in shared.items()
    }
    return [_mask_one(summand, party, streams) for summand in summands]


def open_stream(pair_secret: bytes, way: Way, use: MaskUse, vectors: Sequence[Shared]) -> Keystream:
    """The masks that the sender subtracts and the receiver adds, of one vector after the other.

    Their key is bound to all these vectors. Where the coordinator tells sender and receiver of
    different ones, their masks have nothing in common, and the sums are random.
    """
    sender, receiver = way
    if sender == receiver:
        raise MaskingError(f"party {sender!r} cannot share a mask with itself")
    if not use.run:
        raise MaskingError("a mask is bound to a run, but nothing names the run")
    if not all(len(digest) == DIGEST_BYTES for digest, _ in vectors):
        raise MaskingError(f"a mask is bound to a digest of {DIGEST_BYTES} bytes")
    key = derive_key(
        pair_secret,
        _PAIR_MASKS,
        use.run,
        encode_name(sender),
        encode_name(receiver),
        encode_number(use.step),
        b"".join([digest + encode_number(length) for digest, length in vectors]),
    )
    return Keystream(key)


def _mask_one(summand: Summand, party: str, streams: Mapping[Way, Keystream]) -> NDArray[np.uint64]:
    masked = summand.plain.astype(np.int64).view(np.uint64)  # a copy
    directions = [(apply, streams[way]) for apply, way in _directions(party, summand.peers)]
    words = np.empty(min(len(masked), PIECE_WORDS), WORD)
    for start in range(0, len(masked), PIECE_WORDS):  # all masks of a piece while it is in cache
        piece = masked[start : start + PIECE_WORDS]
        drawn = words[: len(piece)]
        for apply, stream in directions:
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


def _check_vector(plain: NDArray[np.int64]) -> None:
    if plain.dtype != np.int64 or plain.ndim != 1:
        raise MaskingError(
            f"a vector of int64 can be masked, not {plain.ndim} dimensions of {plain.dtype}"
        )


def _check_takes_part(party: str, peers: Peers) -> None:
    check_peers(peers)
    if party not in peers:
        raise MaskingError(f"party {party!r} masks a vector but takes no part in its sum")


def _directions(party: str, peers: Peers) -> Iterator[tuple[np.ufunc, Way]]:
    """What the party does with each of its masks: how, and from whom to whom."""
    for peer in peers[party]:
        yield np.subtract, (party, peer)
    for other, chosen in peers.items():
        if party in chosen:
            yield np.add, (other, party)


def _secret_of(way: Way, party: str, pair_secrets: Mapping[str, bytes]) -> bytes:
    other = way[1] if way[0] == party else way[0]
    if other not in pair_secrets:
        raise MaskingError(f"no secret is shared with party {other!r}: exchange keys with it first")
    return pair_secrets[other]
