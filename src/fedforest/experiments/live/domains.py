"""Federated Forest, Figure 4: one to eight domains of parkinson, in accuracy and in seconds.

Accuracy is that of the forest in one process, which is the live one to the byte. Seconds are those
of a user whose coordinator and parties are processes of their own over mutual TLS; for them rows
are repeated ten times, as in the paper.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from fedforest import VerticalForestClassifier
from fedforest.estimators.vertical.options import ONE_ROUND
from fedforest.experiments.beside import apart, tell_interval, tell_mean
from fedforest.experiments.data.reading import PaperTable
from fedforest.experiments.experiment import (
    Cell,
    Check,
    Experiment,
    Measured,
    Report,
    Setting,
    judge,
)
from fedforest.experiments.figures import (
    COLOURS,
    add_legend,
    draw_curve,
    name_panel,
    new_figure,
    tick_points,
    use_log_scale,
)
from fedforest.experiments.findings import Finding
from fedforest.experiments.live.federation import LiveFederation
from fedforest.experiments.record import Record
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.messages.orders import PredictVertical, TrainVertical
from fedforest.runtime.messages.results import Predictions, VerticalResult
from fedforest.tree.growth.parameters import ForestParameters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "parkinson"
N_DOMAINS = 8
REPETITIONS = 20
N_TREES = 100
COPIES, QUICK_COPIES = 10, 1
LABEL, TRAINING, TESTING = "label", "training", "testing"
SCORE, TRAIN, PREDICT, ROUND = "accuracy", "training", "prediction, auto", "prediction, one round"
LEAST_FIT = 0.8  # R² of a straight line that calls seconds about linear
MOST_RISE = 1.0  # of the seconds of two domains, that calls prediction flat up to eight


def _cells(setting: Setting) -> Iterator[Cell]:
    points = (1, 2, 8) if setting.quick else range(1, N_DOMAINS + 1)
    division = lru_cache(1)(partial(_divide, setting))
    for n in points:
        score = partial(_score, division, n, setting.n_jobs)
        yield Cell(f"{NAME}, {SCORE}", SCORE, str(n), setting.times(REPETITIONS), score)
    live = cache(partial(_open, setting))
    for n in points:
        measure = partial(_time, live, n, setting)
        yield Cell(f"{NAME}, seconds", TRAIN, str(n), setting.times(REPETITIONS), measure)


def deal_columns(table: PaperTable) -> list[NDArray[np.int64]]:
    """Return the columns of each domain; those of no group belong to the first."""
    groups = list(table.groups.values())
    outside = np.setdiff1d(np.arange(table.shape[1]), np.concatenate(groups))
    return [np.concatenate([groups[0], outside]), *groups[1:]]


class DomainRows(NamedTuple):
    """Columns by domain, some rows to train on and the others held out."""

    train: list[NDArray[Any]]
    test: list[NDArray[Any]]
    y_train: NDArray[Any]
    y_test: NDArray[Any]
    seed: int


def _divide(setting: Setting, repetition: int, copies: int = 1) -> DomainRows:
    table = setting.read(NAME)
    rng = np.random.default_rng((setting.seed, repetition))
    rows_seed, forest_seed = (int(seed) for seed in rng.integers(2**31, size=2))
    X, y = np.tile(table.codes, (copies, 1)), np.tile(table.y, copies)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=rows_seed)
    train, test = ([X[:, own] for own in deal_columns(table)] for X in (X_train, X_test))
    return DomainRows(train, test, y_train, y_test, forest_seed)


def _name(tables: list[NDArray[Any]], n: int) -> dict[str, NDArray[Any]]:
    return {f"domain_{number}": X for number, X in enumerate(tables[:n], start=1)}


def _score(division: Callable[[int], DomainRows], n: int, n_jobs: int, repetition: int) -> Measured:
    divided = division(repetition)
    forest = VerticalForestClassifier(N_TREES, random_state=divided.seed, n_jobs=n_jobs)
    forest.fit(_name(divided.train, n), divided.y_train)
    predicted = forest.predict(_name(divided.test, n))
    n_columns = sum(X.shape[1] for X in divided.train[:n])
    return {"score": float(np.mean(predicted == divided.y_test)), "columns": n_columns}


def _open(setting: Setting) -> Federation:
    """Start all domains, and train once unmeasured: tables are read and kernels loaded then."""
    import pyarrow  # noqa: PLC0415 - an extra that only experiments need

    divided = _divide(setting, 0, QUICK_COPIES if setting.quick else COPIES)
    tables: dict[str, dict[str, pyarrow.Table]] = {}
    for data_set, parts, y in (
        (TRAINING, divided.train, divided.y_train),
        (TESTING, divided.test, divided.y_test),
    ):
        for party, X in _name(parts, N_DOMAINS).items():
            columns = {f"column_{number}": values for number, values in enumerate(X.T)}
            if party == "domain_1":
                columns[LABEL] = y
            tables.setdefault(party, {})[data_set] = pyarrow.table(columns)
    folder = setting.stack.enter_context(tempfile.TemporaryDirectory())
    live = setting.stack.enter_context(LiveFederation(Path(folder), tables))
    client = setting.stack.enter_context(live.connect())
    train_and_predict(client, N_DOMAINS, setting.seed)
    return client


def train_and_predict(client: Federation, n: int, seed: int) -> Measured:
    """Return the user's seconds of a training with so many domains, and of two predictions."""
    parties = [f"domain_{number}" for number in range(1, n + 1)]
    order = TrainVertical(
        data=dict.fromkeys(parties, TRAINING),
        label=LABEL,
        label_party=parties[0],
        parameters=ForestParameters(n_estimators=N_TREES, max_features="sqrt"),
        seed=seed,
    )
    started = time.perf_counter()
    result = client.train(order, VerticalResult)
    seconds = {TRAIN: time.perf_counter() - started}
    for name, lookahead in ((PREDICT, None), (ROUND, ONE_ROUND)):
        asked = PredictVertical(
            data=dict.fromkeys(parties, TESTING), model=result.model, lookahead=lookahead
        )
        started = time.perf_counter()
        client.ask(asked, Predictions).read()
        seconds[name] = time.perf_counter() - started
    return seconds


