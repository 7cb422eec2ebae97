"""Masks that hide each party's vectors and cancel in the sums over all parties, modulo 2^64.

Two parties share one mask of a sum if either chose the other as its peer (k-PPD-ERT, section 3.1).
The one whose name comes first subtracts it, the other adds it. A mask without such a direction,
subtracted for the peer that one chose and added for the one that chose it, would cancel at once
between two parties that chose each other, and they would send their plain vectors.

    party a's reply in a step      a and b read one stream, a and c another; no word is read twice
    sum 1, of a and b     | ab |
    sum 2, of a, b and c  | ab | ac |
    sum 3, of a and c     | ac |
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.kernels.runs import add_runs, count_within, find_runs, subtract_runs
from fedforest.masking.key_agreement import derive_key, encode_name, encode_number, expand_keys
from fedforest.masking.keystream import PIECE_WORDS, WORD, Keystream

DIGEST_BYTES = 32
_PAIR_MASKS = b"pair masks"

Way = tuple[str, str]  # who subtracts a mask, and who adds it


class Summand(NamedTuple):
    """One of the vectors of a party's reply, which lie end to end.

    `partners` are those that the party shares a mask of it with. `digest` (32 bytes) is a hash of
    what the vector answers: the question and its participants.
    """

    length: int
    partners: tuple[str, ...]
    digest: bytes


class Masker:
    """Masks a party's replies in one run.

    `run` must hold fresh bytes of every party: a coordinator that could name a run as an earlier
    one would be sent the same masks around changed rows.
    """

    def __init__(self, party: str, pair_secrets: Mapping[str, bytes], run: bytes) -> None:
        self._party = party
        self._pair_secrets = pair_secrets
        self._run = run
        self._pair_keys: dict[str, bytes] = {}  # derived when they are first needed
        self._partners: list[tuple[str, ...]] = []  # of the last vectors that were masked
        self._common: list[_Common] = []  # what is shared with them

    def mask(
        self, plain: NDArray[np.int64], summands: Sequence[Summand], step: int
    ) -> NDArray[np.uint64]:
        """The party's one reply in a step; a second under the same step would expose both."""
        _check_vector(plain, summands)
        masked = plain.astype(np.int64).view(np.uint64)  # a copy
        shared = self._open_streams(summands, step)
        words = np.empty(min(len(masked), PIECE_WORDS), WORD)
        for first in range(0, len(masked), PIECE_WORDS):  # all of a piece while it is in cache
            last = min(len(masked), first + PIECE_WORDS)
            for masks in shared:
                masks.apply(masked, words, first, last)
        return masked

    def _open_streams(self, summands: Sequence[Summand], step: int) -> list["_Masks"]:
        """One stream for each partner, over all vectors that the two have in common."""
        ends = np.array([0, *accumulate([summand.length for summand in summands])])
        bound = [bind_vector(summand.digest, summand.length) for summand in summands]
        opened = []
        for places, later, earlier in self._find_common([one.partners for one in summands]):
            vectors = b"".join([bound[place] for place in places])
            streams = open_streams([*later, *earlier], step, vectors)
            subtracted, added = streams[: len(later)], streams[len(later) :]
            opened.append(_Masks(find_runs(ends, places), subtracted, added))
        return opened

    def _find_common(self, partners: list[tuple[str, ...]]) -> list["_Common"]:
        """Which partners are in which vectors; from one step to the next seldom others."""
        if partners != self._partners:
            places: dict[str, list[int]] = {}
            for place, own in enumerate(partners):
                self._check_partners(own)
                for partner in own:
                    places.setdefault(partner, []).append(place)
            common: dict[tuple[int, ...], _Common] = {}
            for partner, own_places in places.items():
                together = tuple(own_places)
                _, later, earlier = common.setdefault(together, _Common(together, [], []))
                (earlier if partner < self._party else later).append(self._pair_key(partner))
            self._partners, self._common = partners, list(common.values())
        return self._common

    def _pair_key(self, partner: str) -> bytes:
        if partner not in self._pair_keys:
            if partner not in self._pair_secrets:
                raise MaskingError(
                    f"no secret is shared with party {partner!r}: exchange keys with it first"
                )
            way = (min(self._party, partner), max(self._party, partner))
            self._pair_keys[partner] = derive_pair_key(self._pair_secrets[partner], self._run, way)
        return self._pair_keys[partner]

    def _check_partners(self, partners: tuple[str, ...]) -> None:
        if not partners:
            raise MaskingError(
                f"party {self._party!r} has no peers, so nothing would mask its vector"
            )
        if len(set(partners)) != len(partners):
            raise MaskingError("a partner is named twice: a vector would need one mask twice")


class _Common(NamedTuple):
    """The keys that a party shares with those of its partners that are in the same vectors."""

    places: tuple[int, ...]  # of the vectors
    later: list[bytes]  # with partners whose names come after the party's own
    earlier: list[bytes]


class _Masks(NamedTuple):
    """What a party and some of its partners mask with each other in one reply."""

    runs: NDArray[np.int64]  # where in the reply
    subtracted: list[Keystream]
    added: list[Keystream]

    def apply(
        self, masked: NDArray[np.uint64], words: NDArray[np.uint64], first: int, last: int
    ) -> None:
        """Read the streams on as far as the piece [first, last) of the reply needs."""
        drawn = words[: count_within(self.runs, first, last)]
        for streams, apply in ((self.subtracted, subtract_runs), (self.added, add_runs)):
            for stream in streams:
                stream.fill(drawn)
                apply(masked, drawn.astype(np.uint64, copy=False), self.runs, first, last)


def derive_pair_key(pair_secret: bytes, run: bytes, way: Way) -> bytes:
    """The key of all masks that two parties share in a run."""
    sender, receiver = way
    if sender == receiver:
        raise MaskingError(f"party {sender!r} cannot share a mask with itself")
    if not run:
        raise MaskingError("a mask is bound to a run, but nothing names the run")
    names = (encode_name(sender), encode_name(receiver))
    return derive_key(pair_secret, _PAIR_MASKS, run, *names)


def bind_vector(digest: bytes, length: int) -> bytes:
    """What the key of a mask is bound to for one vector; of several, one after the other."""
    if len(digest) != DIGEST_BYTES:
        raise MaskingError(f"a mask is bound to a digest of {DIGEST_BYTES} bytes")
    return digest + encode_number(length)


def open_streams(pair_keys: Sequence[bytes], step: int, vectors: bytes) -> list[Keystream]:
    """The masks of pairs of parties in a step, of one vector after the other; by their keys.

    The key of a stream is bound to all these vectors. Where the coordinator tells two parties of
    different ones, their masks have nothing in common, and the sums are random.
    """
    return [Keystream(key) for key in expand_keys(pair_keys, encode_number(step), vectors)]


def _check_vector(plain: NDArray[np.int64], summands: Sequence[Summand]) -> None:
    if plain.dtype != np.int64 or plain.ndim != 1:
        raise MaskingError(
            f"a vector of int64 can be masked, not {plain.ndim} dimensions of {plain.dtype}"
        )
    if sum(summand.length for summand in summands) != len(plain):
        raise MaskingError(f"{len(plain)} numbers are not as many as those of all sums together")
