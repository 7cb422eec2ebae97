"""Bloom filter codes of classes: a few set bits each, found by hashing the number of the class.

Counts of classes can be told from counts of bits only if the code words are linearly independent.
Plain hashing would let classes collide, so of several hashed words a class takes the one that has
least in common with the classes before it and is independent of them. Codes are public and come
from integer arithmetic, so they are the same on every machine.
"""

from functools import lru_cache
from hashlib import shake_256

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError

MAX_BITS = 64
_N_CANDIDATES = 16  # words hashed per class and round
_MAX_ROUNDS = 400
_MAX_SALTS = 8
_MAX_VARIANCE = 100.0  # beyond, counts are ten times less certain than with a bit for every class
_PRIME = 2**31 - 1  # words that are independent modulo a prime are independent


def choose_code(n_classes: int, hashes: int, bits: int | None) -> tuple[int, tuple[int, ...]]:
    """Return the number of bits and the code word of every class.

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
    """Return the smallest number of bits, from `first` on, that has a code for these classes."""
    for bits in range(max(first, min(n_classes, MAX_BITS + 1)), MAX_BITS + 1):
        if find_words(n_classes, hashes, bits) is not None:
            return bits
    advice = "Merge classes" if hashes == 1 else "Use fewer hashes, or merge classes"
    raise ConfigurationError(
        f"LocalDP(hashes={hashes}): no code of at most {MAX_BITS} bits tells {n_classes} classes "
        f"apart. {advice}: each needs a bit."
    )


@lru_cache(maxsize=256)
def find_words(n_classes: int, hashes: int, bits: int) -> tuple[int, ...] | None:
    """Words of `hashes` set bits each from which counts can be told, or None where there are none.

    Independent words may still be so close to dependence that noise drowns all counts; then the
    classes are hashed anew, with salt.
    """
    if n_classes > bits or (hashes == bits and n_classes > 1):
        return None  # more words than dimensions; or all bits set, a single word
    for salt in range(_MAX_SALTS):
        words = _find_independent(n_classes, hashes, bits, salt)
        if words is not None and mean_variance(membership(words, bits)) <= _MAX_VARIANCE:
            return words
    return None


def _find_independent(n_classes: int, hashes: int, bits: int, salt: int) -> tuple[int, ...] | None:
    words: list[int] = []
    basis = np.zeros((0, bits), np.int64)
    for number in range(n_classes):
        found = _find_word(f"{salt}/{number}", hashes, words, basis)
        if found is None:
            return None
        word, reduced = found
        words.append(word)
        basis = np.vstack([basis, reduced])
    return tuple(words)


def _find_word(
    name: str, hashes: int, others: list[int], basis: NDArray[np.int64]
) -> tuple[int, NDArray[np.int64]] | None:
    """A word of this class that is independent of the others, and what the basis leaves of it."""
    for attempt in range(_MAX_ROUNDS):
        first, bits = attempt * _N_CANDIDATES, basis.shape[1]
        words = [
            hash_word(f"{name}/{k}", hashes, bits) for k in range(first, first + _N_CANDIDATES)
        ]
        words.sort(key=lambda word: sum((word & other).bit_count() ** 2 for other in others))
        for word in words:
            reduced = _reduce(word, basis)
            if reduced.any():
                return word, reduced
    return None


def _reduce(word: int, basis: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the word modulo the prime and the basis, scaled to begin with 1; zero if dependent.

    Every basis row begins with a 1 where later rows have a 0.
    """
    vector = membership([word], basis.shape[1])[:, 0].astype(np.int64)
    for row in basis:
        vector = (vector - vector[np.argmax(row != 0)] * row) % _PRIME
    if not vector.any():
        return vector
    return vector * pow(int(vector[np.argmax(vector != 0)]), -1, _PRIME) % _PRIME


def hash_word(name: str, hashes: int, bits: int) -> int:
    """A word of exactly `hashes` set bits: distinct positions, as a hash of the name says."""
    message = f"bloom code/{name}/{hashes}/{bits}".encode()
    draws = np.frombuffer(shake_256(message).digest(4 * hashes), "<u4")
    positions = list(range(bits))
    word = 0
    for draw in draws:
        word |= 1 << positions.pop(int(draw) % len(positions))
    return word


def membership(words: list[int] | tuple[int, ...], bits: int) -> NDArray[np.float64]:
    """Return (bits, classes): 1.0 where the class has the bit set."""
    columns = np.array(words, np.uint64)
    return ((columns >> np.arange(bits, dtype=np.uint64)[:, None]) & np.uint64(1)).astype(float)


def mean_variance(matrix: NDArray[np.float64]) -> float:
    """Variance of a class's count by least squares, where every bit's count has variance 1."""
    return float(np.linalg.inv(matrix.T @ matrix).trace() / matrix.shape[1])


def largest_distance(words: tuple[int, ...]) -> int:
    """In how many bits two code words differ at most."""
    return max((one ^ other).bit_count() for one in words for other in words)
