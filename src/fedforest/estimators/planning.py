"""Plan a training before it starts: `fedforest.plan(estimator, shapes)`.

The estimator becomes the request that `fit` would make; `runtime/planning/` does the rest. Speeds
are measured here, by small trainings, because estimators carry them out.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_regressor

from fedforest.errors import ConfigurationError
from fedforest.estimators.horizontal import federation as federated_horizontal
from fedforest.estimators.horizontal import options as horizontal_options
from fedforest.estimators.horizontal.forests import (
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
)
from fedforest.estimators.inputs.validation import count_workers
from fedforest.estimators.vertical import federation as federated_vertical
from fedforest.estimators.vertical import options as vertical_options
from fedforest.estimators.vertical.forests import VerticalForestClassifier, VerticalForestRegressor
from fedforest.runtime.messages.orders import AnyRun
from fedforest.runtime.planning.plans import Machines, RunPlan, plan_run
from fedforest.runtime.planning.speeds import UNITS, Speeds, keep_speeds, load_speeds, name_kind
from fedforest.runtime.planning.tables import PlannedLine, PlannedTable, PlannedTables

_LABEL = "y"
_VERTICAL = VerticalForestClassifier, VerticalForestRegressor
_HORIZONTAL = HorizontalExtraTreesClassifier, HorizontalExtraTreesRegressor
_N_PARTIES = 2  # of the trainings that are timed
_BEST_OF = 3
_SEVERAL = 5  # classes


class _Trial(NamedTuple):
    """A training that is timed, each to be ruled by another unit of work."""

    n_rows: int
    n_columns: int
    parameters: Mapping[str, Any]


_TRIALS = (
    _Trial(60_000, 20, {"n_estimators": 1, "max_depth": 1}),
    _Trial(20_000, 20, {"n_estimators": 8, "max_depth": 6}),
    _Trial(20_000, 3, {"n_estimators": 16, "max_depth": 7, "max_features": 1}),
    _Trial(3_000, 20, {"n_estimators": 16}),
    _Trial(300, 6, {"n_estimators": 4}),
)


def plan(  # noqa: PLR0913 - what a run depends on
    estimator: Any,
    shapes: Mapping[str, Sequence[int]],
    *,
    n_classes: int = 2,
    latency: float = 0.0,
    bandwidth: float = float("inf"),
    calibrate: bool = False,
) -> RunPlan:
    """Plan what `fit` will cost: time, memory and bytes of each role.

    Parameters
    ----------
    estimator : estimator
        A vertical or horizontal forest of this package, with its parameters. With `transport`, the
        plan is one of processes on machines of their own, otherwise of all roles in this process.
    shapes : mapping of party to (rows, columns)
        The size of each party's table, without label, weights and ids.
    n_classes : int, default=2
        Classes of the label; regression has none.
    latency : float, default=0
        Seconds from a party to the coordinator and back.
    bandwidth : float, default=infinity
        Bytes per second between each party and the coordinator.
    calibrate : bool, default=False
        Measure this machine first, for some seconds, even if it was measured before. Otherwise
        speeds of an earlier measurement are used, or standard ones: `is_measured` says which.

    Returns
    -------
    RunPlan
        `seconds`, `bytes_to` and `bytes_from` by party, `memory_bytes` by party and for the
        coordinator under the empty name, and what they follow from.

    Notes
    -----
    Bytes are nearly exact for trees with a limit of depth. How large trees grow out depends on how
    hard the labels are to tell, which nobody knows before.

    Examples
    --------
    >>> from fedforest import VerticalForestClassifier, plan
    >>> forest = VerticalForestClassifier(n_estimators=100, max_depth=8)
    >>> planned = plan(forest, {"bank": (50_000, 20), "shop": (50_000, 15)})
    >>> planned.n_exchanges
    22
    >>> sorted(planned.bytes_from)
    ['bank', 'shop']
    """
    order = order_of(estimator, list(shapes))
    tables = PlannedTables(
        {party: PlannedTable(*map(int, shape)) for party, shape in shapes.items()}, n_classes
    )
    line = PlannedLine(latency, bandwidth)
    n_cores = count_workers(estimator.n_jobs)
    machines = Machines(line, in_process=estimator.transport is None, n_cores=n_cores)
    speeds = speeds_for(order, n_classes, anew=calibrate, or_standard=not calibrate)
    return plan_run(order, tables, machines, speeds)


def order_of(estimator: Any, parties: Sequence[str]) -> AnyRun:
    """Return the request that `fit` would make with data sets of these parties."""
    task = "regression" if is_regressor(estimator) else "classification"
    data = {party: party for party in parties}
    if isinstance(estimator, _VERTICAL):
        estimator = clone(estimator).set_params(parties=None)
        return federated_vertical.order_training(
            estimator, vertical_options.read_options(estimator, task), (data, _LABEL, None), None
        )
    if isinstance(estimator, _HORIZONTAL):
        given = (data, _LABEL, None, None)
        options = horizontal_options.read_options(estimator, task)
        return federated_horizontal.order_training(estimator, options, given)
    raise ConfigurationError(f"there is a plan of forests of this package, not of {estimator!r}")


def speeds_for(
    order: AnyRun, n_classes: int, *, anew: bool = False, or_standard: bool = False
) -> Speeds:
    """Return the speeds of this machine; measured where they were not, or where `anew` asks."""
    regresses = getattr(order, "is_regression", False)
    is_vertical = hasattr(order, "label_party")
    kind = name_kind("vertical" if is_vertical else "horizontal", 0 if regresses else n_classes)
    speeds = load_speeds(kind)
    if not anew and (speeds.is_measured or or_standard):
        return speeds
    speeds = measure_speeds(is_vertical=is_vertical, n_classes=0 if regresses else n_classes)
    keep_speeds(kind, speeds)
    return speeds


def measure_speeds(*, is_vertical: bool, n_classes: int) -> Speeds:
    """Time small trainings of two parties on one thread, and solve for the units of work."""
    rows, seconds = [], []
    for trial in _TRIALS:
        estimator = _make_estimator(is_vertical=is_vertical, n_classes=n_classes, trial=trial)
        shape = (trial.n_rows, trial.n_columns // _N_PARTIES)
        if not is_vertical:
            shape = (trial.n_rows // _N_PARTIES, trial.n_columns)
        shapes = {f"party {number}": shape for number in range(_N_PARTIES)}
        order = order_of(estimator, list(shapes))
        tables = {party: PlannedTable(*each) for party, each in shapes.items()}
        planned = PlannedTables(tables, n_classes or 2)
        here = Machines(in_process=True)
        units = [Speeds.measured({unit: 1.0}) for unit in UNITS]
        rows.append([plan_run(order, planned, here, unit).seconds for unit in units])
        seconds.append(_time(estimator, trial, n_classes, is_vertical=is_vertical))
    found = _solve(np.array(rows), np.array(seconds))
    return Speeds.measured(dict(zip(UNITS, found, strict=True)))


def _solve(units: Any, seconds: Any) -> list[float]:
    """Return what a unit of each kind takes, none of them negative, by the least relative error."""
    from scipy.optimize import nnls  # noqa: PLC0415 - comes with scikit-learn, and takes its time

    found, _ = nnls(units / seconds[:, None], np.ones(len(seconds)))
    return [float(value) for value in found]


def _make_estimator(*, is_vertical: bool, n_classes: int, trial: _Trial) -> Any:
    kinds = _VERTICAL if is_vertical else _HORIZONTAL
    return kinds[n_classes == 0](random_state=0, n_jobs=1, **trial.parameters)


def _time(estimator: Any, trial: _Trial, n_classes: int, *, is_vertical: bool) -> float:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((trial.n_rows, trial.n_columns)).astype(np.float32)
    score = X[:, : min(5, trial.n_columns)].sum(axis=1)
    y = score + rng.standard_normal(trial.n_rows)
    if n_classes:
        n_kept = min(n_classes, _SEVERAL)
        y = np.searchsorted(np.quantile(score, np.arange(1, n_kept) / n_kept), score)
        noisy = rng.random(trial.n_rows) < 0.2
        y[noisy] = rng.integers(0, n_kept, int(noisy.sum()))
    if is_vertical:
        estimator.set_params(parties=_N_PARTIES)
    owner = {} if is_vertical else {"party": np.arange(trial.n_rows) % _N_PARTIES}
    best = float("inf")
    for _ in range(_BEST_OF):
        begun = time.process_time()
        estimator.fit(X, y, **owner)
        best = min(best, time.process_time() - begun)
    return best
