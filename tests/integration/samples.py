"""Small tables that are divided among parties, and the trainings that are ordered over them."""

from collections.abc import Callable, Mapping
from functools import cache

import msgspec
import numpy as np
import pyarrow
from numpy.typing import NDArray

from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.options import Masked
from fedforest.runtime.messages.orders import OptionChoice, TrainHorizontal, TrainVertical
from fedforest.tree.growth.parameters import ForestParameters

N_ROWS, N_COLUMNS = 2_000, 10
SEED = 5
NAMES = ("bank", "shop", "clinic", "school", "garage")
COLUMNS, ROWS = "columns", "rows"  # the data sets of every party: by columns and by rows

AnyTraining = TrainVertical | TrainHorizontal
Tables = Mapping[str, Mapping[str, pyarrow.Table]]


@cache
def draw_rows() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows whose classes follow from several columns, with some that contradict it."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(N_ROWS, N_COLUMNS)).astype(np.float32)
    score = X[:, 0] + X[:, 3] * X[:, 6] - X[:, 9] ** 2 + 0.3 * rng.normal(size=N_ROWS)
    return X, (score > np.median(score)).astype(np.int64)


def divide(n_parties: int) -> Tables:
    """For each party its columns of all rows, and all columns of its rows."""
    X, y = draw_rows()
    columns = np.array_split(np.arange(N_COLUMNS), n_parties)
    return {
        party: {
            COLUMNS: _table(X, columns[i], y if i == 0 else None),
            ROWS: _table(X[i::n_parties], np.arange(N_COLUMNS), y[i::n_parties]),
        }
        for i, party in enumerate(NAMES[:n_parties])
    }


def bare_tables(n_parties: int) -> dict[str, pyarrow.Table]:
    """Every party's columns, without the label."""
    tables = {party: table[COLUMNS] for party, table in divide(n_parties).items()}
    return tables | {NAMES[0]: tables[NAMES[0]].drop_columns(["label"])}


def _table(
    X: NDArray[np.float32], columns: NDArray[np.intp], y: NDArray[np.int64] | None
) -> pyarrow.Table:
    named: dict[str, NDArray[np.float32] | NDArray[np.int64]] = {
        f"x{column}": X[:, column] for column in columns
    }
    return pyarrow.table(named if y is None else {**named, "label": y})


def vertical(
    n_parties: int,
    *,
    n_trees: int = 4,
    max_depth: int | None = None,
    label_epsilon: float | None = None,
    out_of_bag: bool = False,
) -> TrainVertical:
    """A forest over columns; the first party has the labels."""
    return TrainVertical(
        data=dict.fromkeys(NAMES[:n_parties], COLUMNS),
        label="label",
        label_party=NAMES[0],
        parameters=ForestParameters(n_estimators=n_trees, max_depth=max_depth),
        seed=SEED,
        label_epsilon=label_epsilon,
        out_of_bag=out_of_bag,
    )


def encrypted(n_parties: int) -> TrainVertical:
    """The same with encrypted labels, and few bins: every ciphertext takes its time."""
    parameters = ForestParameters(n_estimators=2, max_depth=4, max_bins=8)
    return msgspec.structs.replace(vertical(n_parties), parameters=parameters, encrypts_labels=True)


def horizontal(
    n_parties: int, *, aggregation: object = None, privacy: object = None, max_depth: int = 8
) -> TrainHorizontal:
    """Extra-trees over rows."""
    return TrainHorizontal(
        data=dict.fromkeys(NAMES[:n_parties], ROWS),
        label="label",
        parameters=ForestParameters(n_estimators=3, max_depth=max_depth, bootstrap=False),
        seed=SEED,
        aggregation=None if aggregation is None else OptionChoice.of(aggregation),
        privacy=None if privacy is None else OptionChoice.of(privacy),
    )


TRAININGS: Mapping[str, Callable[[int], AnyTraining]] = {
    "vertical": vertical,
    "vertical with randomized labels": lambda n: vertical(n, label_epsilon=2.0),
    "vertical with left-out rows": lambda n: vertical(n, out_of_bag=True),
    "vertical with encrypted labels": encrypted,
    "horizontal": horizontal,
    "horizontal, masked": lambda n: horizontal(n, aggregation=Masked()),
    "horizontal, local privacy": lambda n: horizontal(n, privacy=LocalDP(keep=0.9)),
}
