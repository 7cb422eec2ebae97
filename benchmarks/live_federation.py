"""Tables of the benchmarks, divided among the two parties of a live federation."""

import numpy as np
import pyarrow

from benchmarks.tasks import Split
from fedforest.experiments.live.federation import LiveFederation, Tables

# `import_own` finds both here, in checkouts of any age
__all__ = ["LABEL", "PARTIES", "TESTING", "TRAINING", "LiveFederation", "divide_columns"]

PARTIES = ("bank", "shop")
LABEL = "label"
TRAINING, TESTING = "training", "testing"  # names of data sets


def divide_columns(split: Split) -> Tables:
    """Half of the columns at each party, labels at the first one."""
    tables: dict[str, dict[str, pyarrow.Table]] = {name: {} for name in PARTIES}
    halves = np.array_split(np.arange(split.X_train.shape[1]), len(PARTIES))
    for data_set, X, y in (
        (TRAINING, split.X_train, split.y_train),
        (TESTING, split.X_test, split.y_test),
    ):
        for party, columns in zip(PARTIES, halves, strict=True):
            named = {f"column_{number}": X[:, number] for number in columns}
            if party == PARTIES[0]:
                named[LABEL] = y
            tables[party][data_set] = pyarrow.table(named)
    return tables
