"""Small trainings of every kind, whose only purpose is that all kernels are compiled afterwards."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from fedforest.estimators.horizontal import (
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
)
from fedforest.estimators.vertical import VerticalForestClassifier, VerticalForestRegressor
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.options import Masked

N_ROWS = 400


def compile_kernels(tell: Callable[[str], None]) -> None:
    """Train what people usually train, on a few rows; `tell` hears what comes next."""
    for what, train in _trainings():
        tell(what)
        train()


def _trainings() -> Iterator[tuple[str, Callable[[], object]]]:
    X, classes, targets = _draw_rows()
    columns = {"first": X.iloc[:, :3], "second": X.iloc[:, 3:]}
    party = ["first", "second"] * (N_ROWS // 2)
    settings = {"n_estimators": 4, "max_depth": 6, "random_state": 0}
    by_columns = VerticalForestClassifier(**settings, oob_score=True)
    yield "classes, by columns", lambda: by_columns.fit(columns, classes).predict(columns)
    numbers = VerticalForestRegressor(**settings)
    yield "numbers, by columns", lambda: numbers.fit(columns, targets).predict(columns)
    for aggregation in ("plain", Masked()):
        by_rows = HorizontalExtraTreesClassifier(**settings, aggregation=aggregation)
        name = str(aggregation).partition("(")[0].lower()
        yield (
            f"classes, by rows, {name} sums",
            lambda forest=by_rows: forest.fit(X, classes, party=party).predict(X),
        )
    measured = HorizontalExtraTreesRegressor(**settings, aggregation=Masked())
    yield "numbers, by rows", lambda: measured.fit(X, targets, party=party).predict(X)
    for noise in (LocalDP(keep=0.9), GlobalDP(epsilon_total=100.0)):
        noisy = HorizontalExtraTreesClassifier(**settings, privacy=noise)
        yield (
            f"classes, by rows, {type(noise).__name__}",
            lambda forest=noisy: forest.fit(X, classes, party=party),
        )


def _draw_rows() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Numbers, some of them missing, and a category."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(N_ROWS, 5))
    targets = values[:, 0] + values[:, 3] + 0.1 * rng.normal(size=N_ROWS)
    values[rng.random(values.shape) < 0.02] = np.nan
    X = pd.DataFrame(values, columns=[f"x{number}" for number in range(5)])
    X["kind"] = pd.Categorical(np.where(targets > rng.normal(size=N_ROWS), "a", "b"))
    return X, np.digitize(targets, [-1.0, 1.0]), targets
