"""Bloom filter codes of classes: a few set bits each, found by hashing the number of the class.

Counts of classes can be told from counts of bits only if the code words are linearly independent.
Plain hashing would let classes collide, so of several hashed words a class takes the one that is
farthest from what the classes before it span. Codes are public and the same everywhere.
"""

from functools import lru_cache
from hashlib import shake_256

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError

MAX_BITS = 64
_N_CANDIDATES = 64  # words hashed per class and round
_MAX_ROUNDS = 100
_INDEPENDENT = 1e-6  # squared distance from the span of other words


def choose_code(n_classes: int, hashes: int, bits: int | None) -> tuple[int, tuple[int, ...]]:
    """The number of bits and the code word of every class.

    Without `bits` it is the smallest number at which counts of classes are, on average, no less
    certain than with a bit of its own for every class.
    """
    if n_classes < 1:
        raise ConfigurationError("LocalDP: there are no classes to encode; give labels.")
    if bits is None:
        return _choose_size(n_classes, hashes)
    words = find_words(n_classes, hashes, bits)
    if words is None:
        smallest = _smallest_size(n_classes, hashes, bits + 1)
        raise ConfigurationError(
            f"LocalDP(bits={bits}, hashes={hashes}): {n_classes} classes cannot be told apart by "
            f"{bits} bits. The smallest size that works is bits={smallest}; with bits=None the "
            "size is chosen for you."
        )
    return bits, words


def _choose_size(n_classes: int, hashes: int) -> tuple[int, tuple[int, ...]]:
    best, best_variance = None, np.inf
    for bits in range(_smallest_size(n_classes, hashes, hashes), MAX_BITS + 1):
        words = find_words(n_classes, hashes, bits)
        if words is None:
            continue
        variance = mean_variance(membership(words, bits))
        if variance < best_variance:
            best, best_variance = (bits, words), variance
        if variance <= 1.0 + 1e-9:
            break
    assert best is not None  # the smallest size works
    return best


def _smallest_size(n_classes: int, hashes: int, first: int) -> int:
    """The smallest number of bits, from `first` on, that has a code for these classes."""
    for bits in range(max(first, min(n_classes, MAX_BITS + 1)), MAX_BITS + 1):
        if find_words(n_classes, hashes, bits) is not None:
            return bits
    raise ConfigurationError(
        f"LocalDP(hashes={hashes}): no code of at most {MAX_BITS} bits tells {n_classes} classes "
        "apart. Use fewer hashes, or merge classes: each needs a bit."
    )


@lru_cache(maxsize=256)
def find_words(n_classes: int, hashes: int, bits: int) -> tuple[int, ...] | None:
    """Linearly independent words of `hashes` set bits each, or None where there are none."""
    if n_classes > bits or (hashes == bits and n_classes > 1):
        return None  # more words than dimensions; or all bits set, a single word
    words: list[int] = []
    basis = np.zeros((0, bits))
    for number in range(n_classes):
        found = _find_word(number, hashes, basis)
        if found is None:
            return None
        word, residual = found
        words.append(word)
        basis = np.vstack([basis, residual / np.linalg.norm(residual)])
    return tuple(words)


def _find_word(
    number: int, hashes: int, basis: NDArray[np.float64]
) -> tuple[int, NDArray[np.float64]] | None:
    """A word of this class outside the span of the basis, and the part of it that is outside."""
    bits = basis.shape[1]
    for attempt in range(_MAX_ROUNDS):
        first = attempt * _N_CANDIDATES
        words = [hash_word(number, k, hashes, bits) for k in range(first, first + _N_CANDIDATES)]
        residuals = membership(words, bits).T
        for _ in range(2):  # twice, so that rounding of the first time goes too
            residuals = residuals - (residuals @ basis.T) @ basis
        distances = (residuals**2).sum(axis=1)
        farthest = int(np.argmax(np.round(distances, 9)))  # rounded: ties go to the first, always
        if distances[farthest] > _INDEPENDENT:
            return words[farthest], residuals[farthest]
    return None


def hash_word(number: int, attempt: int, hashes: int, bits: int) -> int:
    """A word of exactly `hashes` set bits for a class: distinct positions, as a hash says."""
    message = f"bloom code/{number}/{attempt}/{hashes}/{bits}".encode()
    draws = np.frombuffer(shake_256(message).digest(4 * hashes), "<u4")
    positions = list(range(bits))
    word = 0
    for draw in draws:
        word |= 1 << positions.pop(int(draw) % len(positions))
    return word


def membership(words: list[int] | tuple[int, ...], bits: int) -> NDArray[np.float64]:
    """(bits, classes): 1.0 where the class has the bit set."""
    columns = np.array(words, np.uint64)
    return ((columns >> np.arange(bits, dtype=np.uint64)[:, None]) & np.uint64(1)).astype(float)


def mean_variance(matrix: NDArray[np.float64]) -> float:
    """Variance of a class's count by least squares, where every bit's count has variance 1."""
    return float(np.linalg.inv(matrix.T @ matrix).trace() / matrix.shape[1])


def largest_distance(words: tuple[int, ...]) -> int:
    """In how many bits two code words differ at most."""
    return max((one ^ other).bit_count() for one in words for other in words)
