"""The tasks of the horizontal experiments: data sets, and how their rows are dealt to parties.

Every repetition holds rows out and deals the others in equal shares, at random and anew, by the
seed and its number alone; all methods get the same rows, owners and seed.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.experiments.data_sets import read_frame, text_columns


@dataclass(frozen=True, slots=True)
class HorizontalTask:
    """A data set of the papers, and at most how often it is repeated.

    Under noise no node ever looks pure, so on a large data set trees need a limit. `paper` holds
    the accuracies of ET, FET, FET-LDP and FET-GDP in Table 2 of Federated Extra-Trees, whose
    parameters are not known.
    """

    name: str
    most_repetitions: int = 30
    most_noisy_repetitions: int = 30
    is_large: bool = False
    paper: tuple[float, float, float, float] | None = None


TASKS = {
    task.name: task
    for task in (
        HorizontalTask("spambase", paper=(0.934, 0.932, 0.920, 0.919)),
        HorizontalTask("waveform", paper=(0.842, 0.886, 0.882, 0.876)),
        HorizontalTask("credit_default", paper=(0.805, 0.814, 0.815, 0.811)),
        HorizontalTask("letter", paper=(0.953, 0.971, 0.940, 0.972)),
        HorizontalTask("kddcup99_10pct", 5, 5, is_large=True, paper=(0.994, 0.994, 0.993, 0.993)),
    )
}
PARTICIPATION_TASKS = {
    task.name: task for task in (HorizontalTask("waveform"), HorizontalTask("mfeat"))
}


@dataclass(frozen=True, slots=True, eq=False)
class RowData:
    """A table with class labels; `codes` has the same columns as numbers.

    scikit-learn's trees read numbers only: they get the places of texts in the alphabet.
    """

    name: str
    X: Any
    codes: NDArray[Any]
    y: NDArray[Any]

    @classmethod
    def of_numbers(cls, name: str, X: NDArray[Any], y: NDArray[Any]) -> "RowData":
        """Return a table without texts."""
        return cls(name, X, X, y)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n_rows, n_columns = self.codes.shape
        return n_rows, n_columns


def read_rows(name: str) -> RowData:
    """A data set with its texts as categories; raises `ConfigurationError` where it is missing."""
    frame, target = read_frame(name)
    texts = text_columns(frame)
    y = target.astype(str)
    if not texts:
        return RowData.of_numbers(name, frame.to_numpy(np.float32), y)
    frame = frame.astype(dict.fromkeys(texts, "category"))
    codes = frame.assign(**{text: frame[text].cat.codes for text in texts})
    return RowData(name, frame, codes.to_numpy(np.float32), y)


@dataclass(frozen=True, slots=True)
class Dealing:
    """Among how many parties rows are dealt, and which share of them is held out."""

    n_parties: int
    test_share: float


TWO_PARTIES = Dealing(2, 0.2)  # sections 4.1 and 4.2 of Federated Extra-Trees
TEN_PARTIES = Dealing(10, 1 / 3)  # section 4 of k-PPD-ERT


class Deal(NamedTuple):
    """One repetition; `owner` is who holds each row of `train`."""

    data: RowData
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    owner: NDArray[np.int64]
    seed: int

    def take(self, rows: NDArray[np.int64]) -> Any:
        """These rows as our estimators read them."""
        X = self.data.X
        return X[rows] if isinstance(X, np.ndarray) else X.iloc[rows]


def deal_rows(data: RowData, dealing: Dealing, seed: int, repetition: int) -> Deal:
    """Hold rows out and deal the others."""
    rng = np.random.default_rng((seed, repetition))
    order = rng.permutation(len(data.y))
    n_test = round(dealing.test_share * len(order))
    test, train = order[:n_test], order[n_test:]
    owner = np.arange(len(train)) * dealing.n_parties // len(train)
    return Deal(data, train, test, owner, int(rng.integers(2**31)))
