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

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.kernels.sums.spans import Grouped, apply_streams, count_within, join_neighbours
from fedforest.masking.key_agreement import (
    derive_key,
    encode_name,
    encode_number,
    expand_each,
    expand_key,
)
from fedforest.masking.keystream import PIECE_WORDS, WORD, Keystream

DIGEST_BYTES = 32
PLACE_BYTES = 16
WORDS_AT_ONCE = 2**17  # of all streams: a megabyte; smaller pieces take more calls than they save
MOST_KNOWN = 64  # sets of partners that a party remembers
_PAIR_MASKS = b"pair masks"
_WORDS = b"words"

Way = tuple[str, str]  # who subtracts a mask, and who adds it


class Summand(NamedTuple):
    """One of the vectors of a party's reply, which lie end to end.

    `partners` are those that the party shares a mask of it with. `digest` (32 bytes) is a hash of
    what the vector answers: the question and its participants.
    """

    length: int
    partners: tuple[str, ...]
    digest: bytes


class PairStream(NamedTuple):
    """The masks of two parties in a run: one stream, and the key of places to read it from.

    Places are as good as random to all others: that two steps read a word twice is as likely as
    that they draw the same key.
    """

    key: bytes
    words: Keystream

    @classmethod
    def of(cls, pair_secret: bytes, run: bytes, way: Way) -> "PairStream":
        """Derive both from what the two parties share."""
        key = derive_pair_key(pair_secret, run, way)
        return cls(key, Keystream(expand_key(key, _WORDS)))


