"""Files as they were written before: one entry per node, defaults where a node says nothing."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.walk import Leaves
from fedforest.tree.bins import Bins
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.class_labels import pack_labels
from fedforest.tree.forest import Forest, Shape, Splits
from fedforest.tree.model_file import encode_model
from fedforest.tree.partial import ForestOutline, PartialForest

Arrays = dict[str, NDArray[Any]]


def write_forest(
    forest: Forest, bins: Bins, classes: NDArray[Any] | None, about: Mapping[str, JsonValue]
) -> bytes:
    """A whole forest."""
    arrays, metadata = bins.to_arrays()
    arrays |= _list_shape(forest.shape) | _list_splits(forest.splits)
    arrays |= _list_leaves(forest.leaves, forest.decrease)
    return encode_model("forest", metadata | _describe(forest, classes, about), arrays)


def write_partial(partial: PartialForest, bins: Bins, about: Mapping[str, JsonValue]) -> bytes:
    """An owner's share."""
    arrays, metadata = bins.to_arrays()
    arrays |= _list_shape(partial.shape) | _list_splits(partial.splits)
    return encode_model("partial-forest", metadata | {"about": about}, arrays)


def write_outline(
    outline: ForestOutline, classes: NDArray[Any] | None, about: Mapping[str, JsonValue]
) -> bytes:
    """The coordinator's share."""
    arrays = _list_shape(outline.shape) | _list_leaves(outline.leaves, outline.decrease)
    arrays["owner"] = outline.owner
    return encode_model("forest-outline", _describe(outline, classes, about), arrays)


def _describe(
    model: Forest | ForestOutline,
    classes: NDArray[Any] | None,
    about: Mapping[str, JsonValue],
) -> dict[str, JsonValue]:
    labels = None if classes is None else pack_labels(classes)
    return {"about": about, "classes": labels, "n_classes": model.n_classes}


def _list_shape(shape: Shape) -> Arrays:
    return {"tree_start": shape.tree_start, "left_child": shape.left_child}


def _list_splits(splits: Splits) -> Arrays:
    return {name: getattr(splits, name) for name in Splits.__slots__}


def _list_leaves(leaves: Leaves, decrease: NDArray[np.float64]) -> Arrays:
    start, label, value = leaves
    return {"leaf_start": start, "leaf_label": label, "leaf_value": value, "decrease": decrease}
