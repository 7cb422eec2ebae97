"""Answers of rows have the law that their tables say, whether few rows answer, some or very many.

Chi-square tests with fixed keys: under other keys a right sampler would fail one of them about once
in 20,000 runs (fewer than fifty tests at 10^-6 each).
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fedforest.kernels.jit import kernel
from fedforest.kernels.noise.answers import DRAWS_WORTH_IT, answer_at_random, place_fraction
from fedforest.kernels.noise.chacha import next_half, open_stream
from fedforest.privacy.answer_laws import MOST_ROWS, tabulate_answers
from tests.reference.answers import chances_up_to, place
from tests.strategies import IS_PLAIN_PYTHON, SEEDS

N_EXAMPLES = 10 if IS_PLAIN_PYTHON else 100
N_DRAWS = 200 if IS_PLAIN_PYTHON else 300_000
FALSE_ALARM = 1e-6
REACH = DRAWS_WORTH_IT * MOST_ROWS  # rows up to which tables answer
SIZES = [(1, 0), (1, 1), (5, 2), (MOST_ROWS, 7), (MOST_ROWS + 1, 17), (40, 10), (REACH, 300)]


@kernel
def place_first(stream: Any, chances: Any) -> Any:
    """The place of the first fraction of a stream."""
    return place_fraction(stream, next_half(stream), chances, 0, chances.shape[1])


@kernel
def read_halves(stream: Any, halves: Any) -> None:
    for i in range(halves.shape[0]):
        halves[i] = next_half(stream)


def halves_of(key: bytes, count: int) -> list[int]:
    halves = np.empty(count, np.uint32)
    read_halves(open_stream(key), halves)
    return [int(half) for half in halves]


def as_fraction(halves: list[int]) -> Fraction:
    return sum((Fraction(half, 2 ** (32 * i)) for i, half in enumerate(halves, 1)), Fraction(0))


def answer(n: int, ones: list[int], p: float, q: float, key: bytes) -> NDArray[np.int64]:
    """Many answers of n rows, bit by bit."""
    sums = np.tile(np.array([*ones, n], np.int64), (N_DRAWS, 1))
    assert answer_at_random(sums, tabulate_answers(p, q), open_stream(key))
    assert (sums[:, -1] == n).all()
    return sums[:, :-1]


def chi_square(draws: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    """How likely such draws are, or worse; numbers expected less than ten times count as one."""
    expected = np.diff(chances, prepend=0.0) * len(draws)
    is_common = expected >= 10
    observed = np.bincount(draws, minlength=len(expected))
    cells = [*observed[is_common], observed[~is_common].sum()]
    means = [*expected[is_common], expected[~is_common].sum()]
    kept = [i for i, mean in enumerate(means) if mean > 1e-3]
    if len(kept) == 1:
        return 1.0
    ratio = sum(cells[i] for i in kept) / sum(means[i] for i in kept)
    return float(stats.chisquare([cells[i] for i in kept], [means[i] * ratio for i in kept]).pvalue)


def law(n: int, ones: int, p: float, q: float) -> NDArray[np.float64]:
    """Chances of at most 0, 1, 2, ... ones, by scipy."""
    of_set, of_clear = stats.binom(ones, p), stats.binom(n - ones, q)
    chances = np.convolve(of_set.pmf(range(ones + 1)), of_clear.pmf(range(n - ones + 1)))
    return np.asarray(chances.cumsum())


@given(SEEDS, st.data())
@settings(max_examples=N_EXAMPLES)
def test_a_fraction_is_compared_as_far_as_it_takes(seed: int, data: st.DataObject) -> None:
    """Chances that agree with the fraction in any number of words, and then do not, or end."""
    key = seed.to_bytes(32, "little")
    halves, n_words = halves_of(key, 8), 4
    after = st.sampled_from([0, 1, 2**31, 2**32 - 1])
    chances = []
    for _ in range(data.draw(st.integers(0, 6))):
        n_equal = data.draw(st.integers(0, n_words))
        chances.append(halves[:n_equal] + [data.draw(after) for _ in range(n_words - n_equal)])
    chances.sort()
    words = np.array(chances, np.uint32).reshape(-1, n_words).T.copy()
    expected = place(as_fraction(halves), [as_fraction(chance) for chance in chances])
    assert place_first(open_stream(key), words) == expected


@given(SEEDS, st.sampled_from([(0.9, 0.1), (0.75, 0.25), (1.0, 0.0), (0.6, 1e-5)]), st.data())
@settings(max_examples=N_EXAMPLES)
def test_a_few_rows_answer_what_the_next_fraction_says(
    seed: int, probabilities: tuple[float, float], data: st.DataObject
) -> None:
    n = data.draw(st.integers(0, 12))
    ones = data.draw(st.lists(st.integers(0, n), min_size=1, max_size=5))
    key = seed.to_bytes(32, "little")
    sums = np.array([[*ones, n]], np.int64)
    assert answer_at_random(sums, tabulate_answers(*probabilities), open_stream(key))
    fractions = [Fraction(half, 2**32) for half in halves_of(key, len(ones))]
    laws = [chances_up_to(n, one, *probabilities) for one in ones]
    # no chance begins with these very halves, or the seed would be a very rare one
    assert sums[0].tolist() == [*map(place, fractions, laws), n]


@pytest.mark.parametrize(("n", "ones"), [*SIZES, (REACH + 1, 100), (10**5, 10**4)])
@pytest.mark.parametrize(("p", "q"), [(0.9, 0.1), (0.7, 1 / 3)])
def test_answers_follow_the_law_of_both_kinds_of_rows(
    n: int, ones: int, p: float, q: float
) -> None:
    draws = answer(n, [ones], p, q, np.array([n, 1e6 * p], "<i8").tobytes() * 2)[:, 0]
    assert draws.min() >= 0
    assert draws.max() <= n
    assert chi_square(draws, law(n, ones, p, q)) > FALSE_ALARM


@pytest.mark.skipif(IS_PLAIN_PYTHON, reason="needs more draws than plain Python can make")
@pytest.mark.parametrize(("n", "ones"), [(5, 5), (16, 8), (40, 10), (512, 300)])
def test_a_probability_that_is_off_by_one_percent_is_noticed(n: int, ones: int) -> None:
    draws = answer(n, [ones], 0.9 * 1.01, 0.1, b"f" * 32)[:, 0]
    assert chi_square(draws, law(n, ones, 0.9, 0.1)) < FALSE_ALARM


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_bits_are_answered_independently(n: int) -> None:
    noisy = answer(n, [3 * n // 10, 7 * n // 10], 0.75, 0.2, b"q" * 32)
    for bit, count in enumerate((3 * n // 10, 7 * n // 10)):
        mean = 0.75 * count + 0.2 * (n - count)
        variance = 0.75 * 0.25 * count + 0.2 * 0.8 * (n - count)
        error = abs(noisy[:, bit].mean() - mean) / np.sqrt(variance / N_DRAWS)
        assert error < 5
        assert noisy[:, bit].var() == pytest.approx(variance, rel=8 / np.sqrt(N_DRAWS))
    correlation = stats.pearsonr(noisy[:, 0], noisy[:, 1]).statistic
    assert abs(correlation) < 5 / np.sqrt(N_DRAWS)


def test_certain_answers_need_no_luck() -> None:
    for n in (0, 5, 16, 70, REACH + 1, 10**6):
        sums = np.array([[n, 0, n // 2, n]], np.int64)
        assert answer_at_random(sums, tabulate_answers(1.0, 0.0), open_stream(bytes(32)))
        assert sums.tolist() == [[n, 0, n // 2, n]]


@pytest.mark.parametrize("sums", [[[0, 6, 5]], [[-1, 0, 5]], [[0, 0, 3], [0, 0, -1]]])
def test_sums_that_no_rows_can_have_are_told(sums: list[list[int]]) -> None:
    laws = tabulate_answers(0.9, 0.1)
    assert not answer_at_random(np.array(sums, np.int64), laws, open_stream(bytes(32)))
