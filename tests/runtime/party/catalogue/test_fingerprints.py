"""Fingerprints of rows: the same for the same rows however they are cut, others for any other."""

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.runtime.party.catalogue.fingerprints import fingerprint_rows

COLUMNS: dict[str, list[Any]] = {
    "number": [1, 2, None, 4, 5],
    "fraction": [0.5, float("nan"), 2.5, None, -0.0],
    "text": ["a", "", "long text", None, "ä"],
    "flag": [True, False, None, True, True],
    "day": [date(2020, 1, day) for day in range(1, 6)],
    "moment": [datetime(2020, 1, day, tzinfo=UTC) for day in range(1, 6)],
    "money": [Decimal("1.10"), Decimal("2.20"), None, Decimal("4.40"), Decimal("5.50")],
    "list": [[1], [1, 2], None, [], [3]],
}


def table() -> pyarrow.Table:
    made = pyarrow.table(COLUMNS)
    kind = made.column("text").dictionary_encode()
    return made.append_column("kind", kind)


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, 5), max_size=4).map(sorted))
def test_a_fingerprint_does_not_depend_on_batches(cuts: list[int]) -> None:
    whole = table()
    ends = [0, *cuts, 5]
    pieces = [whole.slice(start, end - start) for start, end in pairwise(ends)]
    again = pyarrow.concat_tables(pieces)
    assert again.column("number").num_chunks == len(pieces)
    assert fingerprint_rows(again) == fingerprint_rows(whole)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("row", range(5))
def test_any_other_value_has_another_fingerprint(name: str, row: int) -> None:
    before = pyarrow.table({name: COLUMNS[name]})
    values = list(COLUMNS[name])
    values[row] = next(other for other in COLUMNS[name] if repr(other) != repr(values[row]))
    after = pyarrow.table({name: pyarrow.array(values, before.column(name).type)})
    assert fingerprint_rows(after) != fingerprint_rows(before)


def test_other_rows_orders_names_and_types_have_other_fingerprints() -> None:
    before = pyarrow.table({"a": [1, 2, 3], "b": ["x", "yz", ""]})
    others = [
        before.take([0, 2, 1]),
        before.slice(0, 2),
        before.rename_columns(["a", "c"]),
        before.select(["b", "a"]),
        pyarrow.table({"a": pyarrow.array([1, 2, 3], "int32"), "b": ["x", "yz", ""]}),
        pyarrow.table({"a": [1, 2, 3], "b": ["xy", "z", ""]}),  # the same letters
        pyarrow.table({"a": [1, 2, 3], "b": ["x", "yz", None]}),
    ]
    found = {fingerprint_rows(each) for each in [before, *others]}
    assert len(found) == len(others) + 1
