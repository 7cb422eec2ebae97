"""Points as bytes and back: what libsodium reads and writes, no byte more or less."""

import numpy as np
import pytest
import rbcl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedforest.kernels.points.curve import ADDEND_LIMBS, POINT_LIMBS
from fedforest.kernels.points.encoding import decode_addends, decode_points
from tests.reference.ristretto import (
    BAD_ENCODINGS,
    NEUTRAL,
    SCALARS,
    element,
    encode_twice,
    on_curve,
    to_points,
    to_words,
    turn,
)
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=8 if IS_PLAIN_PYTHON else 100)


@EXAMPLES
@given(st.lists(SCALARS, min_size=1, max_size=4))
@example([0])
@example([0, 1, 0])
def test_a_decoded_point_is_on_the_curve_and_its_double_is_libsodiums(scalars: list[int]) -> None:
    points = to_points([element(scalar) for scalar in scalars])
    assert all(on_curve(point) for point in points)
    assert encode_twice(points) == [element(2 * scalar) for scalar in scalars]


@EXAMPLES
@given(SCALARS, st.integers(1, 3))
@example(0, 1)
@example(0, 2)
def test_all_four_points_of_an_element_are_encoded_alike(scalar: int, factor: int) -> None:
    points = turn(to_points([element(scalar)]), factor)
    assert all(on_curve(point) for point in points)
    assert encode_twice(points) == [element(2 * scalar)]


def test_more_points_than_share_an_inversion_are_encoded_in_their_order() -> None:
    n = 3 if IS_PLAIN_PYTHON else 300
    assert encode_twice(to_points([element(k) for k in range(n)])) == [
        element(2 * k) for k in range(n)
    ]


@pytest.mark.parametrize("encoded", BAD_ENCODINGS)
def test_what_the_standard_says_must_be_refused_is_refused(encoded: str) -> None:
    words = to_words([element(5), bytes.fromhex(encoded), element(6)])
    assert decode_points(words, np.empty((3, POINT_LIMBS), np.uint64)) == 1
    assert decode_addends(words, np.empty((3, ADDEND_LIMBS), np.uint64)) == 1


@EXAMPLES
@given(data=st.binary(min_size=32, max_size=32), likely=st.booleans())
@example(data=NEUTRAL, likely=True)
def test_bytes_are_a_point_if_and_only_if_libsodium_says_so(data: bytes, likely: bool) -> None:
    """Among the likely ones every fourth is a point. The highest bit is to be zero (RFC 9496),
    which later versions of libsodium look at; rbcl 1.1 brings 1.0.18.
    """
    if likely:
        data = bytes([data[0] & 0xFE, *data[1:31], data[31] & 0x7F])
    is_point = decode_points(to_words([data]), np.empty((1, POINT_LIMBS), np.uint64)) == -1
    is_valid = rbcl.crypto_core_ristretto255_is_valid_point(data) and data[31] < 0x80
    assert is_point == is_valid
