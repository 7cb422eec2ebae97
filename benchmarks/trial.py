"""One training of one contestant: what it cost, how good it is, how fast it answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.contestants import BY_NAME
from benchmarks.measure import timed
from benchmarks.tasks import ForestSettings, Split

PREDICTION_ROWS = 20_000
PREDICTION_TRIES = 3

Measure = Callable[[NDArray[Any], NDArray[Any]], float]


def accuracy(truth: NDArray[Any], predicted: NDArray[Any]) -> float:
    return float(np.mean(truth == predicted))


def r_squared(truth: NDArray[Any], predicted: NDArray[Any]) -> float:
    return float(1.0 - np.mean((truth - predicted) ** 2) / np.var(truth))


def rmse(truth: NDArray[Any], predicted: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean((truth - predicted) ** 2)))


@dataclass
class Record:
    """One entry for each repeat: seconds of the fit, its score, seconds of a prediction."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    score: list[float] = field(default_factory=list)
    predict: list[float] = field(default_factory=list)


class Trial(NamedTuple):
    """What is trained, on what, and how it is judged."""

    forest: ForestSettings
    split: Split
    measure: Measure

    def run(self, contestant: str, seed: int, record: Record) -> float:
        """Train with this seed and write everything down; returns the seconds of the fit."""
        forest = BY_NAME[contestant].build(self.forest, seed)
        _, cost = timed(lambda: forest.fit(self.split.X_train, self.split.y_train))
        record.wall.append(cost.wall)
        record.cpu.append(cost.cpu)
        record.score.append(self.measure(self.split.y_test, forest.predict(self.split.X_test)))
        rows = self._prediction_rows()
        tries = [timed(lambda: forest.predict(rows))[1].wall for _ in range(PREDICTION_TRIES)]
        record.predict.append(min(tries))
        return cost.wall

    def _prediction_rows(self) -> Any:
        """Rows of the test set, from the start again when it is too short."""
        X = self.split.X_test
        rows = np.arange(PREDICTION_ROWS) % len(X)
        return X[rows] if isinstance(X, np.ndarray) else X.iloc[rows]
