"""Noisy points of which one class weighs ten million times the other, as scikit-learn checks it."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import train_test_split

WEIGHTS = {0: 1000, 1: 0.0001}


def share_of_heavy_class(classifier: Any, n_seeds: int = 20) -> float:
    """How much of new rows is given to the heavy class, in the mean over seeds."""
    X, y = make_blobs(centers=2, random_state=0, cluster_std=20)
    X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.5, random_state=0)
    shares = []
    for seed in range(n_seeds):
        weighted = clone(classifier).set_params(class_weight=WEIGHTS, random_state=seed)
        shares.append(np.mean(weighted.fit(X_train, y_train).predict(X_test) == 0))
    return float(np.mean(shares))
