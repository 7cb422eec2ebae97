"""Data frames of all libraries are read alike: names, numbers, categories, what is missing."""

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fedforest.errors import DataError
from fedforest.tree.table.columns import CategoryColumn
from fedforest.tree.table.data_frames import is_frame, read_vector
from fedforest.tree.table.frames import Table, read_table
from tests.data_frame_kinds import KINDS, every_kind, make_series

COLUMNS: dict[str, list[Any]] = {
    "count": [3, 1, None, 2],
    "size": [0.5, None, -1.5, 2.0],
    "member": [True, None, False, True],
    "town": ["Ulm", None, "Bonn", "Ulm"],
}


def values_of(table: Table) -> dict[str, list[object]]:
    """All values by column; None where they are missing."""
    return {
        name: [None if code < 0 else column.values[code] for code in column.codes]
        if isinstance(column, CategoryColumn)
        else [None if np.isnan(value) else value for value in column.tolist()]
        for name, column in zip(table.names, table.columns, strict=True)
    }


@every_kind
def test_every_library_gives_the_same_names_and_values(kind: str) -> None:
    table = read_table(KINDS[kind](COLUMNS))
    assert table.has_names
    assert values_of(table) == COLUMNS
    assert isinstance(table.columns[3], CategoryColumn)
    assert all(isinstance(column, np.ndarray) for column in table.columns[:3])


@every_kind
def test_series_of_every_library_are_columns_of_a_mapping(kind: str) -> None:
    series = {name: make_series(kind, values) for name, values in COLUMNS.items()}
    assert values_of(read_table(series)) == COLUMNS


@every_kind
def test_a_table_may_have_no_rows(kind: str) -> None:
    frame = KINDS[kind](COLUMNS)[:0]
    assert read_table(frame, may_be_empty=True).names == tuple(COLUMNS)
    with pytest.raises(DataError, match="no rows"):
        read_table(frame)


@pytest.mark.parametrize(
    "dtype", [pl.Int8, pl.UInt16, pl.Int32, pl.UInt64, pl.Int128, pl.Float32, pl.Float64, pl.Null]
)
def test_every_number_type_of_polars_is_read_with_nulls(dtype: Any) -> None:
    values = [None, None, None] if dtype == pl.Null else [1, None, 3]
    table = read_table(pl.DataFrame({"a": pl.Series(values, dtype=dtype)}))
    assert values_of(table) == {"a": values}


def test_nan_and_null_of_polars_are_both_missing() -> None:
    assert values_of(read_table(pl.DataFrame({"a": [1.0, float("nan"), None]}))) == {
        "a": [1.0, None, None]
    }


def test_the_floats_of_polars_and_arrow_are_not_copied() -> None:
    values = np.arange(1000.0)
    for frame in (pl.DataFrame({"a": values}), pa.table({"a": values})):
        column = read_table(frame).columns[0]
        assert isinstance(column, np.ndarray)
        assert np.shares_memory(column, frame["a"].to_numpy())


def test_categories_of_several_columns_are_told_apart() -> None:
    """polars numbers the categories of all columns together."""
    frame = pl.DataFrame({"a": ["x", "y", None], "b": ["z", "x", "z"]}).cast(pl.Categorical)
    assert values_of(read_table(frame)) == {"a": ["x", "y", None], "b": ["z", "x", "z"]}


def test_many_distinct_texts_are_read() -> None:
    texts = [f"id {number}" for number in range(70_000)]
    for frame in (pl.DataFrame({"a": texts}), pa.table({"a": texts})):
        assert values_of(read_table(frame)) == {"a": texts}