def _time(live: Callable[[], Federation], n: int, setting: Setting, repetition: int) -> Measured:
    return train_and_predict(live(), n, setting.seed + repetition)


_SCORES, _SECONDS = f"{NAME}, {SCORE}", f"{NAME}, seconds"


def _points(record: Record) -> list[str]:
    return record.points(_SCORES, SCORE)


def _median(record: Record, point: str, quantity: str) -> float:
    values = record.values(_SECONDS, TRAIN, point, quantity)
    return float(np.median(values)) if len(values) else float("nan")


def _report(record: Record) -> Report:
    rows = [
        [
            point,
            f"{record.values(_SCORES, SCORE, point, 'columns')[0]:.0f}",
            tell_mean(record, (_SCORES, SCORE, point)),
            *(f"{_median(record, point, what):.3f} s" for what in (TRAIN, PREDICT, ROUND)),
            f"{record.n_repetitions((_SCORES, SCORE, point))}, "
            f"{record.n_repetitions((_SECONDS, TRAIN, point))}",
        ]
        for point in _points(record)
    ]
    table = Finding(
        "By the number of domains",
        ["domains", "columns", "accuracy", TRAIN, PREDICT, ROUND, "repetitions"],
        rows,
        "Accuracy: mean ± standard deviation. Seconds: median of the user's wall time. "
        "Repetitions: of accuracy, of seconds.",
    )
    return Report([table], list(_checks(record)), _NOTES)


_NOTES = (
    f"{N_TREES} trees, grown out, sqrt of the columns at a node. Domains join in the order "
    "baseline (with gender), intensity, formant, bandwidth, vocal fold, MFCC, wavelet, TQWT: the "
    "last one alone has more columns than all others. Rows of a subject may be on both sides, as "
    "in the paper.",
    "Coordinator and parties share the cores of one machine, so that parties that would work at "
    "the same time wait for each other: seconds rise more than they would on nine machines.",
    "Figure 4 prints no numbers: its axes are repeated, there is nothing to subtract.",
)


def _checks(record: Record) -> Iterator[Check]:
    points = _points(record)
    if len(points) < 2:
        return
    first, last = ((_SCORES, SCORE, point) for point in (points[0], points[-1]))
    interval = apart(record, last, first)
    yield judge(
        "accuracy rises with the number of domains",
        holds=None if interval is None else interval.low > 0,
        why=f"{points[-1]} domains less one: {tell_interval(interval)}",
    )
    domains = np.array([float(point) for point in points])
    columns = np.array([record.values(_SCORES, SCORE, point, "columns")[0] for point in points])
    training = np.array([_median(record, point, TRAIN) for point in points])
    if np.isnan(training).any():
        yield judge("training time is about linear in domains", holds=None, why="not measured")
        return
    yield judge(
        f"training time is about linear in domains (R² of a line ≥ {LEAST_FIT:g})",
        holds=bool(_fit(domains, training) >= LEAST_FIT),
        why=f"R² = {_fit(domains, training):.2f}, of a line in columns "
        f"{_fit(columns, training):.2f}; {training[0]:.2f} s with {points[0]}, "
        f"{training[-1]:.2f} s with {points[-1]} domains",
    )
    many = [point for point in points if float(point) >= 2]
    for what in (PREDICT, ROUND):
        few, all_of_them = (_median(record, point, what) for point in (many[0], many[-1]))
        yield judge(
            f"{what} is flat in domains (from {many[0]} to {many[-1]} at most "
            f"{1 + MOST_RISE:g} times)",
            holds=all_of_them <= (1 + MOST_RISE) * few,
            why=f"{few:.3f} s and {all_of_them:.3f} s; training took "
            f"{training[-1] / training[points.index(many[0])]:.1f} times as long",
        )


def _fit(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return the R² of a straight line."""
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def _draw(record: Record) -> "Figure":
    figure, panels = new_figure(3)
    draw_curve(panels[0], record, (_SCORES, SCORE), "score", color=COLOURS[0], marker="o")
    name_panel(panels[0], SCORE, "domains", "accuracy")
    for panel, title, quantities in (
        (panels[1], "training", (TRAIN,)),
        (panels[2], "prediction", (PREDICT, ROUND)),
    ):
        for quantity, colour in zip(quantities, COLOURS, strict=False):
            for point in _points(record):
                seconds = record.values(_SECONDS, TRAIN, point, quantity)
                xs = [float(point)] * len(seconds)
                panel.plot(xs, seconds, ".", color=colour, alpha=0.3, markersize=4)
            xs = [float(point) for point in _points(record)]
            medians = [_median(record, point, quantity) for point in _points(record)]
            panel.plot(xs, medians, "-o", color=colour, label=quantity, markersize=4)
        name_panel(panel, f"{title}, median and each time", "domains", "seconds")
        use_log_scale(panel)
    for panel in panels:
        tick_points(panel, map(float, _points(record)))
    add_legend(figure, panels[2:])
    return figure


FIGURE_4 = Experiment(
    "ff-fig-4",
    "One to eight domains of parkinson",
    "Federated Forest, Figure 4",
    (NAME,),
    _cells,
    _report,
    _draw,
    "30 minutes",
    extras=("grpc", "pyarrow"),
)
