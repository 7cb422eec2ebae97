"""The model of a finished run in forms that other programs read.

A horizontal model goes through scikit-learn's own forest: ONNX and skops read that. The file in
this package's format needs none of it, and can come from a stranger.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedforest.estimators.horizontal.forests import (
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
)
from fedforest.estimators.horizontal.model import HorizontalModel
from fedforest.extras import import_extra
from fedforest.tree.files.forests import decode_forest

FORMATS = ("fedforest", "onnx", "skops")
_FROM_ORDER = (
    "n_estimators",
    "criterion",
    "max_depth",
    "min_samples_split",
    "min_samples_leaf",
    "min_weight_fraction_leaf",
    "min_impurity_decrease",
    "max_features",
    "bootstrap",
    "max_samples",
    "feature_sampling",
)


def rebuild_horizontal(order: Mapping[str, Any], file: bytes) -> Any:
    """The estimator of a finished horizontal run, from its order and the model that came of it."""
    stored = decode_forest(file)
    is_regression = stored.classes is None
    kind = HorizontalExtraTreesRegressor if is_regression else HorizontalExtraTreesClassifier
    known = order["parameters"]  # earlier releases had fewer
    estimator = kind(**{name: known[name] for name in _FROM_ORDER if name in known})
    estimator.n_estimators = stored.forest.shape.n_trees  # fewer where the run ended early
    parties = tuple(order["data"])
    estimator._become(HorizontalModel(stored.forest, stored.bins, stored.classes, parties), {})
    return estimator


def export_horizontal(estimator: Any, form: str, path: Path) -> None:
    """Write a horizontal forest in one of `FORMATS`."""
    if form == "fedforest":
        path.write_bytes(estimator.to_bytes())
    elif form == "onnx":
        path.write_bytes(_to_onnx(estimator))
    else:
        import_extra("skops.io", "this format").dump(estimator.to_sklearn(), path)


def _to_onnx(estimator: Any) -> bytes:
    """ONNX with one input of float32; class probabilities as an array, not a list of mappings."""
    skl2onnx = import_extra("skl2onnx", "this format")
    ensemble = estimator.to_sklearn()
    rows = np.zeros((1, estimator.n_features_in_), np.float32)
    options = None if estimator._task == "regression" else {id(ensemble): {"zipmap": False}}
    converted: bytes = skl2onnx.to_onnx(ensemble, rows, options=options).SerializeToString()
    return converted
