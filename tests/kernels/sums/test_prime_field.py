"""Arithmetic modulo 2^61 - 1, against Python's own integers."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.sums.prime_field import PRIME, add, add_multiple, add_to, evaluate, multiply
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=100 if IS_PLAIN_PYTHON else 500)
LIMITS = (
    *(0, 1, 2, PRIME - 1, PRIME - 2, PRIME // 2, PRIME // 2 + 1),
    *(2**29 - 1, 2**29, 2**32 - 1, 2**32, 2**60, 2**61 - 2**32, 2**61 - 2**29),
)
ELEMENTS = st.one_of(st.sampled_from(LIMITS), st.integers(0, PRIME - 1))
VECTORS = st.lists(ELEMENTS, max_size=6)


def to_array(elements: list[int]) -> NDArray[np.uint64]:
    return np.array(elements, np.uint64)


def test_the_modulus_is_prime() -> None:
    """Lucas and Lehmer: 2^p - 1 is prime if and only if it divides this number."""
    number = 4
    for _ in range(61 - 2):
        number = (number * number - 2) % PRIME
    assert number == 0


@EXAMPLES
@given(ELEMENTS, ELEMENTS)
@example(PRIME - 1, PRIME - 1)
def test_sums_and_products_are_those_of_integers(a: int, b: int) -> None:
    assert int(add(np.uint64(a), np.uint64(b))) == (a + b) % PRIME
    assert int(multiply(np.uint64(a), np.uint64(b))) == a * b % PRIME


@pytest.mark.parametrize("a", LIMITS)
@pytest.mark.parametrize("b", LIMITS)
def test_products_of_limits_are_those_of_integers(a: int, b: int) -> None:
    assert int(multiply(np.uint64(a), np.uint64(b))) == a * b % PRIME


@EXAMPLES
@given(st.data(), st.integers(0, 4), st.integers(0, 4), ELEMENTS)
def test_polynomials_have_the_values_of_integer_polynomials(
    data: st.DataObject, degree: int, n_polynomials: int, point: int
) -> None:
    rows = st.lists(ELEMENTS, min_size=n_polynomials, max_size=n_polynomials)
    constants = data.draw(rows)
    higher = data.draw(st.lists(rows, min_size=degree, max_size=degree))
    values = np.full(n_polynomials, 77, np.uint64)
    coefficients = np.array(higher, np.uint64).reshape(degree, n_polynomials)
    evaluate(to_array(constants), coefficients, np.uint64(point), values)
    assert values.tolist() == [
        (constants[i] + sum(higher[j][i] * point ** (j + 1) for j in range(degree))) % PRIME
        for i in range(n_polynomials)
    ]


@EXAMPLES
@given(VECTORS, ELEMENTS)
def test_vectors_are_added_element_by_element(elements: list[int], factor: int) -> None:
    totals = to_array(elements[::-1])
    add_to(totals, to_array(elements))
    sums = [(a + b) % PRIME for a, b in zip(elements, elements[::-1], strict=True)]
    assert totals.tolist() == sums
    add_multiple(totals, to_array(elements), np.uint64(factor))
    assert totals.tolist() == [
        (a + factor * b) % PRIME for a, b in zip(sums, elements, strict=True)
    ]
