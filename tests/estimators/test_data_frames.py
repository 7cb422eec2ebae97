"""Every estimator learns the same from data frames of every library, and heeds their names."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fedforest import (
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
    VerticalForestClassifier,
    VerticalForestRegressor,
    VerticalLinearRegression,
    VerticalLogisticRegression,
)
from fedforest.errors import DataError
from tests.data_frame_kinds import KINDS, every_kind, make_series
from tests.estimators.vertical_samples import forest_bytes

N_ROWS = 60
BANK = ("age", "town")  # the bank's columns; the shop has the others


def make_columns() -> dict[str, list[Any]]:
    """Numbers, whole numbers, truth values and text, each with missing values."""
    rng = np.random.default_rng(3)
    towns = ["Bonn", "Kiel", "Ulm"]
    columns: dict[str, list[Any]] = {
        "age": rng.normal(40.0, 9.0, N_ROWS).tolist(),
        "town": [towns[number] for number in rng.integers(0, 3, N_ROWS)],
        "visits": rng.integers(0, 20, N_ROWS).tolist(),
        "member": (rng.random(N_ROWS) < 0.5).tolist(),
    }
    for values in columns.values():
        values[int(rng.integers(N_ROWS))] = None
    return columns


COLUMNS = make_columns()
WEIGHTS = np.random.default_rng(4).integers(1, 4, N_ROWS).tolist()
OWNERS = [["clinic", "hospital"][row % 2] for row in range(N_ROWS)]
AMOUNTS = [
    float(visits or 0) + (town == "Ulm")
    for visits, town in zip(COLUMNS["visits"], COLUMNS["town"], strict=True)
]
CLASSES = ["few" if amount < 10.0 else "many" for amount in AMOUNTS]


class Case(NamedTuple):
    """An estimator on one table, and what is compared of it."""

    make: Callable[[], Any]
    target: list[Any]
    to_bytes: Callable[[Any], bytes]


def vertical_bytes(forest: Any) -> bytes:
    return forest_bytes(forest) + repr(getattr(forest, "classes_", None)).encode()


def linear_bytes(model: Any) -> bytes:
    parts = (model.coef_, model.intercept_, getattr(model, "classes_", None))
    return repr([None if part is None else np.asarray(part).tolist() for part in parts]).encode()


def horizontal_bytes(forest: Any) -> bytes:
    file: bytes = forest.to_bytes()
    return file


FEW: dict[str, Any] = {"n_estimators": 3, "random_state": 0}
VERTICAL = {
    "forest of classes": Case(lambda: VerticalForestClassifier(**FEW), CLASSES, vertical_bytes),
    "forest of numbers": Case(lambda: VerticalForestRegressor(**FEW), AMOUNTS, vertical_bytes),
    "logistic": Case(VerticalLogisticRegression, CLASSES, linear_bytes),
    "linear": Case(VerticalLinearRegression, AMOUNTS, linear_bytes),
}
HORIZONTAL = {
    "classes": Case(lambda: HorizontalExtraTreesClassifier(**FEW), CLASSES, horizontal_bytes),
    "numbers": Case(lambda: HorizontalExtraTreesRegressor(**FEW), AMOUNTS, horizontal_bytes),
}
vertical = pytest.mark.parametrize("case", VERTICAL.values(), ids=VERTICAL)
horizontal = pytest.mark.parametrize("case", HORIZONTAL.values(), ids=HORIZONTAL)
_EXPECTED: dict[tuple[object, ...], Any] = {}


def of_pandas(outcome: Callable[[str, Case], Any], case: Case) -> Any:
    """What a test finds with pandas, found once."""
    key = (outcome.__name__, id(case))
    if key not in _EXPECTED:
        _EXPECTED[key] = outcome("pandas", case)
    return _EXPECTED[key]


def by_party(kind: str, *, is_reversed: bool = False) -> dict[str, Any]:
    shop = [name for name in COLUMNS if name not in BANK]
    step = -1 if is_reversed else 1
    parts = {"bank": list(BANK)[::step], "shop": shop[::step]}
    return {party: KINDS[kind](pick(names)) for party, names in parts.items()}


def pick(names: list[str]) -> dict[str, list[Any]]:
    return {name: COLUMNS[name] for name in names}


def reversed_frame(kind: str) -> Any:
    return KINDS[kind](pick(list(COLUMNS)[::-1]))


def one_table(kind: str, case: Case) -> tuple[bytes, list[str]]:
    """Of one table that `parties` divides, with target and weights of the same library."""
    model = case.make().set_params(parties={"bank": BANK, "shop": ["visits", "member"]})
    target, weights = make_series(kind, case.target), make_series(kind, WEIGHTS)
    model.fit(KINDS[kind](COLUMNS), target, sample_weight=weights)
    return case.to_bytes(model), model.feature_names_in_.tolist()


def tables_of_parties(kind: str, case: Case) -> tuple[bytes, list[str]]:
    model = case.make().fit(by_party(kind), make_series(kind, case.target))
    return case.to_bytes(model), model.feature_names_in_.tolist()


def rows_of_owners(kind: str, case: Case) -> bytes:
    target, weights = make_series(kind, case.target), make_series(kind, WEIGHTS)
    model = case.make().fit(
        KINDS[kind](COLUMNS), target, sample_weight=weights, party=make_series(kind, OWNERS)
    )
    return case.to_bytes(model)


def rows_of_parties(kind: str, case: Case) -> bytes:
    halves = {"clinic": slice(0, 30), "hospital": slice(30, N_ROWS)}
    tables = {
        party: KINDS[kind]({name: values[rows] for name, values in COLUMNS.items()})
        for party, rows in halves.items()
    }
    targets = {party: make_series(kind, case.target[rows]) for party, rows in halves.items()}
    weights = {party: make_series(kind, WEIGHTS[rows]) for party, rows in halves.items()}
    return case.to_bytes(case.make().fit(tables, targets, sample_weight=weights))


@every_kind
@vertical
def test_one_table_of_any_library_gives_the_same_model(kind: str, case: Case) -> None:
    model, names = one_table(kind, case)
    assert model == of_pandas(one_table, case)[0]
    assert names == list(COLUMNS)


@every_kind
@vertical
def test_tables_of_parties_of_any_library_give_the_same_model(kind: str, case: Case) -> None:
    assert tables_of_parties(kind, case) == of_pandas(tables_of_parties, case)


@every_kind
@horizontal
def test_rows_of_owners_of_any_library_give_the_same_model(kind: str, case: Case) -> None:
    assert rows_of_owners(kind, case) == of_pandas(rows_of_owners, case)


@every_kind
@horizontal
def test_rows_of_parties_of_any_library_give_the_same_model(kind: str, case: Case) -> None:
    assert rows_of_parties(kind, case) == of_pandas(rows_of_parties, case)


@every_kind
@vertical
def test_a_table_with_reversed_columns_is_refused(kind: str, case: Case) -> None:
    model = case.make().set_params(parties=2).fit(KINDS[kind](COLUMNS), case.target)
    with pytest.raises(DataError, match="must be in the same order as they were in fit"):
        model.predict(reversed_frame(kind))


@every_kind
@vertical
def test_reversed_columns_of_parties_are_found_by_name(kind: str, case: Case) -> None:
    model = case.make().fit(by_party(kind), case.target)
    expected = model.predict(by_party(kind)).tolist()
    assert model.predict(by_party(kind, is_reversed=True)).tolist() == expected


@every_kind
@horizontal
def test_reversed_columns_of_horizontal_tables_are_refused(kind: str, case: Case) -> None:
    model = case.make().fit(KINDS[kind](COLUMNS), case.target, party=OWNERS)
    with pytest.raises(DataError, match="must be in the same order as they were in fit"):
        model.predict(reversed_frame(kind))


def test_models_of_one_library_predict_tables_of_another() -> None:
    model = VERTICAL["forest of classes"].make().fit(pl.DataFrame(COLUMNS), CLASSES)
    expected = model.predict_proba(pl.DataFrame(COLUMNS)).tolist()
    for make in KINDS.values():
        assert model.predict_proba(make(COLUMNS)).tolist() == expected
    with pytest.raises(DataError, match="unseen at fit time"):
        model.predict(pd.DataFrame(COLUMNS).rename(columns={"age": "years"}))


def test_a_target_as_a_frame_of_one_column_is_a_vector_with_a_warning() -> None:
    case = VERTICAL["forest of classes"]
    with pytest.warns(UserWarning, match="column-vector y"):
        forest = case.make().fit(pl.DataFrame(COLUMNS), pl.DataFrame({"y": CLASSES}))
    assert forest_bytes(forest) == forest_bytes(case.make().fit(pd.DataFrame(COLUMNS), CLASSES))


def test_lazy_targets_and_tables_are_refused() -> None:
    case = VERTICAL["forest of classes"]
    with pytest.raises(DataError, match=r"the table is a lazy frame"):
        case.make().fit(pl.LazyFrame(COLUMNS), CLASSES)
    with pytest.raises(DataError, match=r"The target is a lazy frame"):
        case.make().fit(pl.DataFrame(COLUMNS), pl.LazyFrame({"y": CLASSES}))
    with pytest.raises(DataError, match=r"party 'bank': the table is a lazy frame"):
        case.make().fit({"bank": pl.LazyFrame(COLUMNS)}, CLASSES)


def test_missing_targets_of_any_library_are_refused() -> None:
    target = [None, *CLASSES[1:]]
    for kind in KINDS:
        with pytest.raises(DataError, match="The target is missing in 1 row"):
            VERTICAL["logistic"].make().fit(KINDS[kind](COLUMNS), make_series(kind, target))
