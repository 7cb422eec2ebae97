"""Tables made from a seed in the shape of a data set, for machines without the data.

Labels follow a few hidden directions of the features, with noise: trees learn them, not perfectly.
They say nothing about the real data; only shapes, types and costs are alike.
"""

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from fedforest.experiments.data.catalogue import PaperDataSet

N_INFORMATIVE = 12
NOISE = 0.6
# of a table with more columns than rows, as of genes: many columns differ a little between classes
WIDE_SHARE, WIDE_SHIFT = 0.02, 0.7


def make_features_and_target(
    data: PaperDataSet, n_rows: int, n_columns: int
) -> tuple[NDArray[np.float32], NDArray[np.int64] | NDArray[np.float64]]:
    """Return features and target; the same ones for the same shape."""
    rng = np.random.default_rng(crc32(data.name.encode()))
    X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    if data.n_columns > data.n_rows:
        y = rng.integers(data.n_classes, size=n_rows)
        shifted = rng.choice(
            n_columns, max(N_INFORMATIVE, int(WIDE_SHARE * n_columns)), replace=False
        )
        X[:, shifted] += WIDE_SHIFT * rng.normal(size=(data.n_classes, len(shifted)))[y]
        return X, y
    informative = rng.choice(n_columns, min(N_INFORMATIVE, n_columns), replace=False)
    n_outputs = max(1, data.n_classes)
    signal = X[:, informative] @ rng.normal(size=(len(informative), n_outputs))
    signal += np.tanh(2 * X[:, informative[:1]]) * X[:, informative[-1:]]
    signal += NOISE * signal.std() * rng.normal(size=signal.shape)
    if data.task == "regression":
        return X, signal[:, 0]
    return X, signal.argmax(axis=1)
