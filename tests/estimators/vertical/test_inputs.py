"""What vertical forests are given: tables of all kinds, and mistakes."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from fedforest.errors import ConfigurationError, DataError
from fedforest.estimators.pooled import PooledForest
from fedforest.tree.files.forests import encode_forest
from tests.estimators.vertical_samples import (
    N_ROWS,
    amounts,
    by_party,
    classifier,
    consent_of,
    few_trees,
    fitted_state,
    forest_bytes,
    frame_labels,
    labels,
    mixed_frame,
    numbers,
    regressor,
)


def pooled_bytes(X: Any, y: Any, **parameters: Any) -> bytes:
    forest = PooledForest(**{"n_estimators": 6, "random_state": 0, **parameters}).fit(X, y)
    return encode_forest(forest.forest_, forest.bins_)


@pytest.mark.parametrize("parties", [None, 1, 2, 3, 6])
def test_mixed_columns_with_missing_values_give_the_pooled_forest(parties: int | None) -> None:
    frame = mixed_frame()
    y = frame_labels(frame)
    forest = classifier(parties=parties).fit(frame, y)
    assert forest_bytes(forest) == pooled_bytes(frame, y)
    assert forest.score(frame, y) > 0.9


@pytest.mark.parametrize("parties", [None, 2, 4])
def test_a_regression_forest_is_the_pooled_one(parties: int | None) -> None:
    X = numbers()
    y = amounts(X)
    forest = regressor(parties=parties).fit(X, y)
    expected = pooled_bytes(X, y, task="regression", max_features=1.0)
    assert forest_bytes(forest) == expected


def test_frames_arrow_tables_mappings_and_arrays_give_one_forest() -> None:
    X = numbers()
    y = labels(X)
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names)
    named = [frame, pa.Table.from_pandas(frame)]
    expected = forest_bytes(classifier(parties=2).fit(frame, y))
    for table in named:
        assert forest_bytes(classifier(parties=2).fit(table, y)) == expected
    halves = [
        {"bank": frame[["a", "b"]], "shop": frame[["c", "d"]]},
        {"bank": {"a": X[:, 0], "b": X[:, 1]}, "shop": pa.table({"c": X[:, 2], "d": X[:, 3]})},
    ]
    for tables in halves:
        assert forest_bytes(classifier().fit(tables, y)) == expected
    bare = classifier(parties=2).fit(X, y)
    assert bare.predict(X).tolist() == classifier(parties=2).fit(frame, y).predict(frame).tolist()
    assert not hasattr(bare, "feature_names_in_")


def test_columns_of_a_partys_table_are_matched_by_name() -> None:
    frame = mixed_frame()
    y = frame_labels(frame)
    tables = {"bank": frame[["age", "income"]], "shop": frame[["city", "size", "visits"]]}
    forest = classifier().fit(tables, y)
    shuffled = {"shop": frame[["visits", "city", "size"]], "bank": frame[["income", "age"]]}
    assert forest.predict_proba(shuffled).tolist() == forest.predict_proba(tables).tolist()


def test_columns_of_one_table_in_another_order_are_refused() -> None:
    frame = mixed_frame()
    forest = classifier(parties=2).fit(frame, frame_labels(frame))
    with pytest.raises(DataError, match="same order"):
        forest.predict(frame[frame.columns[::-1]])


def test_parties_may_divide_columns_by_name_in_any_order_and_leave_some_out() -> None:
    frame = mixed_frame()
    y = frame_labels(frame)
    parties = {"shop": ["city", "age"], "bank": ["visits"]}
    forest = classifier(parties=parties).fit(frame, y)
    assert forest_bytes(forest) == pooled_bytes(frame[["city", "age", "visits"]], y)
    importance = dict(zip(frame.columns, forest.feature_importances_, strict=True))
    assert importance["income"] == importance["size"] == 0
    assert importance["age"] > 0
    assert forest.score(frame, y) > 0.9


@few_trees
def test_a_party_without_columns_takes_part_even_as_the_label_party() -> None:
    X = numbers()
    y = labels(X)
    nothing = np.empty((N_ROWS, 0))
    expected = forest_bytes(classifier().fit(X, y))
    for settings in ({}, {"oob_score": True}):
        tables = {"clinic": nothing, "bank": X[:, :2], "registry": nothing, "shop": X[:, 2:]}
        forest = classifier(label_party="registry", **settings).fit(tables, y)
        assert forest_bytes(forest) == expected
        assert forest.predict(tables).tolist() == classifier().fit(X, y).predict(X).tolist()


def test_categories_that_training_did_not_see_are_predicted_like_missing_values() -> None:
    frame = mixed_frame()
    forest = classifier(parties=2).fit(frame, frame_labels(frame))
    foreign = frame.assign(city="Atlantis")
    missing = frame.assign(city=pd.Series([None] * N_ROWS, dtype=object))
    assert forest.predict_proba(foreign).tolist() == forest.predict_proba(missing).tolist()


def test_labels_of_any_type_come_back_as_they_were() -> None:
    X = numbers()
    y = labels(X)
    for given in (y, y.astype(object), pd.Series(y), pd.Series(y, dtype="category"), y == "red"):
        forest = classifier(parties=2).fit(X, given)
        assert set(forest.predict(X).tolist()) <= set(np.asarray(given).tolist())


def test_balanced_classes_are_the_mapping_with_balanced_weights() -> None:
    X = numbers()
    y = labels(X)
    names, counts = np.unique(y, return_counts=True)
    mapping = dict(zip(names.tolist(), (N_ROWS / (3 * counts)).tolist(), strict=True))
    balanced = classifier(class_weight="balanced", parties=2).fit(X, y)
    assert forest_bytes(balanced) == forest_bytes(classifier(class_weight=mapping).fit(X, y))
    by_row = np.array([mapping[label] for label in y])
    weighted = classifier(parties=2).fit(X, y, sample_weight=by_row)
    assert forest_bytes(balanced) == forest_bytes(weighted)
    assert forest_bytes(balanced) != forest_bytes(classifier().fit(X, y))


def test_rows_without_weight_have_no_influence_on_leaves() -> None:
    X = numbers()
    y = labels(X)
    weight = np.ones(N_ROWS)
    weight[y == "red"] = 0.0
    forest = classifier(parties=2).fit(X, y, sample_weight=weight)
    assert forest.classes_.tolist() == ["blue", "green", "red"]
    assert (forest.predict_proba(X)[:, 2] == 0).all()


def test_hard_votes_are_the_share_of_trees_whose_leaf_has_that_majority() -> None:
    X = numbers()
    forest = classifier(voting="hard", max_depth=2, parties=2).fit(X, labels(X))
    leaf_of, outline = forest.apply(X), forest._model.outline
    share = np.zeros((N_ROWS, 3))
    for tree in range(forest.n_trees_):
        for row in range(N_ROWS):
            leaf = outline.shape.tree_start[tree] + leaf_of[row, tree]
            entries = slice(*outline.leaves.start[leaf : leaf + 2])
            best = outline.leaves.label[entries][outline.leaves.value[entries].argmax()]
            share[row, best] += 1 / forest.n_trees_
    assert np.allclose(forest.predict_proba(X), share)
    assert forest.predict(X).tolist() == forest.classes_[share.argmax(axis=1)].tolist()


def test_with_columns_sampled_per_tree_no_tree_uses_more_than_its_sample() -> None:
    X = numbers(n_columns=8)
    y = labels(X)
    forest = classifier(feature_sampling="tree", max_features=3, parties=3).fit(X, y)
    whole = forest.union(consent_of(forest))
    for tree in range(6):
        nodes = slice(*whole.shape.tree_start[tree : tree + 2])
        used = set(whole.splits.feature[nodes].tolist()) - {-1}
        assert 1 <= len(used) <= 3
    assert forest_bytes(forest) == pooled_bytes(X, y, feature_sampling="tree", max_features=3)


@pytest.mark.parametrize("prediction", ["auto", "one_round", "classical", 1, 2, 1000])
def test_every_way_of_predicting_finds_the_same_leaves(prediction: str | int) -> None:
    X = numbers()
    tables = by_party(X)
    forest = classifier(n_estimators=3).fit(tables, labels(X))
    expected = forest.apply(tables)
    assert forest.set_params(prediction=prediction).apply(tables).tolist() == expected.tolist()


def _cases() -> dict[str, tuple[Any, Any, dict[str, Any], type[Exception], str]]:
    X = numbers()
    y = labels(X)
    tables = by_party(X)
    short = {"bank": X[:, :2], "shop": X[:-1, 2:]}
    with_gap = y.astype(object)
    with_gap[3] = None
    twice = {"bank": [0, 1], "shop": [1, 2]}
    named = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    return {
        "different row counts": (short, y, {}, DataError, "'bank' has 150, 'shop' has 149"),
        "a column given twice": (X, y, {"parties": twice}, ConfigurationError, "again to 'shop'"),
        "a column that is not there": (X, y, {"parties": {"a": [9]}}, ConfigurationError, "9"),
        "a name that is not there": (
            named,
            y,
            {"parties": {"bank": ["a", "z"]}},
            ConfigurationError,
            "'z'",
        ),
        "a repeated column name": (
            pd.DataFrame(X, columns=list("abca")),
            y,
            {},
            DataError,
            "'a' is repeated",
        ),
        "an unknown label party": (
            tables,
            y,
            {"label_party": "clinic"},
            ConfigurationError,
            "'clinic', but the parties are 'bank', 'shop'",
        ),
        "parties given twice over": (tables, y, {"parties": 2}, ConfigurationError, "parties=None"),
        "no parties": ({}, y, {}, DataError, "empty mapping"),
        "a nameless party": ({"": X}, y, {}, DataError, "not empty"),
        "no columns at all": ({"a": X[:, :0]}, y, {}, DataError, "0 feature"),
        "no labels": (tables, None, {}, DataError, "requires y"),
        "missing labels": (tables, with_gap, {}, DataError, "missing in 1 row"),
        "too few labels": (tables, y[:-1], {}, DataError, "each of the 150 rows"),
        "labels of two columns": (tables, np.column_stack([y, y]), {}, DataError, "shape"),
        "continuous labels": (tables, amounts(X), {}, DataError, "Unknown label type"),
        "frames in another order": (
            {"bank": named[["a"]], "shop": named[["b"]].iloc[::-1]},
            y,
            {},
            DataError,
            "'bank' and 'shop' hold the same rows in another order",
        ),
        "labels in another order": (
            {"bank": X[:, :2], "shop": named[["b"]]},
            pd.Series(y)[::-1],
            {},
            DataError,
            r"index of y holds the rows of X in another order.*y\.reindex",
        ),
        "a list of tables": ([named, named], y, {}, DataError, "mapping from party to table"),
        "a mapping of columns": (dict(named), y, {}, DataError, "one table for each party"),
        "a sparse table": (sparse.dok_array(X), y, {}, DataError, "sparse"),
        "text where columns are": ({"a": X, "b": "text"}, y, {}, DataError, "'b'"),
        "more samples than rows": (X, y, {"max_samples": 500}, ConfigurationError, "max_samples"),
        "more features than columns": (
            X,
            y,
            {"max_features": 5},
            ConfigurationError,
            "at most the 4 columns",
        ),
    }


@few_trees
@pytest.mark.parametrize("case", _cases())
def test_a_mistake_is_named_and_leaves_the_fitted_forest_as_it_was(case: str) -> None:
    X, y, parameters, error, message = _cases()[case]
    matrix = numbers()
    forest = classifier(oob_score=True).fit(matrix, labels(matrix))
    before = fitted_state(forest)
    with pytest.raises(error, match=message):
        forest.set_params(**parameters).fit(X, y)
    assert fitted_state(forest) == before
    with pytest.raises(error, match=message):
        classifier(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("values", "message"),
    [(np.nan, "NaN or infinite in 1 row"), (np.inf, "NaN or infinite in 1 row")],
)
def test_a_regression_target_must_be_finite(values: float, message: str) -> None:
    X = numbers()
    y = amounts(X)
    y[4] = values
    with pytest.raises(DataError, match=message):
        regressor().fit(by_party(X), y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3), "each of the 150 rows"),
        (-np.ones(N_ROWS), "negative"),
        (np.full(N_ROWS, np.nan), "NaN"),
        (np.zeros(N_ROWS), "every sample weight is zero"),
        (["heavy"] * N_ROWS, "other than numbers"),
    ],
)
def test_a_wrong_sample_weight_is_named(weight: Any, message: str) -> None:
    X = numbers()
    forest = classifier().fit(by_party(X), labels(X))
    before = fitted_state(forest)
    with pytest.raises(DataError, match=message):
        forest.fit(by_party(X), labels(X), sample_weight=weight)
    assert fitted_state(forest) == before


def test_tables_to_predict_that_do_not_fit_are_refused_by_name() -> None:
    X = numbers()
    tables = by_party(X)
    forest = classifier().fit(tables, labels(X))
    wrong: dict[str, Any] = {
        "'bank' has 10, 'shop' has 9": {"bank": X[:10, :2], "shop": X[:9, 2:]},
        "parties that training had not: 'clinic'": {**tables, "clinic": X},
        "lacks the tables of these parties: 'shop'": {"bank": X[:, :2]},
        "X is one table, but training had a table from each party": X,
        "party 'shop': X has 3 features": {"bank": X[:, :2], "shop": X[:, 1:]},
        "no rows": {"bank": X[:0, :2], "shop": X[:0, 2:]},
    }
    for message, given in wrong.items():
        with pytest.raises(DataError, match=message):
            forest.predict(given)
    with pytest.raises(DataError, match="X is a mapping, but training had one table"):
        classifier().fit(X, labels(X)).predict(tables)


def test_a_partys_columns_of_other_names_are_refused() -> None:
    frame = mixed_frame()
    tables = {"bank": frame[["age", "income"]], "shop": frame[["city"]]}
    forest = classifier().fit(tables, frame_labels(frame))
    renamed = {"bank": frame[["age", "visits"]], "shop": frame[["city"]]}
    with pytest.raises(DataError, match=r"party 'bank'.*\n.*unseen at fit time:\n- visits"):
        forest.predict(renamed)


def test_text_where_training_had_numbers_is_refused() -> None:
    frame = mixed_frame()
    forest = classifier(parties=2).fit(frame, frame_labels(frame))
    with pytest.raises(DataError, match="party 'party_0': column 'age' was numeric in training"):
        forest.predict(frame.assign(age="old"))


def test_series_in_the_order_of_the_table_or_of_other_rows_go_by_position() -> None:
    frame = mixed_frame()
    y = pd.Series(frame_labels(frame), index=frame.index)
    by_position = forest_bytes(classifier().fit(frame, y.to_numpy()))
    renumbered = y.set_axis(range(1000, 1000 + len(y)))  # rows of another table: not a reordering
    for labels_ in (y, renumbered):
        assert forest_bytes(classifier().fit(frame, labels_)) == by_position
    weights = pd.Series(np.arange(1.0, len(y) + 1), index=frame.index)
    with pytest.raises(DataError, match="index of sample_weight"):
        classifier().fit(frame, y, sample_weight=weights[::-1])


@pytest.mark.parametrize("make", [classifier, regressor])
def test_rows_without_out_of_bag_votes_are_warned_of(make: Any) -> None:
    X = numbers()
    y = labels(X) if make is classifier else amounts(X)
    with pytest.warns(UserWarning, match="Some inputs do not have OOB scores") as caught:
        forest = make(n_estimators=1, oob_score=True).fit(X, y)
    assert caught[0].filename == __file__
    votes = forest.oob_decision_function_ if make is classifier else forest.oob_prediction_
    assert np.isnan(votes).any()
    make(n_estimators=60, oob_score=True).fit(X, y)  # all have votes: warnings are errors here
