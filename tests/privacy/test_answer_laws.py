"""Tables of answers hold the exact law to the last bit, and bytes decide only what they may."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.kernels.noise.answers import UNDECIDED, AnswerLaws
from fedforest.privacy.answer_laws import MOST_ROWS, tabulate_answers
from tests.reference.answers import chances_up_to, place

PROBABILITIES = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 0.1, 0.9, 0.75, 1e-9, 1e-300, 1 - 2**-53, 5e-324]),
    st.floats(0.0, 1.0),
)


def read_law(laws: AnswerLaws, n: int, ones: int) -> list[Fraction]:
    """The chances of a law, as fractions."""
    law = n * (n + 1) // 2 + ones
    first, last = int(laws.start[law]), int(laws.start[law + 1])
    words = laws.chances[:, first:last].astype(object)
    places = range(32, 32 * (len(words) + 1), 32)
    return [
        sum((Fraction(int(w), 2**at) for w, at in zip(column, places, strict=True)), Fraction(0))
        for column in words.T
    ]


@given(PROBABILITIES, PROBABILITIES, st.data())
@settings(max_examples=60, deadline=None)
def test_chances_are_exact_and_end_before_certainty(
    if_set: float, if_clear: float, data: st.DataObject
) -> None:
    laws = tabulate_answers(if_set, if_clear)
    n = data.draw(st.integers(0, laws.most))
    ones = data.draw(st.integers(0, n))
    expected = [chance for chance in chances_up_to(n, ones, if_set, if_clear) if chance < 1]
    assert read_law(laws, n, ones) == expected


@given(PROBABILITIES, PROBABILITIES, st.data())
@settings(max_examples=60, deadline=None)
def test_a_first_byte_decides_if_and_only_if_all_fractions_that_begin_with_it_agree(
    if_set: float, if_clear: float, data: st.DataObject
) -> None:
    laws = tabulate_answers(if_set, if_clear)
    n = data.draw(st.integers(0, laws.most))
    ones = data.draw(st.integers(0, n))
    chances = chances_up_to(n, ones, if_set, if_clear)
    almost = 1 - Fraction(1, 2**2000)  # of the way to the next byte, beyond all chances
    for byte in range(256):
        lowest = place(Fraction(byte, 256), chances)
        highest = place((byte + almost) / 256, chances)
        said = int(laws.by_byte[n * (n + 1) // 2 + ones, byte])
        assert said == (lowest if lowest == highest else int(UNDECIDED))


@pytest.mark.parametrize(
    ("if_set", "if_clear", "most"),
    [(0.9, 0.1, MOST_ROWS), (1.0, 0.0, MOST_ROWS), (0.9, 1e-30, 6), (0.9, 1e-300, 0)],
)
def test_small_probabilities_leave_room_for_fewer_rows(
    if_set: float, if_clear: float, most: int
) -> None:
    laws = tabulate_answers(if_set, if_clear)
    assert laws.most == most
    assert len(laws.by_byte) == (most + 1) * (most + 2) // 2
    assert len(laws.chances) * 32 < 1024 + 32


def test_tables_are_worked_out_once_for_the_same_probabilities() -> None:
    assert tabulate_answers(0.9, 0.1) is tabulate_answers(0.9, 0.1)
    assert np.array_equal(tabulate_answers(0.75, 0.25).start, tabulate_answers(0.9, 0.1).start)
