"""Tables of integers in few bits, against texts of zeros and ones."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.bits.short_codes import (
    MAX_WIDTH,
    ZEROS_APART,
    choose_widths,
    read_codes,
    write_codes,
)
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=40 if IS_PLAIN_PYTHON else 300)
MOST = 2**62
LIMITS = (0, 1, -1, 2, 63, -64, 2**31, -(2**40), MOST, -MOST)
INTEGERS = st.one_of(st.sampled_from(LIMITS), st.integers(0, 9), st.integers(-MOST, MOST))
ROWS = st.integers(0, 4).flatmap(
    lambda n: st.lists(st.lists(INTEGERS, min_size=n, max_size=n), min_size=1, max_size=6)
)


def spell(value: int, width: int, *, zeros_apart: bool) -> str:
    """The slow, obvious form."""
    word = 2 * value if value >= 0 else -2 * value - 1
    if zeros_apart and word == 0:
        return "0"
    word -= zeros_apart
    high = f"{(word >> width) + 1:b}"
    low = f"{word % 2**width:0{width}b}"[::-1] if width else ""
    return "1" * zeros_apart + "0" * (len(high) - 1) + high + low


def pack(text: str) -> bytes:
    padded = text + "0" * (-len(text) % 8)
    return bytes(int(padded[k : k + 8][::-1], 2) for k in range(0, len(padded), 8))


def table(rows: list[list[int]]) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(len(rows), -1)


def write(rows: list[list[int]], widths: NDArray[np.uint8]) -> bytes:
    out = np.zeros(20 * max(1, table(rows).size), np.uint8)
    return out[: write_codes(table(rows), widths, out)].tobytes()


def read(data: bytes, widths: NDArray[np.uint8], n_rows: int) -> list[list[int]] | None:
    values = np.zeros((n_rows, len(widths)), np.int64)
    is_right = read_codes(np.frombuffer(bytearray(data), np.uint8), widths, values)
    return values.tolist() if is_right else None


@EXAMPLES
@given(ROWS, st.data())
@example([list(LIMITS)], None)
def test_integers_are_written_as_spelled_and_read_back(
    rows: list[list[int]], data: st.DataObject | None
) -> None:
    widths = np.zeros(len(rows[0]), np.uint8)
    if data is not None:
        width = st.integers(0, MAX_WIDTH + ZEROS_APART)
        widths[:] = data.draw(st.lists(width, min_size=len(widths), max_size=len(widths)))
    text = "".join(
        spell(value, int(width) % ZEROS_APART, zeros_apart=bool(width >= ZEROS_APART))
        for row in rows
        for value, width in zip(row, widths, strict=True)
    )
    written = write(rows, widths)
    assert written == pack(text)
    assert read(written, widths, len(rows)) == rows


@EXAMPLES
@given(ROWS)
def test_the_room_that_chosen_widths_ask_for_is_enough(rows: list[list[int]]) -> None:
    widths = np.zeros(len(rows[0]), np.uint8)
    n_bits = int(choose_widths(table(rows), widths))
    written = write(rows, widths)
    assert 8 * (len(written) - 1) < n_bits or not written
    assert n_bits <= 8 * len(written) + 2 * table(rows).size


@pytest.mark.parametrize(
    ("column", "width"),
    [
        ([0] * 9, 0),
        ([0, -1, 0, 0, -1, 0, 0, 0], 0),
        ([2**20 + k for k in range(9)], 22),
        ([0, 2**20] * 9, ZEROS_APART + 22),
    ],
)
def test_widths_fit_the_integers_of_a_column(column: list[int], width: int) -> None:
    widths = np.zeros(1, np.uint8)
    choose_widths(np.array(column, np.int64)[:, None], widths)
    assert widths.tolist() == [width]


@EXAMPLES
@given(ROWS, st.integers(1, 3))
def test_bytes_left_over_or_missing_are_noticed(rows: list[list[int]], n_more: int) -> None:
    widths = np.zeros(len(rows[0]), np.uint8)
    choose_widths(table(rows), widths)
    data = write(rows, widths)
    assert read(data + b"\0" * n_more, widths, len(rows)) is None
    if data:
        assert read(data[:-1], widths, len(rows)) is None


@EXAMPLES
@given(st.binary(max_size=30), st.lists(st.integers(0, MAX_WIDTH + ZEROS_APART), max_size=4))
def test_any_bytes_are_read_without_harm_and_in_one_form_only(
    data: bytes, given_widths: list[int]
) -> None:
    widths = np.array(given_widths, np.uint8)
    values = read(data, widths, 2)
    if values is not None and all(abs(value) <= MOST for row in values for value in row):
        assert write(values, widths) == data
