"""How an input becomes one table for each party, at training and again at prediction."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import dok_array

from fedforest.errors import ConfigurationError, DataError
from fedforest.estimators.inputs.party_tables import (
    ColumnDivision,
    choose_label_party,
    read_source,
)
from fedforest.tree.table.frames import Table


def read_parties(X: Any, parties: Any = None) -> dict[str, Table]:
    source = read_source(X)
    return ColumnDivision.of(source, parties).split(source)


def bank() -> pd.DataFrame:
    return pd.DataFrame({"age": [30, 40, 50], "city": ["Bonn", "Ulm", "Bonn"]})


def shop() -> pd.DataFrame:
    return pd.DataFrame({"spent": [1.5, 2.5, 3.5]})


def joined() -> pd.DataFrame:
    return pd.concat([bank(), shop()], axis=1)


def names(tables: dict[str, Table]) -> dict[str, tuple[str, ...]]:
    return {party: table.names for party, table in tables.items()}


def test_a_mapping_of_tables_keeps_its_order_and_may_mix_kinds_of_tables() -> None:
    tables = read_parties({"shop": pa.table(shop()), "bank": bank(), "lab": np.ones((3, 2))})
    assert names(tables) == {"shop": ("spent",), "bank": ("age", "city"), "lab": ("x0", "x1")}
    assert {table.n_rows for table in tables.values()} == {3}


def test_one_table_without_parties_is_one_party() -> None:
    assert names(read_parties(joined())) == {"party_0": ("age", "city", "spent")}


@given(n_columns=st.integers(1, 12), n_parties=st.integers(1, 20))
def test_a_number_of_parties_divides_the_columns_evenly_and_in_order(
    n_columns: int, n_parties: int
) -> None:
    matrix = np.arange(2.0 * n_columns).reshape(2, n_columns)
    tables = read_parties(matrix, n_parties)
    assert list(tables) == [f"party_{number}" for number in range(n_parties)]
    widths = [table.n_features for table in tables.values()]
    assert max(widths) - min(widths) <= 1
    columns: list[Any] = [column for table in tables.values() for column in table.columns]
    np.testing.assert_array_equal(np.column_stack(columns), matrix)


def test_a_mapping_of_columns_takes_names_and_positions() -> None:
    tables = read_parties(joined(), {"a": ["spent", 0], "b": np.array([1]), "c": []})
    assert names(tables) == {"a": ("spent", "age"), "b": ("city",), "c": ()}
    assert tables["c"].n_rows == 3


def test_columns_nobody_holds_stay_unused() -> None:
    division = ColumnDivision.of(joined(), {"a": ["spent"]})
    assert division.n_features == 3
    assert division.columns_by_party == {"a": ("spent",)}
    assert division.join({"a": np.array([7.0])}).tolist() == [0.0, 0.0, 7.0]


@pytest.mark.parametrize("empty", [np.zeros((3, 0)), pd.DataFrame(index=range(3)), [[], [], []]])
def test_a_party_without_columns_takes_part(empty: Any) -> None:
    tables = read_parties({"labels only": empty, "bank": bank()})
    assert (tables["labels only"].n_rows, tables["labels only"].n_features) == (3, 0)


@pytest.mark.parametrize("X", [np.zeros((3, 0)), {"a": np.zeros((3, 0)), "b": np.zeros((3, 0))}])
def test_an_input_without_any_column_is_refused(X: Any) -> None:
    with pytest.raises(DataError, match=r"0 feature\(s\) \(shape=\(3, 0\)\)"):
        ColumnDivision.of(X)


def test_different_numbers_of_rows_are_refused_and_told_by_party() -> None:
    with pytest.raises(DataError, match="'bank' has 3, 'shop' has 2"):
        read_parties({"bank": bank(), "shop": shop()[:2]})


def test_an_empty_mapping_of_tables_is_refused() -> None:
    with pytest.raises(DataError, match="empty mapping"):
        read_parties({})


def test_a_mapping_of_columns_instead_of_tables_is_explained() -> None:
    with pytest.raises(DataError, match=r"party 'age'.*one table for each party"):
        read_parties({"age": [30, 40, 50]})


def test_a_sparse_matrix_is_refused_as_such_even_if_it_is_a_mapping() -> None:
    with pytest.raises(DataError, match="sparse"):
        read_parties(dok_array((3, 2)))


def test_a_table_that_cannot_be_read_names_its_party() -> None:
    with pytest.raises(DataError, match="party 'shop': the table has no rows"):
        read_parties({"bank": bank(), "shop": shop()[:0]})


@pytest.mark.parametrize("key", [0, None, ""])
def test_party_names_must_be_texts(key: Any) -> None:
    with pytest.raises(DataError, match="names"):
        read_parties({key: bank()})
    with pytest.raises(ConfigurationError, match="names"):
        read_parties(joined(), {key: [0]})


def test_tables_by_party_cannot_be_divided_again() -> None:
    with pytest.raises(ConfigurationError, match="leave parties=None"):
        read_parties({"bank": bank()}, 2)


@pytest.mark.parametrize("parties", [0, -1, True, 2.0, "bank", ["bank"], {}])
def test_a_setting_that_is_no_division_is_refused(parties: Any) -> None:
    with pytest.raises(ConfigurationError, match="parties is"):
        read_parties(joined(), parties)


@pytest.mark.parametrize("columns", [["salary"], [3], [-1], [True], [None], [1.0]])
def test_an_unknown_column_is_refused_by_name(columns: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'a' the column .* does not have"):
        read_parties(joined(), {"a": columns})


@pytest.mark.parametrize("table", [np.ones((2, 3)), pd.DataFrame(np.ones((2, 3)))])
def test_nameless_columns_are_found_by_the_names_that_they_are_given(table: Any) -> None:
    division = ColumnDivision.of(table, {"a": ["x2"], "b": ["x0", 1]})
    assert division.columns_by_party == {"a": ("x2",), "b": ("x0", "x1")}
    assert ColumnDivision.of(table, division.columns_by_party) == division
    with pytest.raises(ConfigurationError, match="'x3', which the table does not have"):
        ColumnDivision.of(table, {"a": ["x3"]})


@pytest.mark.parametrize("columns", ["age", 0, None])
def test_columns_that_are_no_list_are_refused(columns: Any) -> None:
    with pytest.raises(ConfigurationError, match="list of names or positions"):
        read_parties(joined(), {"a": columns})


@pytest.mark.parametrize("division", [{"a": ["age"], "b": [0]}, {"a": ["age", "age"]}])
def test_a_column_with_two_owners_is_refused(division: Any) -> None:
    with pytest.raises(ConfigurationError, match="'age' to 'a' and again"):
        read_parties(joined(), division)


@pytest.mark.parametrize("parties", [None, 2, 5, {"a": ["spent"], "b": ["age"]}])
def test_later_tables_are_divided_like_the_first(parties: Any) -> None:
    division = ColumnDivision.of(joined(), parties)
    later = joined()[1:]
    assert names(division.split(later)) == names(read_parties(joined(), parties))
    assert {table.n_rows for table in division.split(later).values()} == {2}
    assert names(division.split(later.to_numpy())).keys() == set(division.parties)


def test_later_tables_by_party_are_found_by_the_name_of_the_party() -> None:
    division = ColumnDivision.of({"bank": bank(), "shop": shop()})
    tables = division.split({"shop": shop(), "bank": bank()})
    assert list(tables) == ["bank", "shop"]
    assert tables["shop"].names == ("spent",)


def test_tables_already_read_are_not_read_again() -> None:
    source = read_source({"bank": bank(), "shop": shop()})
    assert ColumnDivision.of(source).split(source) == source
    one = read_source(joined())
    assert isinstance(one, Table)
    assert read_parties(one)["party_0"].columns == one.columns


def test_unknown_and_missing_parties_are_refused_by_name() -> None:
    division = ColumnDivision.of({"bank": bank(), "shop": shop()})
    with pytest.raises(DataError, match="training had not: 'lab'"):
        division.split({"bank": bank(), "shop": shop(), "lab": shop()})
    with pytest.raises(DataError, match="lacks the tables of these parties: 'shop'"):
        division.split({"bank": bank()})
    with pytest.raises(DataError, match=r"had not: 'shops'; X lacks .* parties: 'shop'"):
        division.split({"bank": bank(), "shops": shop()})


def test_the_form_of_training_is_the_form_of_prediction() -> None:
    with pytest.raises(DataError, match="a mapping with the tables of 'bank', 'shop'"):
        ColumnDivision.of({"bank": bank(), "shop": shop()}).split(joined())
    with pytest.raises(DataError, match="pass one table with the same columns"):
        ColumnDivision.of(joined(), 2).split({"party_0": bank(), "party_1": shop()})


def test_other_columns_than_those_of_training_are_refused() -> None:
    division = ColumnDivision.of({"bank": bank(), "shop": shop()})
    with pytest.raises(DataError, match=r"party 'bank': X.*\nFeature names unseen.*\n- extra"):
        division.split({"bank": bank().assign(extra=1), "shop": shop()})
    with pytest.raises(DataError, match="now missing:\n- age"):
        division.split({"bank": bank()[["city"]], "shop": shop()})
    with pytest.raises(DataError, match=r"party 'shop': X has 2 features, but .* 1 features"):
        division.split({"bank": bank(), "shop": np.ones((3, 2))})


def test_columns_of_a_partys_table_are_found_by_name() -> None:
    division = ColumnDivision.of({"bank": bank(), "shop": shop()})
    tables = division.split({"bank": bank()[["city", "age"]], "shop": shop()})
    assert tables["bank"].names == ("age", "city")
    one = ColumnDivision.of(joined(), 2)
    with pytest.raises(DataError, match="same order"):  # as scikit-learn does with one table
        one.split(joined()[["spent", "age", "city"]])


def test_other_row_counts_are_refused_at_prediction_too() -> None:
    division = ColumnDivision.of({"bank": bank(), "shop": shop()})
    with pytest.raises(DataError, match="different numbers of rows"):
        division.split({"bank": bank(), "shop": shop()[:1]})


def test_feature_names_exist_where_all_columns_have_one_of_their_own() -> None:
    assert ColumnDivision.of(joined(), 2).feature_names == ("age", "city", "spent")
    assert ColumnDivision.of({"a": bank(), "b": shop()}).feature_names == ("age", "city", "spent")
    assert ColumnDivision.of({"a": bank(), "b": bank()}).feature_names is None
    assert ColumnDivision.of({"a": bank(), "b": np.ones((3, 1))}).feature_names is None
    assert ColumnDivision.of(np.ones((3, 2))).feature_names is None


def test_values_of_parties_are_put_in_the_order_of_the_input() -> None:
    division = ColumnDivision.of(joined(), {"a": ["spent", "age"], "b": ["city"]})
    values = {"a": np.array([3.0, 1.0]), "b": np.array([2.0])}
    assert division.join(values).tolist() == [1.0, 2.0, 3.0]
    by_party = ColumnDivision.of({"a": joined()[["spent", "age"]], "b": joined()[["city"]]})
    assert by_party.join(values).tolist() == [3.0, 1.0, 2.0]


def test_the_label_party_is_the_first_unless_named() -> None:
    division = ColumnDivision.of({"bank": bank(), "shop": shop()})
    assert choose_label_party(None, division) == "bank"
    assert choose_label_party("shop", division) == "shop"
    with pytest.raises(ConfigurationError, match=r"label_party is 'lab'.*'bank', 'shop'"):
        choose_label_party("lab", division)


def test_a_division_can_be_stored_and_compared() -> None:
    division = ColumnDivision.of(joined(), {"a": ["spent"], "b": ["age"]})
    assert pickle.loads(pickle.dumps(division)) == division


@pytest.mark.parametrize("kind", [pd.DataFrame, np.array, pa.table, dict])
def test_a_list_of_parties_and_tables_is_refused_for_a_mapping(kind: Any) -> None:
    table = kind({"a": [1.0, 2.0]}) if kind is not np.array else np.ones((2, 1))
    with pytest.raises(DataError, match=r"list of parties and tables; pass a mapping.*shop"):
        read_source([("bank", table), ("lab", table)])
    with pytest.raises(DataError, match="Names must differ, but 'bank' is repeated"):
        read_source((("bank", table), ["bank", table]))


@pytest.mark.parametrize("table", [bank(), np.ones((2, 2)), pa.table(bank())])
def test_a_list_of_tables_is_refused_for_a_mapping(table: Any) -> None:
    with pytest.raises(DataError, match=r"list of tables.*mapping from party"):
        read_source([table, table])


def test_rows_that_begin_with_a_text_are_rows() -> None:
    table = read_source([["Bonn", 1.0], ["Ulm", 2.0]])
    assert isinstance(table, Table)
    assert table.n_features == 2


@pytest.mark.parametrize(
    ("no_table", "problem"),
    [
        (None, "is None"),
        ("rows.csv", "name of a file; read it first"),
        (Path("rows.csv"), "name of a file; read it first"),
    ],
)
def test_what_is_no_table_is_refused_with_what_a_table_may_be(no_table: Any, problem: str) -> None:
    for X, whose in ((no_table, ""), ({"bank": bank(), "shop": no_table}, "party 'shop': ")):
        with pytest.raises(DataError, match=f"{whose}the table .*{problem}.*data frame"):
            read_source(X)
