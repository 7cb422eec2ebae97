"""Shares: a threshold of them gives the secret back, fewer fit every secret equally well."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.kernels.sums.prime_field import PRIME
from fedforest.masking.secret_shares import LARGEST, combine, split, sum_shares

LIMITS = st.sampled_from([0, 1, -1, LARGEST, -LARGEST])
NUMBERS = st.one_of(LIMITS, st.integers(-LARGEST, LARGEST))
POINTS = st.lists(
    st.one_of(st.integers(1, 20), st.sampled_from([PRIME - 1, 2**32]), st.integers(1, PRIME - 1)),
    min_size=2,
    max_size=6,
    unique=True,
)
SEEDS = st.integers(0, 2**32 - 1)


def random_words(seed: int) -> Callable[[int], NDArray[np.uint64]]:
    rng = np.random.default_rng(seed)
    return lambda n_words: rng.integers(0, 2**64, n_words, np.uint64)


def words_for(elements: Sequence[int]) -> Callable[[int], NDArray[np.uint64]]:
    """Words from which these elements are drawn, then zeros."""
    words = np.array(elements, np.uint64) << np.uint64(3)
    return lambda n_words: np.concatenate([words, np.zeros(n_words, np.uint64)])[:n_words]


def interpolate(values: dict[int, int], at: int) -> int:
    """The polynomial through these (point, value) pairs, elsewhere: Lagrange, by the book."""
    total = 0
    for i, value in values.items():
        for j in values.keys() - {i}:
            inverse: int = pow(i - j, -1, PRIME)
            value = value * (at - j) * inverse % PRIME  # noqa: PLW2901 - a product
        total += value
    return total % PRIME


@settings(max_examples=60)
@given(st.lists(NUMBERS, max_size=5), POINTS, st.data(), SEEDS)
def test_every_threshold_of_shares_gives_the_secret_back(
    secret: list[int], points: list[int], data: st.DataObject, seed: int
) -> None:
    threshold = data.draw(st.integers(2, len(points)))
    shares = split(np.array(secret, np.int64), threshold, points, random_words(seed))
    assert list(shares) == points
    for n_shares in range(threshold, len(points) + 1):
        for some in combinations(points, n_shares):
            combined = combine({point: shares[point] for point in some})
            assert combined.dtype == np.int64
            assert combined.tolist() == secret


@settings(max_examples=60)
@given(NUMBERS, NUMBERS, st.integers(2, 5), SEEDS)
def test_fewer_shares_fit_any_other_secret_equally_well(
    secret: int, other: int, threshold: int, seed: int
) -> None:
    """Whatever fewer shares show, exactly one draw of coefficients shows it for another secret."""
    points = list(range(1, threshold + 1))
    shares = split(np.array([secret]), threshold, points, random_words(seed))
    known = {point: int(shares[point][0]) for point in points[:-1]}
    last = interpolate({0: other % PRIME, **known}, at=points[-1])
    coefficients = to_coefficients({0: other % PRIME, **known}, threshold)
    again = split(np.array([other]), threshold, points, words_for(coefficients))
    assert {point: int(share[0]) for point, share in again.items()} == {**known, threshold: last}


def to_coefficients(values: dict[int, int], n_coefficients: int) -> list[int]:
    """Coefficients of powers 1 and up of the polynomial through these (point, value) pairs."""
    total = [0] * n_coefficients
    for i, value in values.items():
        product = [value]
        for j in values.keys() - {i}:
            inverse = pow(i - j, -1, PRIME)
            shifted, scaled = [0, *product], [-j * c for c in product] + [0]
            product = [(a + b) * inverse % PRIME for a, b in zip(shifted, scaled, strict=True)]
        total = [(a + b) % PRIME for a, b in zip(total, product, strict=True)]
    return total[1:]


@settings(max_examples=60)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=4), st.integers(2, 4), SEEDS)
def test_added_shares_are_shares_of_the_sum(
    summands: list[tuple[int, int]], threshold: int, seed: int
) -> None:
    halves = np.array(summands, np.int64) // (2 * len(summands))  # so that sums stay in range
    words = random_words(seed)
    given_out = [split(half, threshold, [1, 2, 3, 4], words) for half in halves]
    sums = {point: sum_shares([shares[point] for shares in given_out]) for point in (4, 2, 3, 1)}
    some = {point: sums[point] for point in list(sums)[:threshold]}
    assert combine(some).tolist() == halves.sum(axis=0).tolist()


def test_an_unusable_word_is_passed_over() -> None:
    """The one value of 61 bits that is no element would make zero twice as likely as others."""
    words = words_for([PRIME, 5, PRIME, 7, 9])
    shares = split(np.array([0, 0]), 2, [1, 2], words)
    assert {point: share.tolist() for point, share in shares.items()} == {1: [5, 7], 2: [10, 14]}


def test_words_are_asked_for_once() -> None:
    """A stream that starts anew at every call must not give the same words twice."""
    calls = []

    def words(n_words: int) -> NDArray[np.uint64]:
        calls.append(n_words)
        return random_words(3)(n_words)

    split(np.arange(10), 4, range(1, 8), words)
    assert len(calls) == 1
    assert 30 <= calls[0] <= 40


def share_out(
    secret: Sequence[int] = (1, 2), threshold: int = 2, points: Sequence[int] = (1, 2, 3)
) -> object:
    return split(np.array(secret, np.int64), threshold, points, random_words(0))


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: share_out([LARGEST + 1]), "below 2\\^60"),
        (lambda: share_out([-LARGEST - 1]), "below 2\\^60"),
        (lambda: share_out([-(2**63)]), "below 2\\^60"),
        (lambda: share_out(threshold=1), "from 2 to the number of shares"),
        (lambda: share_out(threshold=0), "from 2 to the number of shares"),
        (lambda: share_out(threshold=4), "from 2 to the number of shares, 3; it is 4"),
        (lambda: share_out(points=[1, 2, 1]), "each named once"),
        (lambda: share_out(points=[1]), "two points or more"),
        (lambda: share_out(points=[0, 1]), "the secret itself"),
        (lambda: share_out(points=[1, PRIME]), "from 1 to"),
        (lambda: share_out(points=[1, -1]), "from 1 to"),
        (lambda: split(np.arange(2.0), 2, [1, 2], random_words(0)), "int64 was expected"),  # type: ignore[arg-type]
        (lambda: split(np.arange(2), 2, [1, 2], lambda n: np.zeros(n - 1, np.uint64)), "gave"),
        (
            lambda: split(np.arange(2), 2, [1, 2], lambda n: np.full(n, 2**64 - 1, np.uint64)),
            "is not random",
        ),
        (lambda: combine({}), "two points or more"),
        (lambda: combine({1: np.zeros(2, np.uint64)}), "two points or more"),
        (lambda: combine({1: np.zeros(2, np.uint64), 0: np.zeros(2, np.uint64)}), "from 1 to"),
        (lambda: combine({1: np.zeros(2, np.uint64), 2: np.zeros(3, np.uint64)}), "fit together"),
        (lambda: combine({1: np.zeros(2, np.uint64), 2: np.zeros(2, np.int64)}), "uint64"),
        (lambda: combine({1: np.zeros(1, np.uint64), 2: np.array([PRIME], np.uint64)}), "outside"),
        (lambda: combine({1: np.zeros(1, np.uint64), 2: np.zeros(1, np.uint64)}, -1), "at most"),
        (lambda: sum_shares([]), "no shares"),
        (lambda: sum_shares([np.full(1, 2**61 - 1, np.uint64)]), "outside the field"),
    ],
)
def test_what_cannot_be_shared_or_combined_is_refused(
    mistake: Callable[[], object], message: str
) -> None:
    with pytest.raises(MaskingError, match=message):
        mistake()


def test_too_few_or_foreign_shares_are_noticed_by_the_size_of_what_they_give() -> None:
    """Each number is random: 20 of them stay below 2^30 once in 10^180 cases."""
    secret = np.arange(20)
    shares = split(secret, 3, [1, 2, 3, 4], random_words(1))
    foreign = split(secret, 3, [1, 2, 3, 4], random_words(2))
    enough = {point: shares[point] for point in (1, 2, 4)}
    assert combine(enough, largest=19).tolist() == secret.tolist()
    for wrong in ({1: shares[1], 2: shares[2]}, {**enough, 4: foreign[4]}):
        with pytest.raises(MaskingError, match="too few of them, or they do not belong"):
            combine(wrong, largest=2**30)
    with pytest.raises(MaskingError, match="a sum grew too large"):
        combine(enough, largest=18)
