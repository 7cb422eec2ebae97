"""Six shapes of trainings whose plans are compared with what they take."""

from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import timed
from benchmarks.tasks import SEED
from fedforest import (
    HorizontalExtraTreesClassifier,
    VerticalForestClassifier,
    VerticalForestRegressor,
    plan,
)


class Shape(NamedTuple):
    """A training in one process on one thread."""

    name: str
    estimator: type[Any]
    n_rows: int
    n_columns: int
    n_classes: int  # 0: numbers
    n_trees: int
    max_depth: int | None


SHAPES = (
    Shape("tall", VerticalForestClassifier, 400_000, 10, 2, 20, 8),
    Shape("deep", VerticalForestClassifier, 50_000, 40, 2, 50, 14),
    Shape("grown out", VerticalForestClassifier, 20_000, 20, 2, 50, None),
    Shape("ten classes", VerticalForestClassifier, 40_000, 20, 10, 30, 10),
    Shape("numbers", VerticalForestRegressor, 60_000, 20, 0, 30, 10),
    Shape("by rows", HorizontalExtraTreesClassifier, 100_000, 20, 2, 50, 10),
)
N_PARTIES = 2
_QUICK = 50  # times fewer rows


def plan_shape(shape: Shape, *, quick: bool = False) -> dict[str, Any]:
    """Plan a shape with the speeds of this machine, and train it: processor seconds and bytes."""
    n_rows = shape.n_rows // (_QUICK if quick else 1)
    estimator = shape.estimator(
        n_estimators=shape.n_trees, max_depth=shape.max_depth, random_state=SEED, n_jobs=1
    )
    X, y = _make_table(n_rows, shape)
    is_vertical = shape.estimator is not HorizontalExtraTreesClassifier
    size = (n_rows, shape.n_columns // N_PARTIES)
    if not is_vertical:
        size = (n_rows // N_PARTIES, shape.n_columns)
    shapes = {f"party {number}": size for number in range(N_PARTIES)}
    planned = plan(estimator, shapes, n_classes=shape.n_classes or 2, calibrate=not quick)
    if is_vertical:
        estimator.set_params(parties=N_PARTIES)
    more = {} if is_vertical else {"party": np.arange(n_rows) % N_PARTIES}
    estimator.fit(X[:1_000], y[:1_000], **{name: own[:1_000] for name, own in more.items()})
    _, cost = timed(lambda: estimator.fit(X, y, **more))
    return {
        "planned_seconds": planned.seconds,
        "cpu": cost.cpu,
        "planned_bytes": planned.n_bytes,
        "bytes": sum(estimator.bytes_sent_.values()),
        "planned_bytes_from": sum(planned.bytes_from.values()),
    }


def _make_table(n_rows: int, shape: Shape) -> tuple[Any, Any]:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n_rows, shape.n_columns), np.float32)
    score = X[:, :5].sum(axis=1) + rng.standard_normal(n_rows)
    if shape.n_classes == 0:
        return X, score
    edges = np.quantile(score, np.arange(1, shape.n_classes) / shape.n_classes)
    return X, np.searchsorted(edges, score)
