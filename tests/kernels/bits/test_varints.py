"""Integers in few bytes, against arithmetic on Python's own integers."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedforest.kernels.bits.varints import MAX_VARINT_BYTES, read_varints, write_varints
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=50 if IS_PLAIN_PYTHON else 300)
LIMITS = (0, 1, -1, 63, -64, 64, 2**31, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1)
SHORT = st.integers(-64, 63)  # one byte each
INTEGERS = st.one_of(
    st.lists(st.one_of(st.sampled_from(LIMITS), st.integers(-(2**63), 2**63 - 1))),
    st.lists(st.one_of(SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, st.just(64)), max_size=40),
)


def encode(value: int) -> bytes:
    """The slow, obvious form."""
    word = 2 * value if value >= 0 else -2 * value - 1
    digits = []
    while True:
        word, digit = divmod(word, 128)
        digits.append(digit)
        if word == 0:
            return bytes([*(digit + 128 for digit in digits[:-1]), digits[-1]])


def write(values: list[int]) -> bytes:
    out = np.zeros(len(values) * MAX_VARINT_BYTES, np.uint8)
    return out[: write_varints(np.array(values, np.int64), out)].tobytes()


def read(data: bytes, n_values: int) -> list[int] | None:
    values = np.zeros(n_values, np.int64)
    is_right = read_varints(np.frombuffer(bytearray(data), np.uint8), values)
    return values.tolist() if is_right else None


@EXAMPLES
@given(INTEGERS)
@example([*LIMITS])
@example([*range(-64, 64), 64, *range(20)])
def test_integers_are_written_as_arithmetic_says_and_read_back(values: list[int]) -> None:
    data = write(values)
    assert data == b"".join(encode(value) for value in values)
    assert read(data, len(values)) == values


@EXAMPLES
@given(INTEGERS, st.integers(1, 3))
def test_bytes_left_over_or_missing_are_noticed(values: list[int], n_more: int) -> None:
    data = write(values)
    assert read(data, len(values) + n_more) is None
    assert read(data + b"\0" * n_more, len(values)) is None
    if values:
        assert read(data[:-1], len(values)) is None


@EXAMPLES
@given(st.binary(max_size=30), st.integers(0, 20))
def test_any_bytes_are_read_without_harm(data: bytes, n_values: int) -> None:
    values = read(data, n_values)
    assert values is None or len(values) == n_values


@pytest.mark.parametrize("data", [b"\xff" * 10, b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x01"])
def test_an_integer_of_more_than_64_bits_is_refused(data: bytes) -> None:
    assert read(data, 1) is None
    assert read(b"\xff" * 9 + b"\x01", 1) == [-(2**63)]


@pytest.mark.parametrize("data", [b"\x80\x00", b"\x81\x00", b"\xff\x80\x00"])
def test_a_longer_form_than_needed_is_refused(data: bytes) -> None:
    """Equal integers have equal bytes: nothing can be hidden in their form."""
    assert read(data, 1) is None
