"""The one form of ids: what is the same id at two parties, and what is not."""

import datetime
import decimal
import unicodedata
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import DataError
from fedforest.runtime.party.catalogue.ids import (
    IdRules,
    count_shared,
    keep_own_ids,
    normalise_ids,
)

# what strip() takes away is wider than what arrow trims only beyond Unicode's white space
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x1c\x1d\x1e\x1f"), max_size=6)


def ids_of(*columns: Any, **rules: Any) -> list[bytes]:
    table = pyarrow.table({f"c{i}": column for i, column in enumerate(columns)})
    ids: list[bytes] = normalise_ids("t", table, IdRules(**rules)).tolist()
    return ids


@given(st.lists(texts.filter(lambda text: text.strip() != ""), min_size=1))
def test_text_is_stripped_and_composed(values: list[str]) -> None:
    expected = [unicodedata.normalize("NFC", value.strip()).encode() for value in values]
    assert ids_of(pyarrow.array(values)) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_whole_numbers_are_written_in_decimal(values: list[int]) -> None:
    assert ids_of(pyarrow.array(values)) == [str(value).encode() for value in values]


@given(st.lists(st.integers(-(2**53) + 1, 2**53 - 1), min_size=1))
def test_whole_floats_are_whole_numbers(values: list[int]) -> None:
    floats = pyarrow.array([float(value) for value in values])
    assert ids_of(floats) == ids_of(pyarrow.array(values))


@given(st.lists(st.tuples(texts, texts).filter(lambda p: all(x.strip() for x in p)), min_size=2))
def test_several_columns_never_come_to_the_same_id_by_chance(pairs: list[tuple[str, str]]) -> None:
    left, right = zip(*pairs, strict=True)
    ids = ids_of(pyarrow.array(left), pyarrow.array(right))
    canonical = [
        tuple(unicodedata.normalize("NFC", part.strip()) for part in pair) for pair in pairs
    ]
    assert len(set(ids)) == len(set(canonical))


def test_several_columns_are_written_with_their_lengths() -> None:
    assert ids_of(pyarrow.array(["é"]), pyarrow.array([12])) == ["2:é2:12".encode()]


def test_dates_and_whole_decimals_are_ids_too() -> None:
    assert ids_of(pyarrow.array([datetime.date(2020, 2, 29)])) == [b"2020-02-29"]
    assert ids_of(pyarrow.array([decimal.Decimal(12)], pyarrow.decimal128(9, 0))) == [b"12"]


def test_categories_are_their_text() -> None:
    assert ids_of(pyarrow.array(["a", "b", "a"]).dictionary_encode()) == [b"a", b"b", b"a"]


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array([1.5]),
        pyarrow.array([float("nan")]),
        pyarrow.array([2.0**60]),
        pyarrow.array([True]),
        pyarrow.array([[1]]),
    ],
)
def test_what_has_no_one_form_is_no_id(column: Any) -> None:
    with pytest.raises(DataError, match="id column 'c0' of data set 't'"):
        ids_of(column)


@pytest.mark.parametrize("column", [pyarrow.array(["a", None]), pyarrow.array(["a", "  "])])
def test_every_row_must_have_an_id(column: Any) -> None:
    with pytest.raises(DataError, match="empty in some rows"):
        ids_of(column)


def reference(value: str, rules: IdRules) -> str:
    value = unicodedata.normalize(rules.unicode, value)
    if rules.case == "fold":
        value = unicodedata.normalize(rules.unicode, value.casefold())
    if rules.trim:
        value = value.strip()
    is_number = value.lstrip("+-").isdigit() and value.isascii() and len(value.lstrip("+-")) > 0
    is_number = is_number and len(value) - len(value.lstrip("+-")) <= 1
    return str(int(value)) if rules.numbers == "plain" and is_number else value


RULES = st.builds(
    IdRules,
    trim=st.booleans(),
    case=st.sampled_from(["keep", "fold"]),
    unicode=st.sampled_from(["NFC", "NFKC"]),
    numbers=st.sampled_from(["keep", "plain"]),
)
numerals = st.from_regex(r"[ +-]?0{0,3}[0-9]{0,3} ?", fullmatch=True)


@given(st.lists(st.one_of(texts, numerals), min_size=1), RULES)
def test_text_is_written_by_the_rules_of_its_entry(values: list[str], rules: IdRules) -> None:
    values = [value for value in values if reference(value, rules)] or ["a"]
    table = pyarrow.table({"c": pyarrow.array(values)})
    expected = [reference(value, rules).encode() for value in values]
    assert normalise_ids("t", table, rules).tolist() == expected


def test_rules_bring_together_what_people_mean_to_be_one_id() -> None:
    assert ids_of(pyarrow.array(["Straße", "STRASSE"]), case="fold") == [b"strasse"] * 2
    assert ids_of(pyarrow.array(["\uff21\uff17", "A7"]), unicode="NFKC") == [b"A7"] * 2
    assert ids_of(pyarrow.array(["007", "+7", "-0"]), numbers="plain") == [b"7", b"7", b"0"]
    assert ids_of(pyarrow.array([" a"]), trim=False) == [b" a"]


def test_repeated_ids_are_left_out_kept_once_or_refused() -> None:
    ids = [b"a", b"b", b"a", b"c", b"b"]
    assert count_shared(ids) == 4
    assert keep_own_ids("t", ids, "leave-out") == ids
    assert keep_own_ids("t", ids, "first") == [b"a", b"b", b"", b"c", b""]
    with pytest.raises(DataError, match=r"4 rows that share an id .* --id-duplicates"):
        keep_own_ids("t", ids, "refuse")
    assert keep_own_ids("t", [b"a", b"b"], "refuse") == [b"a", b"b"]