class Masker:
    """Masks a party's replies in one run.

    `run` must hold fresh bytes of every party: a coordinator that could name a run as an earlier
    one would be sent the same masks around changed rows.
    """

    def __init__(self, party: str, pair_secrets: Mapping[str, bytes], run: bytes) -> None:
        self._party = party
        self._pair_secrets = pair_secrets
        self._run = run
        self._pairs: dict[str, PairStream] = {}  # derived when they are first needed
        self._partners: list[tuple[str, ...]] = []  # of the last vectors that were masked
        self._shared = _Shared.of({})  # with them
        self._known: dict[tuple[tuple[str, ...], ...], _Shared] = {}  # with those of earlier ones

    def mask(
        self, plain: NDArray[np.int64], summands: Sequence[Summand], step: int
    ) -> NDArray[np.uint64]:
        """The party's one reply in a step; a second under the same step would expose both."""
        _check_vector(plain, summands)
        masked = plain.astype(np.int64).view(np.uint64)  # a copy
        shared = self._find_shared([one.partners for one in summands])
        lengths = [summand.length for summand in summands]
        ends = np.array([0, *accumulate(lengths)])
        runs, *groups = shared.grouped
        grouped = Grouped(ends[runs], *groups)
        streams = shared.open_streams(summands, step)
        n_words, piece = (
            len(masked),
            min(PIECE_WORDS, WORDS_AT_ONCE // max(1, shared.n_streams) + 1),
        )
        words = np.empty(min(n_words, piece) * shared.n_streams, WORD)
        for first in range(0, n_words, piece):  # all of a piece while it is in cache
            last = min(n_words, first + piece)
            if last - first == n_words:
                counts = [sum([lengths[place] for place in places]) for places in shared.places]
            else:
                counts = count_within(grouped, first, last).tolist()
            _read_on(streams, counts, words)
            apply_streams(masked, words.astype(np.uint64, copy=False), grouped, first, last)
        return masked

    def _find_shared(self, partners: list[tuple[str, ...]]) -> "_Shared":
        """Find which partners are in which vectors; they seldom change between steps."""
        if partners != self._partners:
            self._partners, self._shared = partners, self._recall_shared(tuple(partners))
        return self._shared

    def _recall_shared(self, partners: tuple[tuple[str, ...], ...]) -> "_Shared":
        if partners not in self._known:
            for own in partners:
                self._check_partners(own)
            groups = {places: self._group(own) for places, own in _find_members(partners)}
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[partners] = _Shared.of(groups)
        return self._known[partners]

    def _group(self, partners: Sequence[str]) -> "_Group":
        before = [partner for partner in partners if partner < self._party]
        others = [partner for partner in partners if not partner < self._party]
        return _Group([*map(self._pair, others)], [*map(self._pair, before)])

    def _pair(self, partner: str) -> PairStream:
        if partner not in self._pairs:
            if partner not in self._pair_secrets:
                raise MaskingError.stating(
                    "no secret is shared with party {whom!r}: exchange keys with it first",
                    whom=partner,
                )
            way = (min(self._party, partner), max(self._party, partner))
            self._pairs[partner] = PairStream.of(self._pair_secrets[partner], self._run, way)
        return self._pairs[partner]

    def _check_partners(self, partners: tuple[str, ...]) -> None:
        if not partners:
            raise MaskingError.stating(
                "party {whom!r} has no peers, so nothing would mask its vector", whom=self._party
            )
        if len(set(partners)) != len(partners):
            raise MaskingError.stating(
                "a partner is named twice: a vector would need one mask twice"
            )


def _find_members(
    partners: Sequence[tuple[str, ...]],
) -> Iterable[tuple[tuple[int, ...], Sequence[str]]]:
    """Partners that are in the same vectors, by the places of these."""
    if len(partners) == 1:
        return [((0,), partners[0])]
    places: dict[str, list[int]] = {}
    for place, own in enumerate(partners):
        for partner in own:
            places.setdefault(partner, []).append(place)
    members: dict[tuple[int, ...], list[str]] = {}
    for partner, own_places in places.items():
        members.setdefault(tuple(own_places), []).append(partner)
    return members.items()


class _Group(NamedTuple):
    """The streams that a party shares with those of its partners that are in the same vectors."""

    subtracted: list[PairStream]  # with partners whose names come after the party's own
    added: list[PairStream]


class _Shared(NamedTuple):
    """The vectors that a party masks with its partners, in the same order everywhere."""

    places: list[tuple[int, ...]]  # of the vectors, per group
    pairs: list[list[PairStream]]
    grouped: Grouped  # runs are from which to which vector

    @classmethod
    def of(cls, groups: Mapping[tuple[int, ...], _Group]) -> "_Shared":
        of_streams = [(len(own.subtracted), sum(map(len, own))) for own in groups.values()]
        grouped = _lay_out(tuple(groups), tuple(of_streams))
        pairs = [[*subtracted, *added] for subtracted, added in groups.values()]
        return cls(list(groups), pairs, grouped)

    @property
    def n_streams(self) -> int:
        """One for each partner."""
        return sum(map(len, self.pairs))

    def open_streams(self, summands: Sequence[Summand], step: int) -> list[list[Keystream]]:
        """Return each partner's stream, where the vectors that the two have in common begin."""
        bound = [bind_vector(summand.digest, summand.length) for summand in summands]
        vectors = [b"".join([bound[place] for place in places]) for places in self.places]
        return open_streams(self.pairs, vectors, step)


@lru_cache(maxsize=1024)
def _lay_out(
    places: tuple[tuple[int, ...], ...], of_streams: tuple[tuple[int, int], ...]
) -> Grouped:
    """Groups by the places of their vectors, and by their streams: subtracted ones, and all."""
    runs = [join_neighbours(own) for own in places]
    n_subtracted, n_streams = np.array(of_streams, np.int64).reshape(-1, 2).T.copy()
    return Grouped(
        np.concatenate([np.zeros((0, 2), np.int64), *runs]),
        np.array([0, *accumulate(map(len, runs))]),
        n_subtracted,
        n_streams,
    )


def _read_on(
    groups: Sequence[Sequence[Keystream]], n_words: Sequence[int], words: NDArray[np.uint64]
) -> None:
    """Read on in all streams, each so far as its group needs; words lie end to end."""
    out, begin = words.view(np.uint8).data, 0
    for streams, n in zip(groups, n_words, strict=True):
        n_bytes = n * WORD.itemsize
        for stream in streams:
            stream.write(out[begin : begin + n_bytes])
            begin += n_bytes


def derive_pair_key(pair_secret: bytes, run: bytes, way: Way) -> bytes:
    """Return the key of all that two parties share in a run."""
    sender, receiver = way
    if sender == receiver:
        raise MaskingError(f"party {sender!r} cannot share a mask with itself")
    if not run:
        raise MaskingError.stating("a mask is bound to a run, but nothing names the run")
    names = (encode_name(sender), encode_name(receiver))
    return derive_key(pair_secret, _PAIR_MASKS, run, *names)


def bind_vector(digest: bytes, length: int) -> bytes:
    """Make the context that binds a key to one vector; of several, one after the other."""
    if len(digest) != DIGEST_BYTES:
        raise MaskingError(f"a mask is bound to a digest of {DIGEST_BYTES} bytes")
    return digest + encode_number(length)


def open_streams(
    groups: Sequence[Sequence[PairStream]], vectors: Sequence[bytes], step: int
) -> list[list[Keystream]]:
    """Return the masks of pairs of parties in a step; each group of pairs has its vectors.

    The place where a stream is read is bound to all these vectors. Where the coordinator tells two
    parties of different ones, their masks have nothing in common, and the sums are random.
    """
    keys = [[pair.key for pair in pairs] for pairs in groups]
    places = expand_each(zip(keys, vectors, strict=True), encode_number(step))
    for pairs, own in zip(groups, places, strict=True):
        for pair, place in zip(pairs, own, strict=True):
            pair.words.go_to(place[:PLACE_BYTES])
    return [[pair.words for pair in pairs] for pairs in groups]


def _check_vector(plain: NDArray[np.int64], summands: Sequence[Summand]) -> None:
    if plain.dtype != np.int64 or plain.ndim != 1:
        raise MaskingError(
            f"a vector of int64 can be masked, not {plain.ndim} dimensions of {plain.dtype}"
        )
    if sum([summand.length for summand in summands]) != len(plain):
        raise MaskingError(f"{len(plain)} numbers are not as many as those of all sums together")
