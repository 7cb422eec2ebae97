"""Federated Forest, Figures 6, 7 and 8: prediction time of the classical walk and of one round.

Two parties are processes of their own, over mutual TLS, once directly and once over a line with
20 ms of added round trip. The classical walk is really run: an exchange for every row and node. So
that it ends, rows of a test set are few; both other ways predict the same rows, and in Figure 8
whole test sets as well.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedforest import VerticalForestClassifier
from fedforest.errors import DataError
from fedforest.experiments.experiment import Cell, Experiment, Measured, Setting
from fedforest.experiments.live.line import Line
from fedforest.experiments.live.prediction_parties import (
    AUTO,
    CLASSICAL,
    MANNERS,
    ONE_ROUND_NAME,
    PredictionParties,
    predict,
)
from fedforest.experiments.live.prediction_time_report import (
    ALL_ROWS,
    DIRECT,
    NAMES,
    SLOW,
    TimeFigure,
    draw_times,
    report_times,
)
from fedforest.experiments.vertical.methods import Division, Tables, divide

REPETITIONS = 20
LINES = {DIRECT: None, SLOW: Line(round_trip_seconds=0.020)}
ROWS = {DIRECT: 250, SLOW: 50}  # a test share is taken of so many rows
QUICK_ROWS = {DIRECT: 30, SLOW: 5}
MOST_TRAINED = 20_000  # rows: how long prediction takes does not depend on it


class TimedPoint(NamedTuple):
    """What is varied: number of trees, greatest depth, and the share of rows that is predicted."""

    n_trees: int = 8
    max_depth: int = 4
    test_share: float = 0.2


Vary = Callable[[float], TimedPoint]


def _cells(
    values: tuple[Sequence[float], Sequence[float]], vary: Vary, setting: Setting
) -> Iterator[Cell]:
    parties = cache(partial(_open, setting))
    full, quick = values
    for name in NAMES:
        division = lru_cache(1)(partial(_divide, setting, name))
        for line in LINES:
            n_rows = (QUICK_ROWS if setting.quick else ROWS)[line]
            for value in quick if setting.quick else full:
                point = vary(value)
                forest = lru_cache(1)(partial(_train, division, point))
                for manner in MANNERS:
                    count = max(1, round(point.test_share * n_rows))
                    measure = partial(_measure, parties, forest, (line, manner, count))
                    times = setting.times(REPETITIONS, 1)
                    yield Cell(f"{name}, {line}", manner, f"{value:g}", times, measure)
                if vary is _by_test_share and line == DIRECT:
                    for manner in (ONE_ROUND_NAME, AUTO):
                        measure = partial(_measure_all, parties, forest, (manner, point))
                        times = setting.times(REPETITIONS, 1)
                        yield Cell(f"{name}, {ALL_ROWS}", manner, f"{value:g}", times, measure)


def _open(setting: Setting, line: str) -> PredictionParties:
    folder = setting.stack.enter_context(tempfile.TemporaryDirectory())
    parties = PredictionParties(Path(folder), ("party_1", "party_2"), LINES[line])
    return setting.stack.enter_context(parties)


def _divide(setting: Setting, name: str, repetition: int) -> Division:
    return divide(setting.read(name), setting.seed, repetition)


class Trained(NamedTuple):
    """A forest, and all rows that can be predicted, those held out first."""

    forest: VerticalForestClassifier
    X: Tables


def _train(division: Callable[[int], Division], point: TimedPoint, repetition: int) -> Trained:
    divided = division(repetition)
    forest = VerticalForestClassifier(
        point.n_trees, max_depth=point.max_depth, random_state=divided.seed, n_jobs=1
    )
    trained = {party: X[:MOST_TRAINED] for party, X in divided.train.items()}
    forest.fit(trained, divided.y_train[:MOST_TRAINED])
    X = {party: np.vstack([rows, divided.train[party]]) for party, rows in divided.test.items()}
    return Trained(forest, X)


def _measure(
    parties: Callable[[str], PredictionParties],
    forest: Callable[[int], Trained],
    how: tuple[str, str, int],
    repetition: int,
) -> Measured:
    line, manner, n_rows = how
    trained = forest(repetition)
    X = {party: rows[:n_rows] for party, rows in trained.X.items()}
    ask = partial(predict, parties(line), trained.forest._model, manner=manner)
    ask({party: rows[: 1 if manner == CLASSICAL else None] for party, rows in X.items()})  # warm
    predicted = ask(X)
    if not np.array_equal(predicted.leaf_of.T, trained.forest.apply(X)):
        raise DataError(f"prediction {manner} reached other leaves than in one process")
    return {
        "wall": predicted.seconds,
        "exchanges": predicted.n_exchanges,
        "bytes": predicted.n_bytes,
        "rows": n_rows,
    }


def _measure_all(
    parties: Callable[[str], PredictionParties],
    forest: Callable[[int], Trained],
    how: tuple[str, TimedPoint],
    repetition: int,
) -> Measured:
    manner, point = how
    n_rows = round(point.test_share * len(next(iter(forest(repetition).X.values()))))
    return _measure(parties, forest, (DIRECT, manner, n_rows), repetition)


def _by_trees(value: float) -> TimedPoint:
    return TimedPoint(n_trees=int(value))


def _by_depth(value: float) -> TimedPoint:
    return TimedPoint(max_depth=int(value))


def _by_test_share(value: float) -> TimedPoint:
    return TimedPoint(test_share=value)


def _experiment(
    number: int, what: TimeFigure, values: tuple[Sequence[float], Sequence[float]], vary: Vary
) -> Experiment:
    return Experiment(
        f"ff-fig-{number}",
        f"Prediction time by {what.axis}",
        f"Federated Forest, Figure {number}",
        NAMES,
        partial(_cells, values, vary),
        partial(report_times, what),
        partial(draw_times, what),
        "2 hours",
        extras=("grpc",),
    )


FIGURE_6 = _experiment(
    6,
    TimeFigure("number of trees", "depth 4, a fifth of the rows"),
    ((8, 16, 24, 32), (8, 16)),
    _by_trees,
)
FIGURE_7 = _experiment(
    7,
    TimeFigure("greatest depth", "8 trees, a fifth of the rows"),
    ((4, 6, 8, 10, 12, 14, 16), (4, 8)),
    _by_depth,
)
FIGURE_8 = _experiment(
    8,
    TimeFigure("share of rows that is predicted", "8 trees, depth 4"),
    ((0.1, 0.2, 0.3, 0.4), (0.1, 0.4)),
    _by_test_share,
)
