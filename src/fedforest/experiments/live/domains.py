"""Federated Forest, Figure 4: one to eight domains of parkinson, in accuracy and in seconds.

Accuracy is that of the forest in one process, which is the live one to the byte. Seconds are those
of a user whose coordinator and parties are processes of their own over mutual TLS; for them rows
are repeated ten times, as in the paper.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from fedforest import VerticalForestClassifier
from fedforest.estimators.vertical.options import ONE_ROUND
from fedforest.experiments.data.reading import PaperTable
from fedforest.experiments.experiment import Cell, Experiment, Measured, Setting
from fedforest.experiments.live.domains_report import (
    ALL,
    BUSIEST,
    COORDINATOR,
    NAME,
    PREDICT,
    ROUND,
    SCORE,
    SCORES,
    SECONDS,
    TRAIN,
    draw_domains,
    report_domains,
    spent_by,
)
from fedforest.experiments.live.federation import LiveFederation
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.messages.orders import PredictVertical, TrainVertical
from fedforest.runtime.messages.results import Predictions, VerticalResult
from fedforest.tree.growth.parameters import ForestParameters

N_DOMAINS = 8
REPETITIONS = 20
N_TREES = 100
COPIES, QUICK_COPIES = 10, 1
LABEL, TRAINING, TESTING = "label", "training", "testing"


def _cells(setting: Setting) -> Iterator[Cell]:
    points = (1, 2, 8) if setting.quick else range(1, N_DOMAINS + 1)
    division = lru_cache(1)(partial(_divide, setting))
    for n in points:
        score = partial(_score, division, n, setting.n_jobs)
        yield Cell(SCORES, SCORE, str(n), setting.times(REPETITIONS), score)
    live = cache(partial(_open, setting))
    for n in points:
        measure = partial(_time, live, n, setting)
        yield Cell(SECONDS, TRAIN, str(n), setting.times(REPETITIONS), measure)


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


class Connected(NamedTuple):
    """All domains as processes, and a user's connection to them."""

    live: LiveFederation
    client: Federation

    def processor_seconds(self) -> dict[str, float]:
        """Return what each process took so far."""
        return {role.home.name: role.processor_seconds() for role in self.live.roles}


def _open(setting: Setting) -> Connected:
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
    connected = Connected(live, setting.stack.enter_context(live.connect()))
    train_and_predict(connected, N_DOMAINS, setting.seed)
    return connected


def train_and_predict(connected: Connected, n: int, seed: int) -> Measured:
    """Return the user's seconds of a training with so many domains, and of two predictions.

    Beside them stands the processor time of the coordinator, of the busiest party, and of all.
    """
    parties = [f"domain_{number}" for number in range(1, n + 1)]
    order = TrainVertical(
        data=dict.fromkeys(parties, TRAINING),
        label=LABEL,
        label_party=parties[0],
        parameters=ForestParameters(n_estimators=N_TREES, max_features="sqrt"),
        seed=seed,
    )
    client = connected.client
    seconds: Measured = {}
    with _timed(TRAIN, connected, seconds):
        result = client.train(order, VerticalResult)
    for name, lookahead in ((PREDICT, None), (ROUND, ONE_ROUND)):
        asked = PredictVertical(
            data=dict.fromkeys(parties, TESTING), model=result.model, lookahead=lookahead
        )
        with _timed(name, connected, seconds):
            client.ask(asked, Predictions).read()
    return seconds


@contextmanager
def _timed(what: str, connected: Connected, measured: Measured) -> Iterator[None]:
    before, started = connected.processor_seconds(), time.perf_counter()
    yield
    measured[what] = time.perf_counter() - started
    spent = {role: now - before[role] for role, now in connected.processor_seconds().items()}
    measured[spent_by(what, ALL)] = sum(spent.values())
    measured[spent_by(what, COORDINATOR)] = spent.pop(COORDINATOR)
    measured[spent_by(what, BUSIEST)] = max(spent.values())


def _time(live: Callable[[], Connected], n: int, setting: Setting, repetition: int) -> Measured:
    return train_and_predict(live(), n, setting.seed + repetition)


FIGURE_4 = Experiment(
    "ff-fig-4",
    "One to eight domains of parkinson",
    "Federated Forest, Figure 4",
    (NAME,),
    _cells,
    report_domains,
    draw_domains,
    "30 minutes",
    extras=("grpc", "pyarrow"),
)
