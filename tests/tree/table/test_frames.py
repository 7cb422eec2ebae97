"""What can be read as a table, how, and what is refused."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.tree.table.columns import CategoryColumn
from fedforest.tree.table.frames import Table, read_table


def numbers(table: Table, feature: int = 0) -> NDArray[Any]:
    column = table.columns[feature]
    assert isinstance(column, np.ndarray)
    assert column.dtype in (np.float32, np.float64)
    return column


def categories(table: Table, feature: int = 0) -> list[object]:
    """The category of each row; None where it is missing."""
    column = table.columns[feature]
    assert isinstance(column, CategoryColumn)
    return [None if code < 0 else column.values[code] for code in column.codes]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_matrices_of_floats_are_not_copied(dtype: type, order: Any) -> None:
    matrix: NDArray[Any] = np.ones((5, 3), dtype, order=order)
    table = read_table(matrix)
    assert (table.n_rows, table.n_features) == (5, 3)
    assert all(np.shares_memory(column, matrix) for column in table.columns)


@pytest.mark.parametrize(
    "dtype", ["f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f4", ">f8", ">i8", "g"]
)
def test_every_number_type_is_read_with_its_values(dtype: str) -> None:
    matrix = np.array([[0, 1], [1, 0]], dtype)
    table = read_table(matrix)
    assert numbers(table, 0).tolist() == [0, 1]
    assert numbers(table, 1).tolist() == [1, 0]
    assert numbers(table).dtype.isnative


def test_large_integers_keep_the_precision_of_float64() -> None:
    assert numbers(read_table(np.array([[2**31 + 1]]))).tolist() == [2**31 + 1]


def test_lists_of_rows_may_mix_numbers_text_and_none() -> None:
    table = read_table([[1, "a", None], [2.5, "b", True], [None, None, 3]])
    np.testing.assert_array_equal(numbers(table, 0), [1, 2.5, np.nan])
    assert categories(table, 1) == ["a", "b", None]
    np.testing.assert_array_equal(numbers(table, 2), [np.nan, 1, 3])


def test_arrays_of_text_are_categories_and_digits_stay_text() -> None:
    table = read_table(np.array([["a", "1"], ["b", "2"]]))
    assert categories(table, 0) == ["a", "b"]
    assert categories(table, 1) == ["1", "2"]


def test_columns_of_objects_are_numbers_unless_there_is_text() -> None:
    matrix = np.array([[1.5, 1], [np.nan, "x"], [True, 2.0], [pd.NA, None]], object)
    table = read_table(matrix)
    np.testing.assert_array_equal(numbers(table, 0), [1.5, np.nan, 1, np.nan])
    assert categories(table, 1) == [1, "x", 2, None]


def test_equal_numbers_are_one_category_however_they_are_stored() -> None:
    table = read_table({"c": np.array([True, 1, 1.0, np.float32(1), "1", 0.5], object)})
    assert categories(table) == [1, 1, 1, 1, "1", 0.5]
    assert [type(value) for value in categories(table)] == [int, int, int, int, str, float]


def test_mappings_of_columns_keep_their_names() -> None:
    table = read_table({"age": [30, 40], "city": ["x", "y"], "ok": np.array([True, False])})
    assert table.names == ("age", "city", "ok")
    assert table.has_names
    assert numbers(table, 0).tolist() == [30, 40]
    assert categories(table, 1) == ["x", "y"]
    assert numbers(table, 2).tolist() == [1, 0]


@pytest.mark.parametrize(
    "dtype", ["Int64", "Int8", "UInt32", "Float32", "Float64", "int64[pyarrow]"]
)
def test_nullable_numbers_of_pandas_are_numbers(dtype: str) -> None:
    table = read_table(pd.DataFrame({"a": pd.Series([1, None, 3], dtype=dtype)}))
    np.testing.assert_array_equal(numbers(table), [1, np.nan, 3])


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]", object])
def test_nullable_booleans_of_pandas_are_numbers(dtype: Any) -> None:
    table = read_table(pd.DataFrame({"a": pd.Series([True, None, False], dtype=dtype)}))
    np.testing.assert_array_equal(numbers(table), [1, np.nan, 0])


@pytest.mark.parametrize("dtype", ["str", "string", "string[pyarrow]", object, "category"])
def test_text_columns_of_pandas_are_categories(dtype: Any) -> None:
    table = read_table(pd.DataFrame({"a": pd.Series(["x", None, "y", "x"], dtype=dtype)}))
    assert categories(table) == ["x", None, "y", "x"]


def test_pandas_categories_of_numbers_are_categories() -> None:
    table = read_table(pd.DataFrame({"a": pd.Series([3, 1, None], dtype="category")}))
    assert categories(table) == [3, 1, None]


@pytest.mark.parametrize("copy", [True, False])
def test_the_floats_of_a_data_frame_are_not_copied(copy: bool) -> None:
    frame = pd.DataFrame(np.ones((5, 3), np.float32), columns=list("abc"), copy=copy)
    columns = read_table(frame).columns
    assert all(np.shares_memory(column, frame["a"].to_numpy().base) for column in columns)


def test_a_data_frame_without_own_labels_has_no_names() -> None:
    table = read_table(pd.DataFrame(np.ones((2, 2))))
    assert table.names == ("x0", "x1")
    assert not table.has_names
    assert read_table(pd.DataFrame(np.ones((2, 2)), columns=[1, 0])).names == ("1", "0")


def test_arrow_tables_are_read_with_nulls_as_missing() -> None:
    chunks = pa.chunked_array([["x", None], ["y", "x"]])
    table = read_table(
        pa.table(
            {
                "i": pa.array([1, None, 3, 4]),
                "f": pa.array([0.5, None, 1.5, 2.5], pa.float32()),
                "b": pa.array([True, None, False, True]),
                "s": chunks,
                "d": chunks.dictionary_encode(),
            }
        )
    )
    assert table.names == ("i", "f", "b", "s", "d")
    np.testing.assert_array_equal(numbers(table, 0), [1, np.nan, 3, 4])
    np.testing.assert_array_equal(numbers(table, 1), [0.5, np.nan, 1.5, 2.5])
    np.testing.assert_array_equal(numbers(table, 2), [1, np.nan, 0, 1])
    assert categories(table, 3) == categories(table, 4) == ["x", None, "y", "x"]


def test_numeric_columns_can_be_declared_categorical_by_name_or_position() -> None:
    frame = pd.DataFrame({"a": [2.0, np.nan, 1.0], "b": [1, 2, 3], "c": ["x", "y", "z"]})
    choices: list[list[str | int]] = [["a", "c"], [0, 2], ["a", 2]]
    for chosen in choices:
        table = read_table(frame, categorical=chosen)
        assert categories(table, 0) == [2, None, 1]
        assert numbers(table, 1).tolist() == [1, 2, 3]
        assert categories(table, 2) == ["x", "y", "z"]


@pytest.mark.parametrize("unknown", ["z", 3, -1])
def test_a_categorical_column_that_does_not_exist_is_refused(unknown: str | int) -> None:
    with pytest.raises(DataError, match="does not have"):
        read_table(np.ones((2, 3)), categorical=[unknown])


def test_infinities_are_numbers_and_not_missing() -> None:
    assert numbers(read_table([[np.inf], [-np.inf]])).tolist() == [np.inf, -np.inf]


def test_a_party_without_columns_still_has_rows() -> None:
    for nothing in (np.empty((4, 0)), pd.DataFrame(index=range(4))):
        table = read_table(nothing)
        assert (table.n_rows, table.n_features, table.names) == (4, 0, ())


def test_taken_columns_keep_their_names_and_are_not_copied() -> None:
    matrix = np.ones((3, 4))
    table = read_table(matrix).take([2, 0])
    assert table.names == ("x2", "x0")
    assert np.shares_memory(numbers(table), matrix)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (np.ones(3), "Reshape your data"),
        (pd.Series([1.0]), "Reshape your data"),
        (np.ones((2, 2, 2)), "3 dimension"),
        (np.ones((0, 3)), "no rows"),
        ({"a": []}, "no rows"),
        (pd.DataFrame({"a": []}), "no rows"),
        ({}, "no columns"),
        ({"a": 3}, "one sequence of values for each column"),
        ({"a": [[1, 2]]}, "'a' has 2 dimensions"),
        ({"a": [1, 2], "b": [1]}, "'b' has 1 rows"),
        ([[1, 2], [3]], "equally long"),
        (np.array([[1j]]), "Complex data not supported"),
        (np.array([["2020-01-01"]], "M8[D]"), "dates or times"),
        (np.array([[5]], "m8[s]"), "time spans"),
        (np.array([[b"x"]]), "decode"),
        (np.zeros((2, 1), "i4,f4"), "neither numbers nor text"),
        (np.ma.masked_equal([[1.0, 2.0]], 1.0), "masked array"),
        (pd.DataFrame({"day": pd.date_range("2020", periods=2)}), "'day' holds dates or times"),
        (pd.DataFrame({"day": pd.date_range("2020", periods=2, tz="UTC")}), "'day' holds dates"),
        (
            pd.DataFrame({"p": pd.period_range("2020", periods=2)}),
            "'p' holds values of type Period",
        ),
        (pd.DataFrame({"z": [1j]}), "Complex data not supported"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' is repeated"),
        (pd.DataFrame([[1, 2]], columns=["1", 1]), "'1' is repeated"),
        (pd.DataFrame({"o": [{"k": 1}, {}]}), "'o' holds values that are neither"),
        ([[{"k": 1}]], "'x0' holds values that are neither"),
        (pd.DataFrame({"t": [(1, 2), "a"]}), "of type tuple"),
        ([["a"], [2**64]], "beyond the limits"),
        ([["\ud800"]], "beyond the limits"),
        ({"\ud800": [1]}, "not valid Unicode"),
        ("text", "Reshape your data"),
        (None, "Reshape your data"),
    ],
)
def test_what_cannot_be_a_table_is_refused_with_the_reason(data: Any, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read_table(data)


def test_more_rows_than_an_index_can_count_are_refused_before_anything_is_copied() -> None:
    with pytest.raises(DataError, match="2147483648 rows"):
        read_table(np.broadcast_to(np.int8(0), (2**31, 1)))


def test_sparse_tables_are_refused() -> None:
    class Sparse:
        def toarray(self) -> None: ...

    with pytest.raises(DataError, match="sparse"):
        read_table(Sparse())


def test_errors_do_not_repeat_values() -> None:
    with pytest.raises(DataError) as caught:
        read_table({"name": ["secret", ("secret",)]})
    assert "secret" not in str(caught.value)


def test_reading_arrays_does_not_import_pandas() -> None:
    script = (
        "import sys, numpy; from fedforest.tree.table.frames import read_table;"
        "read_table([[1, 'a']]); assert not {'pandas', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_an_empty_table_is_read_where_it_may_be_empty() -> None:
    table = read_table(pd.DataFrame({"a": [1.0], "b": ["x"]}).iloc[:0], may_be_empty=True)
    assert (table.names, table.n_rows) == (("a", "b"), 0)
    with pytest.raises(DataError, match="no rows"):
        read_table(np.ones((0, 2)))


@pytest.mark.parametrize("rows", [slice(1, 3), slice(2, 99), np.array([2, 0, 2])])
def test_rows_are_taken_with_the_categories_that_occur_in_them(rows: Any) -> None:
    names = np.array(["x", "y", None], object)
    taken = read_table({"a": [1.0, 2.0, 3.0], "b": names}).take_rows(rows)
    assert taken.n_rows == len(names[rows])
    assert numbers(taken, 0).tolist() == np.array([1.0, 2.0, 3.0])[rows].tolist()
    assert categories(taken, 1) == names[rows].tolist()
    column = taken.columns[1]
    assert isinstance(column, CategoryColumn)
    assert set(column.values) == set(names[rows]) - {None}
