"""How a party's columns become standardised terms."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedforest.errors import DataError
from fedforest.protocol.linear.design import MAX_CATEGORIES, fit_design
from fedforest.tree.table.frames import read_table


def test_numbers_are_standardised_with_missing_ones_at_the_mean_as_by_scikit_learn() -> None:
    matrix = np.random.default_rng(0).normal(5.0, 3.0, (50, 3))
    matrix[::7, 1] = np.nan
    table = read_table(matrix)
    expected = make_pipeline(SimpleImputer(), StandardScaler()).fit_transform(matrix)
    np.testing.assert_allclose(fit_design(table).transform(table), expected, atol=1e-12)


@given(st.floats(-1e12, 1e12), st.integers(1, 30))
def test_constant_columns_become_zero(value: float, n_rows: int) -> None:
    table = read_table(np.full((n_rows, 1), value))
    assert fit_design(table).transform(table).tolist() == [[0.0]] * n_rows


def test_a_column_without_any_value_becomes_zero() -> None:
    table = read_table(np.full((4, 1), np.nan))
    assert fit_design(table).transform(table).tolist() == [[0.0]] * 4


def test_categories_become_standardised_indicators_named_by_column_and_category() -> None:
    table = read_table(pd.DataFrame({"town": ["Ulm", "Bonn", "Ulm", None]}))
    design = fit_design(table)
    assert design.term_names == ("town=Bonn", "town=Ulm")
    indicators = np.array([[0, 1], [1, 0], [0, 1], [0, 0]], float)
    expected = StandardScaler().fit_transform(indicators)
    np.testing.assert_allclose(design.transform(table), expected, atol=1e-12)


def test_rare_new_and_missing_categories_are_the_same_to_a_model() -> None:
    towns = [f"t{number:03}" for number in range(MAX_CATEGORIES)] * 2 + ["rare"]
    design = fit_design(read_table(pd.DataFrame({"town": towns})))
    assert len(design.terms) == MAX_CATEGORIES
    odd = design.transform(read_table(pd.DataFrame({"town": ["rare", "new", None]})))
    assert (odd == odd[0]).all()
    assert (odd < 0.0).all(), "below the mean in every indicator"


def test_of_equally_frequent_categories_the_first_are_kept_whatever_the_order_of_rows() -> None:
    towns = [f"t{number:03}" for number in range(2 * MAX_CATEGORIES)]
    forth, back = (
        fit_design(read_table(pd.DataFrame({"town": order}))) for order in (towns, towns[::-1])
    )
    assert forth.term_names == back.term_names == tuple(f"town={t}" for t in towns[:MAX_CATEGORIES])


def test_weights_count_rows() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, np.nan, 9.0], "c": ["a", "b", "b", "never"]})
    weights = np.array([1.0, 2.0, 1.0, 0.0])
    weighted = fit_design(read_table(frame), weights)
    repeated = fit_design(read_table(frame.iloc[[0, 1, 1, 2]]))
    assert [(term.feature, term.category) for term in weighted.terms] == [
        (term.feature, term.category) for term in repeated.terms
    ]
    for ours, expected in zip(weighted.terms, repeated.terms, strict=True):
        assert (ours.mean, ours.scale) == pytest.approx((expected.mean, expected.scale))


@pytest.mark.parametrize(("value", "reason"), [(np.inf, "infinity"), (1e300, "too large")])
def test_numbers_that_cannot_be_standardised_are_refused_by_column(
    value: float, reason: str
) -> None:
    with pytest.raises(DataError, match=f"'x0' .*{reason}"):
        fit_design(read_table(np.array([[value], [-1e300]])))


def test_a_column_that_changes_its_kind_is_refused_by_name() -> None:
    design = fit_design(read_table(pd.DataFrame({"age": [1.0, 2.0]})))
    with pytest.raises(DataError, match="'age' was numeric in training"):
        design.transform(read_table(pd.DataFrame({"age": ["old"]})))
    with pytest.raises(DataError, match="2 columns, but training had 1"):
        design.transform(read_table(np.ones((3, 2))))


def test_numbers_are_looked_up_where_training_had_categories() -> None:
    design = fit_design(read_table(pd.DataFrame({"code": pd.Categorical([1, 2, 2])})))
    as_numbers = design.transform(read_table(pd.DataFrame({"code": [1.0, 2.0]})))
    as_categories = design.transform(read_table(pd.DataFrame({"code": pd.Categorical([1, 2])})))
    np.testing.assert_array_equal(as_numbers, as_categories)
