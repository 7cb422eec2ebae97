"""Numbers are cut into digits whose sums stay small enough to be searched, and come back whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ConfigurationError, MaskingError
from fedforest.masking.homomorphic.summands import LARGEST_DIGIT, LARGEST_SUM, Summands

SUMMANDS = st.builds(
    Summands,
    n_numbers=st.integers(1, 3),
    lowest=st.one_of(st.just(0), st.integers(-(2**40), 0)),
    highest=st.one_of(st.just(1), st.integers(1, 2**40)),
    most_rows=st.one_of(st.integers(1, 2**20), st.just(1)),
)


@given(SUMMANDS, st.data())
def test_sums_of_digits_make_the_sums_of_numbers(summands: Summands, data: st.DataObject) -> None:
    ends = st.sampled_from([summands.lowest, summands.highest])
    number = st.one_of(ends, st.integers(summands.lowest, summands.highest))
    row = st.lists(number, min_size=summands.n_numbers, max_size=summands.n_numbers)
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    numbers = np.array(rows, np.int64)
    digits = summands.split(numbers)
    assert digits.shape == (len(rows), summands.n_keys)
    assert summands.join(digits).tolist() == rows
    assert summands.join(digits.sum(axis=0)[None]).tolist() == [numbers.sum(axis=0).tolist()]


@given(SUMMANDS, st.data())
def test_every_digit_is_in_its_range_and_small_enough_to_be_summed(
    summands: Summands, data: st.DataObject
) -> None:
    number = data.draw(st.integers(summands.lowest, summands.highest))
    digits = summands.split(np.full((1, summands.n_numbers), number, np.int64))[0]
    for place, digit in enumerate(digits.tolist()):
        low, high = summands.digit_range(place % summands.n_digits)
        assert low <= digit <= high
        assert max(-low, high) <= LARGEST_DIGIT
        assert max(-low, high) * summands.most_rows <= LARGEST_SUM


def test_marks_of_classes_are_one_digit_from_zero_to_one() -> None:
    summands = Summands(n_numbers=9, lowest=0, highest=1, most_rows=1_000_000)
    assert (summands.n_digits, summands.n_keys, summands.digit_range(0)) == (1, 9, (0, 1))


@pytest.mark.parametrize(
    ("most_rows", "size"), [(1, 9), (15, 6), (255, 3), (256, 2), (4095, 2), (4096, 1), (50_000, 1)]
)
def test_counts_of_fewer_rows_are_packed_more_to_a_plaintext(most_rows: int, size: int) -> None:
    summands = Summands(n_numbers=9, lowest=0, highest=1, most_rows=50_000)
    packing = summands.packing(most_rows)
    assert packing.size == size
    assert most_rows < 2**packing.bits
    assert [key for group in packing.group(9) for key in group] == list(range(9))


def test_digits_and_numbers_that_may_be_negative_are_not_packed() -> None:
    assert Summands(3, -1, 1, 100).packing(1).size == 1
    assert Summands(3, 0, 2**30, 100).packing(1).size == 1


@pytest.mark.parametrize(("n_rows", "n_digits"), [(5_000, 3), (100_000, 4), (2**20, 6)])
def test_numbers_of_forty_bits_take_more_digits_the_more_rows_are_summed(
    n_rows: int, n_digits: int
) -> None:
    assert Summands(1, -(2**39), 2**39 - 1, n_rows).n_digits == n_digits


@pytest.mark.parametrize(
    ("n_numbers", "lowest", "highest", "most_rows"),
    [
        (0, 0, 1, 1),
        (1, 1, 2, 1),
        (1, 0, 0, 1),
        (1, 0, 1, 0),
        (1, 0, 2**50, 2**12),
        (1, 0, 1, 2**27),
    ],
)
def test_summands_that_make_no_sense_or_sums_too_large_are_refused(
    n_numbers: int, lowest: int, highest: int, most_rows: int
) -> None:
    with pytest.raises(ConfigurationError, match="sums"):
        Summands(n_numbers, lowest, highest, most_rows)


@pytest.mark.parametrize("numbers", [[[2, 0]], [[-1, 0]], [[0]], [0, 1]])
def test_numbers_of_another_shape_or_range_are_not_encrypted(numbers: list[list[int]]) -> None:
    with pytest.raises(MaskingError):
        Summands(2, 0, 1, 5).split(np.array(numbers, np.int64))
