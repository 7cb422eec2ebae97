"""Arithmetic modulo 2^255 - 19, against Python's own integers."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedforest.kernels.points.field import (
    PRIME,
    add,
    inverse_root,
    invert,
    invert_all,
    is_negative,
    is_zero,
    multiply,
    negate,
    reduce,
    square,
    subtract,
    to_limbs,
)
from tests.reference.ristretto import to_number
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=30 if IS_PLAIN_PYTHON else 300)
FEW = settings(max_examples=8 if IS_PLAIN_PYTHON else 100)
LIMITS = (0, 1, 2, 18, 19, PRIME - 1, PRIME - 2, PRIME - 19, 2**51 - 1, 2**51, 2**254, PRIME // 2)
NUMBERS = st.one_of(st.sampled_from(LIMITS), st.integers(0, PRIME - 1))
LOOSE = st.tuples(*[st.one_of(st.just(2**54 - 1), st.integers(0, 2**54 - 1))] * 5)


@EXAMPLES
@given(NUMBERS, NUMBERS)
@example(PRIME - 1, PRIME - 1)
def test_sums_differences_and_products_are_those_of_integers(a: int, b: int) -> None:
    one, other = to_limbs(a), to_limbs(b)
    assert to_number(add(one, other)) == (a + b) % PRIME
    assert to_number(subtract(one, other)) == (a - b) % PRIME
    assert to_number(negate(one)) == -a % PRIME
    assert to_number(multiply(one, other)) == a * b % PRIME
    assert to_number(square(one)) == a * a % PRIME


@EXAMPLES
@given(LOOSE, LOOSE)
@example((2**54 - 1,) * 5, (2**54 - 1,) * 5)
def test_products_of_the_largest_limbs_allowed_are_right_and_tight(
    a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    one, other = (tuple(map(np.uint64, each)) for each in (a, b))
    number_a, number_b = to_number(one), to_number(other)
    for product, expected in [
        (multiply(one, other), number_a * number_b),
        (square(one), number_a * number_a),
    ]:
        assert to_number(product) == expected % PRIME
        assert max(map(int, product)) < 2**51 + 2**13


@EXAMPLES
@given(LOOSE)
@example((2**51 - 19, *[2**51 - 1] * 4))
@example((2**51 - 20, *[2**51 - 1] * 4))
@example((2**51 - 1,) * 5)
@example((2**52 - 38, *[2**52 - 2] * 4))
def test_every_form_of_a_number_is_reduced_to_the_one_below_the_prime(a: tuple[int, ...]) -> None:
    element = tuple(map(np.uint64, a))
    number = to_number(element)
    assert tuple(map(int, reduce(element))) == tuple(map(int, to_limbs(number)))
    assert bool(is_zero(element)) == (number == 0)
    assert bool(is_negative(element)) == (number % 2 == 1)


@FEW
@given(NUMBERS)
@example(0)
def test_the_inverse_times_the_number_is_one_and_zero_has_inverse_zero(a: int) -> None:
    assert to_number(invert(to_limbs(a))) == (pow(a, -1, PRIME) if a else 0)


@FEW
@given(NUMBERS)
@example(1)
@example(PRIME - 1)
def test_an_inverse_root_is_found_if_and_only_if_there_is_one(a: int) -> None:
    has_root, root = inverse_root(to_limbs(a))
    assert bool(has_root) == (pow(a, (PRIME - 1) // 2, PRIME) == 1)
    if has_root:
        found = to_number(root)
        assert found * found * a % PRIME == 1
        assert found % 2 == 0


@FEW
@given(st.lists(NUMBERS, min_size=1, max_size=5))
@example([0, 0])
@example([0, 5, 0, PRIME - 1, 0])
def test_a_batch_is_inverted_as_one_by_one_and_zeros_disturb_no_other(numbers: list[int]) -> None:
    elements = np.array([to_limbs(number) for number in numbers], np.uint64)
    invert_all(elements, np.empty_like(elements))
    inverses = [to_number(element) for element in elements]
    assert inverses == [pow(number, -1, PRIME) if number else 0 for number in numbers]
