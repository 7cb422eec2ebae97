"""Foreign text is shown on one line, in its order, and whole, or as the codes of its characters."""

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.printable import is_fit_for_names, printable, printable_in, printable_lines

INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn")


@given(st.text(max_size=200))
def test_nothing_that_cannot_be_seen_is_left(text: str) -> None:
    shown = printable(text)
    assert not {unicodedata.category(character) for character in shown} & set(INVISIBLE)
    assert len(shown.splitlines()) <= 1
    assert printable(shown) == shown


@pytest.mark.parametrize("text", ["loan of 3 €", "Ärzte", "日本語", "שלום", "a\\b", ""])
def test_text_that_can_be_seen_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[2J", r"\x1b[2J"),
        ("ab\u202ecba", r"ab\u202ecba"),
        ("a\u200bb", r"a\u200bb"),
        ("a\u2028b\u2029\x85", r"a\u2028b\u2029\x85"),
        ("a\u3164\ufe0f\u2800", r"a\u3164\ufe0f\u2800"),
        ("a\U000e0041", r"a\U000e0041"),
        ("\ud800", r"\ud800"),
    ],
)
def test_other_characters_become_their_codes(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_long_text_is_cut_and_says_so() -> None:
    assert printable("x" * 12, 10) == "x" * 10 + "... (2 more characters)"


def test_lines_stay_apart_where_they_are_our_own() -> None:
    assert printable_lines("a\x07\nb") == "a\\x07\nb"


class Named(msgspec.Struct, frozen=True):
    name: str
    others: dict[str, list[str]]
    number: int = 1


def test_text_is_found_wherever_it_is() -> None:
    shown = printable_in(Named("a\n", {"b\n": ["c\n"]}))
    assert shown == Named(r"a\n", {r"b\n": [r"c\n"]})


@pytest.mark.parametrize(
    ("name", "is_fit"), [("zwj\u200d ok", True), ("a\n", False), ("\u202ea", False)]
)
def test_names_hold_no_control_characters_and_no_marks_of_direction(
    name: str, is_fit: bool
) -> None:
    assert is_fit_for_names(name) == is_fit
