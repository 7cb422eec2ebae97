"""Counts that share the words of a masked vector.

    | field n-1 | ... | field 1 | field 0 |       of 64 / n bits

A word is the sum of its numbers, each shifted to its place, modulo 2^64. Adding words adds their
numbers field by field, as long as no sum is too large for a field. The coordinator knows a bound of
all sums, in a small node a small one, and says how many numbers share a word.

A number that is too large runs over into the next field. So the words of a sum are a function of
the exact sums alone, also where a coordinator asks for fields that are too narrow; a party that
refused would tell how large its own counts are. Masks are bound to the packing, because parties
that packed differently would uncover each other's numbers.
"""

import hashlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.kernels.sums.checks import lies_between
from fedforest.protocol.aggregation.base import Answers, Segment

PerWord = Literal[1, 2, 4, 8]  # numbers in a word; with 1 they are the words themselves
_PACKINGS: tuple[PerWord, ...] = (8, 4, 2)
_FIELDS: dict[int, np.dtype[Any]] = {8: np.dtype("<u1"), 4: np.dtype("<u2"), 2: np.dtype("<u4")}
_WORD = np.dtype("<u8")
_WORD_BITS = 64


def choose_per_word(segments: Sequence[Segment]) -> PerWord:
    """Return how many numbers a word holds in all sums of a step."""
    largest = 0
    for segment in segments:
        if segment.largest_count is None:
            return 1
        largest = max(largest, segment.largest_count)
    return next((n for n in _PACKINGS if largest < 1 << _WORD_BITS // n), 1)


def count_words(length: int, per_word: PerWord) -> int:
    """Return the words of a vector of so many numbers."""
    return length if per_word == 1 else -(-length // per_word) + 1


def pack(own: Answers, per_word: PerWord) -> Answers:
    """Return a party's vectors as words, each ending with a zero to recognise its sum by."""
    if per_word == 1:
        return own
    lengths = [count_words(length, per_word) for length in own.lengths]
    words = np.zeros(sum(lengths), _WORD)
    fields = words.view(_FIELDS[per_word])
    fit = bool(lies_between(own.together, 0, (1 << _WORD_BITS // per_word) - 1))
    for numbers, begin in zip(own.each(), accumulate(lengths, initial=0), strict=False):
        if fit:
            at = begin * per_word
            fields[at : at + len(numbers)] = numbers
        else:
            added = _add_shifted(numbers, per_word)
            words[begin : begin + len(added)] = added
    return Answers(words.astype(np.uint64, copy=False).view(np.int64), lengths)


def _add_shifted(numbers: NDArray[np.int64], per_word: PerWord) -> NDArray[np.uint64]:
    """Return the words of a vector whose numbers may be too large for their fields."""
    padded = np.zeros((-(-len(numbers) // per_word), per_word), np.int64)
    padded.reshape(-1)[: len(numbers)] = numbers
    shifts = np.arange(per_word, dtype=np.uint64) * np.uint64(_WORD_BITS // per_word)
    words: NDArray[np.uint64] = (padded.view(np.uint64) << shifts).sum(axis=1, dtype=np.uint64)
    return words


def unpack(words: NDArray[np.int64], segment: Segment, per_word: PerWord) -> NDArray[np.int64]:
    """Return the numbers of a sum; refuse one whose masks did not cancel."""
    if per_word == 1:
        return words
    if words[-1] != 0:
        raise MaskingError.stating(
            "masks did not cancel: parties do not agree on keys, peers or questions, or one of "
            "them sent something else; introduce them anew"
        )
    fields = words.view(np.uint64).astype(_WORD, copy=False).view(_FIELDS[per_word])
    numbers: NDArray[np.int64] = fields[: segment.length].astype(np.int64)
    return numbers


def fits_always(segment: Segment, per_word: PerWord) -> bool:
    """Return whether no field of a word can hold more than `segment.largest`."""
    return per_word > 1 and 1 << _WORD_BITS // per_word <= segment.largest


def bind_packing(digest: bytes, per_word: PerWord) -> bytes:
    """Return the digest of a question that is answered in such words."""
    if per_word == 1:
        return digest
    return hashlib.sha256(b"packed" + bytes([per_word]) + digest).digest()
