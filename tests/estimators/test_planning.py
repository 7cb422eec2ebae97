"""A plan against trainings in this process: the bytes of every party, and what plans refuse."""

from typing import Any

import numpy as np
import pytest

from fedforest import (
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
    LocalDP,
    Masked,
    RandomizedResponse,
    Ring,
    Shamir,
    VerticalForestClassifier,
    VerticalForestRegressor,
    VerticalLogisticRegression,
    plan,
)
from fedforest.errors import ConfigurationError
from fedforest.estimators.planning import measure_speeds
from fedforest.runtime.driver import Exchange, ExchangeLog

TOLERANCE = 0.1
OF_A_PARTY = 0.2  # who has the best columns sends more bits than others
SEED = 3


def make_table(n_rows: int, n_columns: int, n_classes: int) -> tuple[Any, Any]:
    """Make columns without ties, and labels of which every fifth is drawn at random."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n_rows, n_columns)).astype(np.float32)
    score = X[:, :: max(1, n_columns // 5)].sum(axis=1)  # some columns of every party
    if n_classes == 0:
        return X, score + rng.standard_normal(n_rows)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    noisy = rng.random(n_rows) < 0.2
    y[noisy] = rng.integers(0, n_classes, int(noisy.sum()))
    return X, y


def count_vertical(size: tuple[int, int, int], n_parties: int, **options: Any) -> tuple[Any, Any]:
    """Return what was planned, and the fitted estimator."""
    n_rows, n_columns, n_classes = size
    X, y = make_table(*size)
    kind = VerticalForestClassifier if n_classes else VerticalForestRegressor
    estimator = kind(random_state=0, n_jobs=1, **options)
    parts = np.array_split(np.arange(n_columns), n_parties)
    shapes = {f"party {number}": (n_rows, len(part)) for number, part in enumerate(parts)}
    tables = {party: X[:, part] for party, part in zip(shapes, parts, strict=True)}
    return plan(estimator, shapes, n_classes=n_classes or 2), estimator.fit(tables, y)


def count_horizontal(size: tuple[int, int, int], n_parties: int, **options: Any) -> tuple[Any, Any]:
    n_rows, n_columns, n_classes = size
    X, y = make_table(*size)
    kind = HorizontalExtraTreesClassifier if n_classes else HorizontalExtraTreesRegressor
    estimator = kind(random_state=0, n_jobs=1, **options)
    owner = np.array([f"party {row % n_parties}" for row in range(n_rows)])
    shapes = {party: (int((owner == party).sum()), n_columns) for party in np.unique(owner)}
    return plan(estimator, shapes, n_classes=n_classes or 2), estimator.fit(X, y, party=owner)


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[Exchange]:
    """Return the list that every exchange of a training is added to."""
    found: list[Exchange] = []
    add = ExchangeLog.add

    def note(log: ExchangeLog, exchange: Exchange) -> None:
        found.append(exchange)
        add(log, exchange)

    monkeypatch.setattr(ExchangeLog, "add", note)
    return found


def assert_planned(planned: Any, fitted: Any, exchanges: list[Exchange]) -> None:
    """Check the bytes of all messages together, and those that each party sends.

    How often a party is drawn is left to chance.
    """
    assert planned.n_bytes == pytest.approx(sum(e.n_bytes for e in exchanges), rel=TOLERANCE)
    if getattr(fitted, "participation", 1.0) < 1.0:
        return
    for party, sent in fitted.bytes_sent_.items():
        assert planned.bytes_from[party] == pytest.approx(sent, rel=OF_A_PARTY), party


VERTICAL = [
    ((2000, 8, 2), 2, {"n_estimators": 4, "max_depth": 4}),
    ((4000, 20, 2), 2, {"n_estimators": 10}),
    ((4000, 20, 2), 5, {"n_estimators": 10, "max_depth": 8, "min_samples_leaf": 5}),
    ((4000, 20, 4), 3, {"n_estimators": 10, "max_depth": 6}),
    ((4000, 20, 2), 2, {"n_estimators": 10, "oob_score": True}),
    ((3000, 12, 2), 2, {"n_estimators": 8, "max_depth": 5, "labels": RandomizedResponse(2.0)}),
    ((2000, 20, 0), 2, {"n_estimators": 5, "max_depth": 5}),
    ((2000, 20, 0), 3, {"n_estimators": 5}),
]


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.parametrize(("size", "n_parties", "options"), VERTICAL)
def test_planned_bytes_of_vertical_trainings_are_within_a_tenth_of_counted_ones(
    size: tuple[int, int, int],
    n_parties: int,
    options: dict[str, Any],
    exchanges: list[Exchange],
) -> None:
    assert_planned(*count_vertical(size, n_parties, **options), exchanges)


HORIZONTAL = [
    ((2000, 8, 2), 2, {"n_estimators": 10, "max_depth": 4}),
    ((4000, 20, 2), 4, {"n_estimators": 10}),
    ((4000, 20, 2), 4, {"n_estimators": 10, "aggregation": Masked()}),
    ((4000, 20, 2), 4, {"n_estimators": 20, "max_depth": 8, "participation": 0.5}),
    ((2000, 8, 2), 3, {"n_estimators": 4, "max_depth": 5, "aggregation": Ring()}),
    ((2000, 8, 2), 3, {"n_estimators": 4, "max_depth": 5, "aggregation": Shamir(2)}),
    (
        (2000, 8, 2),
        3,
        {"n_estimators": 20, "max_depth": 3, "bootstrap": False, "privacy": LocalDP(epsilon=8.0)},
    ),
    ((2000, 20, 0), 2, {"n_estimators": 5, "max_depth": 5}),
    ((2000, 20, 0), 2, {"n_estimators": 5}),
]


@pytest.mark.filterwarnings("ignore::fedforest.NoiseExceedsSignalWarning")
@pytest.mark.parametrize(("size", "n_parties", "options"), HORIZONTAL)
def test_planned_bytes_of_horizontal_trainings_are_within_a_tenth_of_counted_ones(
    size: tuple[int, int, int],
    n_parties: int,
    options: dict[str, Any],
    exchanges: list[Exchange],
) -> None:
    assert_planned(*count_horizontal(size, n_parties, **options), exchanges)


def test_a_slower_line_takes_longer_and_more_rows_take_more_of_everything() -> None:
    forest = VerticalForestClassifier(20, max_depth=6)
    near = plan(forest, {"a": (10_000, 10), "b": (10_000, 10)})
    far = plan(forest, {"a": (10_000, 10), "b": (10_000, 10)}, latency=0.05, bandwidth=1e6)
    assert far.seconds > near.seconds + 0.05 * near.n_exchanges
    assert far.line_seconds == pytest.approx(far.seconds - near.seconds)
    more = plan(forest, {"a": (100_000, 10), "b": (100_000, 10)})
    assert more.n_bytes > 5 * near.n_bytes
    assert more.seconds > near.seconds
    assert more.memory_bytes["a"] > near.memory_bytes["a"]


def test_an_hour_of_planning_is_not_needed_for_a_thousand_parties_and_a_billion_rows() -> None:
    shapes = {f"party {number}": (10**6, 40) for number in range(1000)}
    planned = plan(HorizontalExtraTreesClassifier(100, max_depth=10, transport="prod"), shapes)
    assert planned.n_trees == 100
    assert len(planned.bytes_from) == 1000


def test_a_plan_refuses_what_it_knows_nothing_of() -> None:
    shapes = {"a": (100, 3), "b": (100, 3)}
    with pytest.raises(ConfigurationError, match="there is a plan of forests"):
        plan(VerticalLogisticRegression(), shapes)
    with pytest.raises(ConfigurationError, match="columns of the table of 'b' is -1"):
        plan(VerticalForestClassifier(), {"a": (100, 3), "b": (100, -1)})
    with pytest.raises(ConfigurationError, match="n_estimators is 0"):
        plan(VerticalForestClassifier(0), shapes)
    with pytest.raises(ConfigurationError, match="bandwidth is 0"):
        plan(VerticalForestClassifier(), shapes, bandwidth=0)


@pytest.mark.slow
def test_measured_speeds_are_those_of_a_machine_that_works() -> None:
    speeds = measure_speeds(is_vertical=True, n_classes=2)
    assert speeds.is_measured
    assert 1e-10 < speeds.table_cell < 1e-5
    assert speeds.exchange < 0.1