DAY, MOMENT = dt.date(2020, 1, 31), dt.datetime(2020, 1, 31, 12)


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table], ids=["polars", "pyarrow"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (DAY, "'c' holds dates or times; convert"),
        (MOMENT, "'c' holds dates or times; convert"),
        (dt.time(12), "'c' holds dates or times; convert"),
        (dt.timedelta(1), "'c' holds time spans; convert"),
        (Decimal("1.5"), "'c' holds decimals; convert them to floats"),
        (b"x", "'c' holds bytes; decode"),
        ([1], "'c' holds neither numbers nor text"),
        ({"k": 1}, "'c' holds neither numbers nor text"),
    ],
)
def test_columns_that_are_neither_numbers_nor_text_are_refused(
    make: Any, value: object, reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        read_table(make({"c": [value, None]}))


def test_decimals_of_pandas_are_refused() -> None:
    decimals = pd.Series([1, 2], dtype=pd.ArrowDtype(pa.decimal128(5, 2)))
    with pytest.raises(DataError, match="'c' holds decimals"):
        read_table(pd.DataFrame({"c": decimals}))


def test_text_late_in_a_column_of_objects_is_found() -> None:
    values = ["x"] * 500 + [("tuple",)]
    with pytest.raises(DataError, match="of type tuple"):
        read_table(pd.DataFrame({"c": pd.Series(values, dtype=object)}))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]),
        pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]),
    ],
    ids=["pandas", "pyarrow", "batch"],
)
def test_a_repeated_name_is_refused(frame: Any) -> None:
    with pytest.raises(DataError, match="'a' is repeated"):
        read_table(frame)


def test_lazy_frames_are_refused_with_what_to_call() -> None:
    lazy = pl.LazyFrame({"a": [1.0]})
    with pytest.raises(DataError, match=r"the table is a lazy frame.*\.collect\(\)"):
        read_table(lazy)
    with pytest.raises(DataError, match=r"sample_weight is a lazy frame.*\.collect\(\)"):
        read_vector(lazy, "sample_weight")


def test_named_tables_of_unknown_libraries_are_refused_rather_than_read_without_names() -> None:
    class Stream:
        """As arrow's interface between libraries has it."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones((2, 2))

    with pytest.raises(DataError, match=r"Stream, a data frame of a kind that cannot be read"):
        read_table(Stream())


@every_kind
@pytest.mark.parametrize("values", [[3, 1, 2], [0.5, -1.0, 2.0], [True, False, True], list("aba")])
def test_vectors_of_every_library_hold_the_same_values(kind: str, values: list[Any]) -> None:
    assert read_vector(make_series(kind, values), "y").tolist() == values
    assert read_vector(KINDS[kind]({"y": values}), "y").tolist() == [[value] for value in values]


@every_kind
def test_missing_values_of_vectors_are_missing(kind: str) -> None:
    """A null in an arrow dictionary is not its first category."""
    texts = read_vector(make_series(kind, ["a", None, "b"]), "y").tolist()
    assert [text if isinstance(text, str) else None for text in texts] == ["a", None, "b"]
    numbers = read_vector(make_series(kind, [1, None, 3]), "y")
    np.testing.assert_array_equal(numbers.astype(np.float64), [1, np.nan, 3])


def test_whole_numbers_and_booleans_stay_what_they_are_in_vectors() -> None:
    for kind in ("pandas", "pandas nullable", "pandas on arrow", "polars", "pyarrow"):
        assert read_vector(make_series(kind, [1, 2]), "y").dtype.kind == "i"
        assert read_vector(make_series(kind, [True, False]), "y").dtype.kind == "b"


def test_frames_are_told_from_arrays_and_series() -> None:
    frame = pl.DataFrame({"a": [1]})
    assert all(is_frame(table) for table in (frame, frame.lazy(), pd.DataFrame(), pa.table({})))
    others: tuple[Any, ...] = (np.ones((1, 1)), [[1]], {}, None, frame["a"])
    assert not any(is_frame(other) for other in others)


def test_reading_polars_imports_neither_pandas_nor_pyarrow() -> None:
    script = (
        "import sys, polars; from fedforest.tree.table.frames import read_table;"
        "read_table(polars.DataFrame({'a': [1, None], 'b': ['x', None], 'c': [True, None]}));"
        "assert not {'pandas', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
