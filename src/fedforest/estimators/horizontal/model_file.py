"""A trained horizontal forest as one model file and back.

Every party holds the complete model, so there is one file for all. It has no seed: with it, a
reader could tell which rows each tree drew.
"""

from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from fedforest.errors import ConfigurationError, DamagedModelError, ModelFileError
from fedforest.estimators.horizontal.model import HorizontalModel
from fedforest.estimators.horizontal.options import read_options
from fedforest.estimators.inputs.declarations import stored_parameters
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.forests import StoredForest, decode_forest, encode_forest

_OPTIONS: dict[str, Any] = {
    kind.__name__: kind for kind in (LocalDP, GlobalDP, Masked, Ring, Shamir)
}

Estimator = TypeVar("Estimator", bound=BaseEstimator)


def store_model(estimator: Any, model: HorizontalModel) -> bytes:
    """Return the model with the parameters of its training; the same model gives the same bytes."""
    names = sorted(stored_parameters(type(estimator)))
    parameters = {name: _describe(getattr(estimator, name)) for name in names}
    if model.classes is not None:
        parameters["class_weight"] = _describe_weight(estimator.class_weight, model.classes)
    about: dict[str, JsonValue] = {
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "parties": list(model.parties),
    }
    return encode_forest(model.forest, model.bins, model.classes, about)


def restore_model(kind: type[Estimator], data: bytes) -> tuple[Estimator, HorizontalModel]:
    """Return an unfitted estimator with its parameters, and the model; raises `ModelFileError`."""
    if not isinstance(data, bytes):
        raise ModelFileError("the model is no bytes; pass what to_bytes() gave")
    stored = decode_forest(data)
    if stored.metadata.get("estimator") != kind.__name__:
        raise ModelFileError(
            f"the file does not hold a {kind.__name__}; load it with the class that stored it"
        )
    _check_task(stored, kind._task)
    estimator = _make_estimator(kind, stored)
    if estimator.n_estimators != stored.forest.shape.n_trees:
        raise _damaged("it has another number of trees")
    parties = _read_parties(stored.metadata.get("parties"))
    return estimator, HorizontalModel(stored.forest, stored.bins, stored.classes, parties)


def _describe(value: Any) -> JsonValue:
    """Return a parameter in JSON's own types; options by name, with their settings."""
    name = type(value).__name__
    if name in _OPTIONS:
        settings = {field.name: _describe(getattr(value, field.name)) for field in fields(value)}
        return {"option": name, "settings": settings}
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, tuple | list):
        return [_describe(item) for item in value]
    if isinstance(value, Mapping):
        return None  # weights of classes are described beside the classes
    return int(value) if isinstance(value, Integral) else float(value)


def _describe_weight(weight: Any, classes: NDArray[Any]) -> JsonValue:
    if not isinstance(weight, Mapping):
        return _describe(weight)
    return [float(weight.get(label, 1.0)) for label in classes.tolist()]


def _check_task(stored: StoredForest, task: str) -> None:
    n_classes = stored.forest.n_classes
    if (task == "regression") != (n_classes == 0):
        raise _damaged("its leaves are of another task")
    if (stored.classes is None) != (n_classes == 0):
        raise _damaged("its class labels are missing")
    splits = stored.forest.splits
    if splits.cut.dtype != np.float32 and (splits.feature >= 0).any():
        raise _damaged("its cuts are not thresholds")


def _make_estimator(kind: type[Estimator], stored: StoredForest) -> Estimator:
    parameters = stored.metadata.get("parameters")
    estimator: Estimator = kind()
    if not isinstance(parameters, dict) or parameters.keys() != stored_parameters(kind):
        raise _damaged("its parameters are incomplete")
    values = {name: _read(value) for name, value in parameters.items()}
    if isinstance(values.get("class_weight"), tuple):
        values["class_weight"] = _read_weight(values["class_weight"], stored.classes)
    estimator.set_params(**values)
    try:
        read_options(estimator, kind._task)
    except ConfigurationError:
        raise _damaged("its parameters cannot be") from None
    return estimator


def _read(value: JsonValue) -> Any:
    if isinstance(value, list):
        return tuple(_read(item) for item in value)
    if not isinstance(value, dict):
        return value
    option, settings = _OPTIONS.get(str(value.get("option"))), value.get("settings")
    if option is None or not isinstance(settings, dict):
        raise _damaged("one of its parameters is unknown")
    if settings.keys() != {field.name for field in fields(option)}:
        raise _damaged("the settings of one of its parameters are incomplete")
    return option(**{name: _read(setting) for name, setting in settings.items()})


def _read_weight(weights: tuple[Any, ...], classes: NDArray[Any] | None) -> dict[Any, Any]:
    if classes is None or len(weights) != len(classes):
        raise _damaged("it has another number of class weights")
    if not all(isinstance(weight, float) and 0.0 <= weight < np.inf for weight in weights):
        raise _damaged("a class weight is no weight")
    return dict(zip(classes.tolist(), weights, strict=True))


def _read_parties(stored: JsonValue) -> tuple[str, ...]:
    if not isinstance(stored, list):
        raise _damaged("its parties are missing")
    names = tuple(party for party in stored if isinstance(party, str) and party)
    if not len(set(names)) == len(names) == len(stored) > 0:
        raise _damaged("its parties are not distinct names")
    return names


def _damaged(reason: str) -> DamagedModelError:
    return DamagedModelError(f"the stored forest is damaged: {reason}; get a fresh copy")
