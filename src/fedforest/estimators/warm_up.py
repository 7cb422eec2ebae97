"""Small trainings of every kind, whose only purpose is that all kernels are compiled afterwards."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    columns = {"first": X[:, :3], "second": X[:, 3:]}
    party = ["first", "second"] * (N_ROWS // 2)
    settings: dict[str, Any] = {"n_estimators": 4, "max_depth": 6, "random_state": 0}
    by_columns = VerticalForestClassifier(**settings, oob_score=True)
    yield "classes, by columns", lambda: by_columns.fit(columns, classes).predict(columns)
    numbers = VerticalForestRegressor(**settings)
    yield "numbers, by columns", lambda: numbers.fit(columns, targets).predict(columns)
    for aggregation in ("plain", Masked()):
        by_rows = HorizontalExtraTreesClassifier(**settings, aggregation=aggregation)
        name = str(aggregation).partition("(")[0].lower()
        yield f"classes, by rows, {name} sums", partial(by_rows.fit, X, classes, party=party)
    measured = HorizontalExtraTreesRegressor(**settings, aggregation=Masked())
    yield "numbers, by rows", lambda: measured.fit(X, targets, party=party).predict(X)
    for noise in (LocalDP(keep=0.9), GlobalDP(epsilon_total=100.0)):
        noisy = HorizontalExtraTreesClassifier(**settings, privacy=noise)
        name = type(noise).__name__
        yield f"classes, by rows, {name}", partial(noisy.fit, X, classes, party=party)


def _draw_rows() -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Numbers, some of them missing; three classes of them; a target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6))
    targets = X[:, 0] + X[:, 3] + 0.1 * rng.normal(size=N_ROWS)
    X[rng.random(X.shape) < 0.02] = np.nan
    return X, np.digitize(targets, [-1.0, 1.0]), targets
