"""What fewer shares than the threshold tell, measured. Randomness is seeded.

With other seeds right shares would fail one of these tests about once in 10^7 runs: there are
fewer than 100 comparisons, each a chi-square test that gives a false alarm once in 10^9 cases.
"""

from collections.abc import Iterable
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.masking.keystream import expand
from fedforest.masking.secret_shares import combine, split
from tests.statistical.uniformity import chance_of, chance_of_words

FALSE_ALARM = 1e-9
LENGTH = 2**14
POINTS = [1, 2, 3, 4, 5]


def is_uniform(elements: NDArray[np.uint64]) -> bool:
    """All 61 bits: seven bytes, and the five bits above them."""
    top = np.bincount((elements >> np.uint64(56)).astype(np.int64), minlength=32)
    return min(chance_of_words(elements, 7), chance_of(top, 1)) > FALSE_ALARM


def are_independent(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> bool:
    """Whether the upper four bits of both fill their 256 cells evenly."""
    pairs = ((one >> np.uint64(57)) << np.uint64(4)) | (other >> np.uint64(57))
    return chance_of(np.bincount(pairs.astype(np.int64), minlength=256), 1) > FALSE_ALARM


def share_counts(threshold: int) -> tuple[NDArray[np.int64], dict[int, NDArray[np.uint64]]]:
    secret = np.random.default_rng(2).poisson(0.7, LENGTH).astype(np.int64)
    key = bytes([threshold]) * 32
    return secret, split(secret, threshold, POINTS, lambda n_words: expand(key, n_words))


def some_of(
    shares: dict[int, NDArray[np.uint64]], points: Iterable[int]
) -> dict[int, NDArray[np.uint64]]:
    return {point: shares[point] for point in points}


@pytest.mark.parametrize("threshold", [2, 3, 4])
def test_single_shares_are_uniform_and_as_many_as_are_allowed_are_independent(
    threshold: int,
) -> None:
    _, shares = share_counts(threshold)
    assert all(is_uniform(share) for share in shares.values())
    for one, other in combinations(POINTS, 2):
        assert are_independent(shares[one], shares[other]) == (threshold > 2)


@pytest.mark.parametrize("threshold", [3, 4])
def test_what_too_few_shares_combine_to_is_uniform(threshold: int) -> None:
    secret, shares = share_counts(threshold)
    for points in combinations(POINTS, threshold - 1):
        guess = combine(some_of(shares, points))
        assert is_uniform(np.where(guess < 0, guess + 2**61 - 1, guess).view(np.uint64))
    for points in combinations(POINTS, threshold):
        assert np.array_equal(combine(some_of(shares, points)), secret)


def test_the_measurement_notices_shares_that_are_not_random() -> None:
    secret = np.random.default_rng(2).poisson(0.7, LENGTH).astype(np.int64)
    weak = split(secret, 3, POINTS, lambda n_words: expand(bytes(32), n_words) >> np.uint64(4))
    assert not is_uniform(weak[1])
    assert not is_uniform(secret.view(np.uint64))
