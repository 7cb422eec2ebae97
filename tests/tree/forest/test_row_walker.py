"""A forest prepared for single rows predicts, to the bit, what it predicts for a table."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedforest import HorizontalExtraTreesClassifier, HorizontalExtraTreesRegressor
from fedforest.errors import DataError
from fedforest.estimators.vertical.whole_forest import WholeForest
from fedforest.tree.forest.row_walker import RowWalker
from fedforest.tree.table.plain_rows import PlainRow, RowReader
from tests.estimators.vertical_samples import (
    amounts,
    classifier,
    labels,
    mixed_frame,
    numbers,
    regressor,
)


def vertical_file(forest: Any, X: Any, y: Any) -> bytes:
    forest.set_params(parties=2).fit(X, y)
    file: bytes = forest.complete_model(dict.fromkeys(forest.parties_, True))
    return file


def horizontal_file(forest: Any, X: Any, y: Any) -> bytes:
    file: bytes = forest.fit(X, y).to_bytes()
    return file


def as_rows(frame: pd.DataFrame) -> list[PlainRow]:
    """Rows as JSON has them."""
    return [
        {
            str(name): None if pd.isna(value) else getattr(value, "item", lambda v=value: v)()
            for name, value in row.items()
        }
        for row in frame.to_dict("records")
    ]


def prepared(file: bytes) -> tuple[RowReader, RowWalker]:
    whole = WholeForest.from_bytes(file)
    is_raw = whole.forest.splits.cut.dtype == np.float32
    return RowReader(whole.bins, rounds=is_raw), RowWalker(whole.forest, whole.bins)


MODELS: dict[str, Callable[[Any, Any, Any], bytes]] = {
    "vertical classes": lambda X, y, _: vertical_file(classifier(), X, y),
    "vertical numbers": lambda X, _, z: vertical_file(regressor(), X, z),
    "horizontal classes": lambda X, y, _: horizontal_file(
        HorizontalExtraTreesClassifier(6, random_state=0), X, y
    ),
    "horizontal numbers": lambda X, _, z: horizontal_file(
        HorizontalExtraTreesRegressor(6, random_state=0), X, z
    ),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("hard", [False, True])
def test_rows_get_the_votes_that_a_table_of_them_gets(kind: str, hard: bool) -> None:
    frame = mixed_frame()
    matrix = numbers()
    file = MODELS[kind](frame, labels(matrix), amounts(matrix))
    asked = mixed_frame(seed=1)
    asked.loc[::11, "city"] = "Oslo"  # a category that training did not see
    asked.loc[0, ["age", "income"]] = np.inf
    asked.loc[1, "age"] = -np.inf
    expected = WholeForest.from_bytes(file).votes(pa.Table.from_pandas(asked), hard=hard)
    reader, walker = prepared(file)
    by_name = as_rows(asked)
    in_order = [list(row.values()) for row in by_name if isinstance(row, dict)]
    np.testing.assert_array_equal(walker.votes(reader.read(by_name), hard=hard), expected)
    np.testing.assert_array_equal(walker.votes(reader.read(in_order), hard=hard), expected)
    first = walker.votes(reader.read(by_name[:1]), hard=hard)
    np.testing.assert_array_equal(first, expected[:1])


def test_values_on_an_edge_and_beside_it_go_where_their_bins_go() -> None:
    """Every edge of every column, and the floats next to it."""
    X = np.round(numbers(), 1)
    file = vertical_file(classifier(max_bins=9, n_estimators=20), X, labels(X))
    whole = WholeForest.from_bytes(file)
    edges = np.unique(np.concatenate([whole.bins.edges(c) for c in range(X.shape[1])]))
    near = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    asked = np.tile(near[:, np.newaxis], X.shape[1])
    reader, walker = prepared(file)
    expected = whole.votes(pa.table({f"x{c}": asked[:, c] for c in range(X.shape[1])}))
    np.testing.assert_array_equal(walker.votes(reader.read(asked.tolist())), expected)


def test_rows_that_are_none_of_the_models_are_refused_by_number_and_column() -> None:
    frame = mixed_frame()
    reader, _ = prepared(MODELS["horizontal classes"](frame, labels(numbers()), None))
    good = as_rows(frame)[0]
    assert isinstance(good, dict)
    short = {name: good[name] for name in good if name not in ("city", "visits")}
    with pytest.raises(DataError, match=r"^row 1 has no column 'city', 'visits', which"):
        reader.read([good, short])
    with pytest.raises(DataError, match=r"^row 0 has 2 values; the model has 6 columns$"):
        reader.read([[1, 2]])
    with pytest.raises(DataError, match=r"^row 0: column 'age' had numbers in training"):
        reader.read([{**good, "age": "forty"}])


@pytest.mark.parametrize("text", ["1.5", "nan", ""])
def test_text_is_no_number_even_if_it_looks_like_one(text: str) -> None:
    reader, _ = prepared(
        horizontal_file(HorizontalExtraTreesClassifier(2), numbers(), labels(numbers()))
    )
    tables: list[list[PlainRow]] = [[[text, 1.0, 1.0, 1.0]], [[1.0] * 4, [None, 1.0, text, 2.0]]]
    for rows in tables:
        with pytest.raises(DataError, match="had numbers in training, and has text"):
            reader.read(rows)
    with pytest.raises(DataError, match="beyond the range"):
        reader.read([[10**400, 1.0, 1.0, 1.0]])
    assert np.isnan(reader.read([[None, 1, True, 2.5]])[0, 0])
