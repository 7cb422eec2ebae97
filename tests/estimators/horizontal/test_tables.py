"""How an input becomes the rows of each party."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import dok_array

from fedforest.errors import ConfigurationError, DataError
from fedforest.estimators.horizontal.tables import (
    PartyRows,
    TrainingInput,
    find_rows,
    read_party_rows,
)
from fedforest.tree.table.columns import CategoryColumn
from fedforest.tree.table.frames import Table


def read(
    X: Any, y: Any, sample_weight: Any = None, party: Any = None, *, is_regression: bool = False
) -> dict[str, PartyRows]:
    given = TrainingInput(X, y, sample_weight, party)
    return read_party_rows(given, is_regression=is_regression)


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"age": [30, 40, 50, 60], "city": ["Bonn", "Ulm", "Bonn", "Kiel"]}, index=[7, 5, 3, 1]
    )


def values_of(table: Table, feature: int) -> list[Any]:
    column = table.columns[feature]
    if isinstance(column, CategoryColumn):
        return [None if code < 0 else column.values[code] for code in column.codes]
    values: list[Any] = column.tolist()
    return values


def test_one_table_without_owners_is_one_party() -> None:
    rows = read(frame(), [0, 1, 0, 1])
    assert list(rows) == ["party_0"]
    assert rows["party_0"].table.n_rows == 4
    assert rows["party_0"].weights is None


def test_rows_go_to_their_owners_in_order_with_labels_and_weights() -> None:
    rows = read(frame(), ["x", "y", "z", "x"], [1.0, 2.0, 3.0, 4.0], ["shop", "bank"] * 2)
    assert list(rows) == ["bank", "shop"]
    assert values_of(rows["shop"].table, 0) == [30, 50]
    assert values_of(rows["bank"].table, 1) == ["Ulm", "Kiel"]
    assert rows["bank"].labels.tolist() == ["y", "x"]
    assert rows["shop"].weights is not None
    assert rows["shop"].weights.tolist() == [1.0, 3.0]


def test_a_party_knows_its_own_classes_and_categories_only() -> None:
    rows = read(frame(), ["x", "y", "z", "x"], party=["shop", "bank"] * 2)
    classes, codes = rows["shop"].encode()
    assert classes.tolist() == ["x", "z"]
    assert codes.tolist() == [0, 1]
    column = rows["shop"].table.columns[1]
    assert isinstance(column, CategoryColumn)
    assert column.values == ("Bonn",)


@given(
    owners=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    kind=st.sampled_from(["int", "text", "object", "strings", "series", "category"]),
)
def test_every_row_has_the_one_place_that_its_owner_says(owners: list[int], kind: str) -> None:
    given_owners: Any = {
        "int": np.array(owners),
        "text": np.array([f"party_{o}" for o in owners]),
        "object": np.array([f"party_{o}" for o in owners], object),
        "strings": np.array([f"party_{o}" for o in owners], np.dtypes.StringDType()),
        "series": pd.Series(owners, index=range(50, 50 + len(owners))),
        "category": pd.Categorical([f"party_{o}" for o in owners]),
    }[kind]
    found = find_rows(given_owners, len(owners))
    assert list(found) == [f"party_{o}" for o in sorted(set(owners))]
    numbers = np.arange(len(owners))
    for name, rows in found.items():
        expected = [row for row, owner in enumerate(owners) if f"party_{owner}" == name]
        assert numbers[rows].tolist() == expected


def test_consecutive_rows_are_not_copied() -> None:
    X = np.arange(12.0).reshape(6, 2)
    rows = read(X, [0, 1] * 3, party=[0, 0, 1, 1, 1, 1])
    column = rows["party_1"].table.columns[0]
    assert isinstance(column, np.ndarray)
    assert np.shares_memory(column, X)


def test_both_forms_give_the_same_rows() -> None:
    owner = np.array(["shop", "bank", "bank", "shop"])
    y, weights = np.array([1, 0, 1, 1]), np.array([1.0, 2.0, 0.5, 1.0])
    together = read(frame(), y, weights, owner)
    apart = read(
        {name: frame()[owner == name] for name in ("bank", "shop")},
        {name: y[owner == name] for name in ("bank", "shop")},
        {name: weights[owner == name] for name in ("bank", "shop")},
    )
    assert list(together) == list(apart)
    for name, own in together.items():
        for feature in range(2):
            assert values_of(own.table, feature) == values_of(apart[name].table, feature)
        assert own.labels.tolist() == apart[name].labels.tolist()
        assert own.weights is not None
        assert own.weights.tolist() == apart[name].weights.tolist()  # type: ignore[union-attr]


def test_mappings_keep_their_order_and_may_mix_kinds_of_tables() -> None:
    rows = read(
        {"shop": pa.table({"a": [1.0, 2.0], "b": ["x", "y"]}), "bank": {"a": [3], "b": ["z"]}},
        {"bank": [1], "shop": [0, 1]},
    )
    assert list(rows) == ["shop", "bank"]
    assert rows["bank"].labels.tolist() == [1]


def test_columns_are_matched_by_name_in_the_first_partys_order() -> None:
    rows = read({"a": frame(), "b": frame()[["city", "age"]]}, {"a": [0] * 4, "b": [1] * 4})
    assert rows["b"].table.names == ("age", "city")
    assert values_of(rows["b"].table, 0) == [30, 40, 50, 60]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (frame()[["age"]], r"party 'b' lacks columns that 'a' has: 'city'"),
        (frame().assign(extra=1), r"party 'b' has columns that 'a' lacks: 'extra'"),
        (frame().rename(columns={"age": "Age"}), r"party 'b' lacks columns that 'a' has: 'age'"),
        (frame().to_numpy(), r"columns of party 'a' have names, those of 'b' have none"),
        (
            frame().assign(city=[1, 2, 3, 4]),
            r"column 'city' holds numbers at party 'b' and categories at 'a'",
        ),
        (
            frame().assign(age=["thirty", "forty", "fifty", "sixty"]),
            r"column 'age' holds numbers at party 'a' and categories at 'b'",
        ),
        (frame().assign(age=pd.Categorical([1, 2, 3, 4])), "column 'age' holds numbers at"),
    ],
)
def test_columns_that_differ_are_refused_naming_column_and_party(other: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read({"a": frame(), "b": other}, {"a": [0] * 4, "b": [1] * 4})


def test_tables_without_names_need_equally_many_columns() -> None:
    with pytest.raises(DataError, match=r"party 'b' has 3 columns, but 'a' has 2"):
        read({"a": np.ones((2, 2)), "b": np.ones((2, 3))}, {"a": [0, 1], "b": [0, 1]})


@pytest.mark.parametrize("empty", [np.nan, None])
def test_a_column_without_a_value_at_a_party_fits_any_kind(empty: Any) -> None:
    gaps = frame().assign(age=empty, city=empty)
    rows = read({"a": gaps, "b": frame(), "c": gaps}, dict.fromkeys("abc", [0] * 4))
    for party in "ac":
        numbers, category = rows[party].table.columns
        assert isinstance(category, CategoryColumn)
        assert category.codes.tolist() == [-1] * 4
        assert isinstance(numbers, np.ndarray)
        assert np.isnan(numbers).all()


@pytest.mark.parametrize(
    "nothing", [frame().iloc[:0], pd.DataFrame(columns=["city", "age"]), {"age": [], "city": []}]
)
def test_a_party_without_rows_takes_part(nothing: Any) -> None:
    rows = read({"a": nothing, "b": frame()}, {"a": [], "b": ["x"] * 4})
    assert rows["a"].table.n_rows == 0
    kinds = {p: [isinstance(c, CategoryColumn) for c in rows[p].table.columns] for p in rows}
    names = rows["a"].table.names
    assert dict(zip(names, kinds["a"], strict=True)) == {"age": False, "city": True}
    assert kinds["a"] == kinds["b"]
    classes, codes = rows["a"].encode()
    assert len(classes) == len(codes) == 0


def test_weights_of_one_party_are_spelled_out_at_all() -> None:
    tables = {"a": np.ones((2, 1)), "b": np.ones((3, 1))}
    rows = read(tables, {"a": [0, 1], "b": [0, 1, 1]}, {"a": [1, 1], "b": [1, 2, 3]})
    assert rows["a"].weights is not None
    assert rows["a"].weights.tolist() == [1.0, 1.0]
    rows = read(tables, {"a": [0, 1], "b": [0, 1, 1]}, {"a": [1, 1], "b": [1, 1, 1]})
    assert [own.weights for own in rows.values()] == [None, None]


@pytest.mark.parametrize(
    ("party", "message"),
    [
        ([0, 1, 0], r"party has shape \(3,\)"),
        ("bank", r"party has shape \(\)"),
        ([0.0, np.nan, 1.0, 1.0], "party is missing in 1 row"),
        (["a", None, "b", None], "party is missing in 2 row"),
        (pd.Series(["a", pd.NA, "b", "b"]), "party is missing in 1 row"),
        ([0.0, 1.0, 1.0, 0.0], "names, or whole numbers"),
        ([True, False, True, False], "names, or whole numbers"),
        (np.array([0, "party_0", 1, 1], object), "names, or whole numbers"),
        (["a", "", "b", "b"], "an empty text"),
        ([0, -1, 0, 0], "party is negative"),
        ([[0, 1, 0, 0]], r"party has shape \(1, 4\)"),
    ],
)
def test_owners_that_name_no_party_are_refused(party: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(frame(), [0, 1, 0, 1], party=party)


def test_owners_are_for_one_table_only() -> None:
    with pytest.raises(ConfigurationError, match="leave party=None"):
        read({"a": frame()}, {"a": [0] * 4}, party=["a"] * 4)


@pytest.mark.parametrize(
    ("X", "y", "weight", "message"),
    [
        ({}, {}, None, "empty mapping"),
        ({"": frame()}, {"": [0] * 4}, None, "texts that are not empty"),
        ({1: frame()}, {1: [0] * 4}, None, "texts that are not empty"),
        ({"a": frame()}, [0] * 4, None, "y is not; pass a mapping"),
        ({"a": frame()}, None, None, "requires y to be passed"),
        (frame(), None, None, "requires y to be passed"),
        (frame(), {"a": [0] * 4}, None, "y is a mapping, but X is one table"),
        (frame(), [0] * 4, {"a": [1] * 4}, "sample_weight is a mapping, but X is one"),
        ({"a": frame()}, {"b": [0] * 4}, None, "y names parties that X does not have: 'b'"),
        ({"a": frame(), "b": frame()}, {"a": [0] * 4}, None, "y lacks these parties of X: 'b'"),
        ({"a": frame()}, {"a": [0] * 4}, [1] * 4, "sample_weight is not; pass"),
        ({"a": frame()}, {"a": [0] * 4}, {}, "sample_weight lacks these parties of X: 'a'"),
        ({"a": frame()}, {"a": [0] * 3}, None, r"party 'a': The target has shape \(3,\)"),
        ({"a": frame()}, {"a": [0] * 4}, {"a": [-1] * 4}, "party 'a': sample_weight is negative"),
        ({"a": [1, 2]}, {"a": [0, 1]}, None, "party 'a': expected a table"),
        ({"a": np.ones((0, 2))}, {"a": []}, None, "0 samples"),
        ({"a": np.ones((2, 0))}, {"a": [0, 1]}, None, r"0 feature\(s\)"),
        (np.ones((2, 0)), [0, 1], None, r"0 feature\(s\)"),
        (np.ones((0, 2)), [], None, "0 samples"),
        ([frame(), frame()], [0, 1], None, "list of tables"),
        (dok_array((3, 3)), [0, 1, 0], None, "sparse"),
    ],
)
def test_inputs_that_do_not_fit_together_are_refused(
    X: Any, y: Any, weight: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(X, y, weight)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.5, 1.0, 2.0, 3.0], "Unknown label type: continuous"),
        (np.array([1, 2, 3, 4], object), "Unknown label type: unknown"),
        (["a", None, "b", "b"], "missing in 1 row"),
        ([[0, 1]] * 4, r"has shape \(4, 2\)"),
    ],
)
def test_targets_that_are_no_classes_are_refused(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(frame(), y)
    with pytest.raises(DataError, match=message):
        read({"a": frame()}, {"a": y})


def test_numbers_are_targets_of_regression() -> None:
    rows = read(frame(), [1, 2, 3, 4], party=[0, 1, 0, 1], is_regression=True)
    assert rows["party_1"].labels.tolist() == [2.0, 4.0]
    assert rows["party_1"].labels.dtype == np.float64
    with pytest.raises(DataError, match="NaN or infinite in 1 row"):
        read(frame(), [1, 2, np.nan, 4], is_regression=True)


@pytest.mark.parametrize("name", ["y", "sample_weight", "party"])
def test_series_in_another_order_than_the_table_are_refused(name: str) -> None:
    X = frame()
    n_rows = len(X)
    vectors: dict[str, Any] = {
        "y": np.arange(n_rows) % 2,
        "sample_weight": np.arange(1.0, n_rows + 1),
        "party": np.arange(n_rows) % 2,
    }
    vectors[name] = pd.Series(vectors[name], index=X.index)
    read_party_rows(TrainingInput(X, **vectors), is_regression=False)
    vectors[name] = vectors[name][::-1]
    with pytest.raises(DataError, match=f"index of {name} holds the rows of X in another order"):
        read_party_rows(TrainingInput(X, **vectors), is_regression=False)


@pytest.mark.parametrize("name", ["y", "sample_weight"])
def test_a_partys_series_in_another_order_are_refused_by_name(name: str) -> None:
    X = frame()
    own = {"y": np.arange(len(X)) % 2, "sample_weight": np.arange(1.0, len(X) + 1)}
    vectors: dict[str, Any] = {key: {"a": values, "b": values} for key, values in own.items()}
    vectors[name]["b"] = pd.Series(own[name], index=X.index)[::-1]
    with pytest.raises(DataError, match=f"party 'b': the index of {name}"):
        read_party_rows(TrainingInput({"a": X, "b": X}, **vectors), is_regression=False)
