"""How the cost of Federated Forest grows: one quantity varies, the others stay.

Training is measured in seconds and in bytes of all levels, both directions; prediction in seconds,
exchanges and bytes of the papers' two methods and of the one that is chosen by itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.contestants import federated_forest
from benchmarks.measure import timed
from benchmarks.tasks import SEED, ForestSettings, Split, make_split
from fedforest.estimators.vertical.model import find_leaves
from fedforest.estimators.vertical.options import read_prediction
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.federation import start_workers

MODES = ("classical", "one_round", "auto")
CLASSICAL_ROWS = 100  # one message per row and node: the rest follows from its proportion
PREDICTION_TRIES = 3


@dataclass(frozen=True)
class Scene:
    """A training and a prediction; four fifths of the rows are trained on."""

    n_rows: int = 100_000
    n_columns: int = 40
    n_parties: int = 2
    n_trees: int = 20
    max_depth: int = 10
    prediction_rows: int = 20_000

    def split(self) -> Split:
        return make_split("binary", self.n_rows, self.n_columns)

    def build(self, seed: int = SEED) -> Any:
        forest = ForestSettings("binary", self.n_trees, self.max_depth)
        return federated_forest(forest, seed, self.n_parties)


BASE = Scene()
PAPERS = Scene(n_trees=8, max_depth=4)  # section 5.5 of the Federated Forest paper


def _vary(base: Scene, quantity: str, values: Sequence[int]) -> tuple[Scene, ...]:
    return tuple(replace(base, **{quantity: value}) for value in values)


# Series -> the quantity that varies, and its scenes.
TRAINING_SERIES = {
    "rows": ("n_rows", _vary(BASE, "n_rows", (12_500, 25_000, 50_000, 100_000, 200_000, 400_000))),
    "columns": ("n_columns", _vary(BASE, "n_columns", (10, 20, 40, 80, 160, 320))),
    "parties": ("n_parties", _vary(BASE, "n_parties", (1, 2, 3, 4, 5, 6, 8, 10))),
    "trees": ("n_trees", _vary(BASE, "n_trees", (5, 10, 20, 40, 80))),
    "depth": ("max_depth", _vary(BASE, "max_depth", (2, 4, 6, 8, 10, 12, 14, 16))),
}
PREDICTION_SERIES = {
    "trees": ("n_trees", _vary(PAPERS, "n_trees", (8, 16, 24, 32))),
    "depth": ("max_depth", _vary(PAPERS, "max_depth", (4, 6, 8, 10, 12, 14, 16))),
    "rows": (
        "prediction_rows",
        _vary(BASE, "prediction_rows", (100, 300, 1_000, 3_000, 10_000, 20_000, 80_000)),
    ),
}


def shrink(scenes: Sequence[Scene]) -> list[Scene]:
    """The first and the last scene, small enough for a test."""
    return [
        replace(
            scene,
            n_rows=min(scene.n_rows, 2_000),
            n_columns=min(scene.n_columns, 20),
            n_trees=min(scene.n_trees, 4),
            max_depth=min(scene.max_depth, 5),
            prediction_rows=min(scene.prediction_rows, 400),
        )
        for scene in (scenes[0], scenes[-1])
    ]


def measure_training(scene: Scene, repeats: int) -> dict[str, Any]:
    """Seconds of each repeat, and what travelled."""
    split = scene.split()
    point: dict[str, Any] = {**asdict(scene), "wall": [], "cpu": []}
    scene.build().fit(split.X_train[:500], split.y_train[:500])
    for _ in range(repeats):
        forest = scene.build()
        _, cost = timed(lambda: forest.fit(split.X_train, split.y_train))  # noqa: B023 - at once
        point["wall"].append(cost.wall)
        point["cpu"].append(cost.cpu)
        point["level_bytes"] = sum(step.n_bytes for step in forest.fit_log_)
        point["exchanges"] = forest.n_exchanges_
    return point


def measure_prediction(scene: Scene) -> dict[str, Any]:
    """Every mode on the same forest; the classical one on few rows."""
    split = scene.split()
    forest = scene.build().fit(split.X_train, split.y_train)
    rows = split.X_test if scene.prediction_rows <= len(split.X_test) else split.X_train
    rows = rows[: scene.prediction_rows]
    modes = {}
    for mode in MODES:
        forest.set_params(prediction=mode)
        few = rows[:CLASSICAL_ROWS] if mode == "classical" else rows
        forest.predict(few[:10])
        modes[mode] = _measure_mode(forest, few)
    return {**asdict(scene), "prediction_rows": len(rows), "modes": modes}


def _measure_mode(forest: Any, rows: Any) -> dict[str, Any]:
    costs = [timed(lambda: forest.predict(rows))[1] for _ in range(PREDICTION_TRIES)]
    log = ExchangeLog()
    _predict_again(forest, rows, log)
    return {
        "measured_rows": len(rows),
        "wall": [cost.wall for cost in costs],
        "cpu": [cost.cpu for cost in costs],
        "exchanges": len(log.exchanges),
        "bytes": sum(exchange.n_bytes for exchange in log.exchanges),
    }


def _predict_again(forest: Any, rows: Any, log: ExchangeLog) -> None:
    """Predict once more, for the log of what travels."""
    model, options = forest._model, read_prediction(forest)
    with start_workers(2) as workers:
        find_leaves(model, model.division.split(rows), options, workers, log)


def scaled(point: dict[str, Any], mode: str, quantity: Callable[[dict[str, Any]], float]) -> float:
    """A quantity of a mode for all rows of the point: the classical one grows with the rows."""
    measured = point["modes"][mode]
    share = point["prediction_rows"] / measured["measured_rows"] if mode == "classical" else 1.0
    return quantity(measured) * share
