"""Small multiples are found from the lowest to the highest that is looked for, and no others."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedforest.kernels.points.curve import ADDEND_LIMBS
from fedforest.kernels.points.logarithms import NOT_FOUND, fill_steps, find_logarithms
from tests.reference.ristretto import ORDER, element, to_points, turn
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=3 if IS_PLAIN_PYTHON else 60)


def find(numbers: list[int], n_small: int, up: list[int], down: list[int], turns: int) -> list[int]:
    slots = np.zeros((2 << (2 * n_small + 1).bit_length(), 2), np.uint64)
    checks, leaps = np.zeros(n_small + 1, np.uint64), np.zeros((2, ADDEND_LIMBS), np.uint64)
    fill_steps(to_points([element(1)]), slots, checks, leaps)
    points = turn(to_points([element(number) for number in numbers]), turns)
    found = np.empty(len(numbers), np.int64)
    find_logarithms(points, np.array(up), np.array(down), (slots, checks), leaps, found)
    listed: list[int] = found.tolist()
    return listed


@EXAMPLES
@given(
    st.integers(1, 4 if IS_PLAIN_PYTHON else 300),
    st.lists(
        st.tuples(st.integers(-9, 9), st.integers(-2, 2), st.integers(0, 3), st.integers(0, 3)),
        min_size=1,
        max_size=3 if IS_PLAIN_PYTHON else 40,
    ),
    st.integers(0, 3),
)
@example(1, [(0, 0, 0, 0)], 1)
@example(2, [(1, 1, 1, 0), (1, -1, 0, 1), (1, -2, 3, 0)], 0)
def test_numbers_within_the_leaps_are_found_and_others_are_not(
    n_small: int, cases: list[tuple[int, int, int, int]], turns: int
) -> None:
    """Numbers lie around the ends of what few leaps reach."""
    stride = 2 * n_small + 1
    numbers = [around * stride // 2 + beside for around, beside, _, _ in cases]
    up, down = ([case[k] for case in cases] for k in (2, 3))
    expected = [
        number if -n_small - stride * less <= number <= n_small + stride * more else NOT_FOUND
        for number, more, less in zip(numbers, up, down, strict=True)
    ]
    assert find(numbers, n_small, up, down, turns) == expected


def test_large_and_random_multiples_are_not_found() -> None:
    assert find([2**40, ORDER // 2, 2**251 + 12345], 3, [2] * 3, [2] * 3, 0) == [NOT_FOUND] * 3
