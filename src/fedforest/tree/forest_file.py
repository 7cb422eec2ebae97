"""Forests, and what each role keeps of them, as model files and back.

A file may come from a stranger: every index is checked before a kernel could follow it, so decoding
gives a model that can be walked, or a `DamagedModelError` that says what does not fit. Decoded
arrays are writable, like those of a forest just grown: for others numba would compile every kernel
once more. Equal models have equal bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedforest.errors import DamagedModelError, ModelFileError
from fedforest.kernels.forest_checks import (
    DECREASE_OF_LEAF,
    MANY_VALUES,
    MIXED_UP,
    NO_CLASS,
    NO_COLUMN,
    NO_CUT,
    NO_DECREASE,
    NO_LEAF,
    NO_ORDER,
    NO_SEQUENCE,
    NO_SHARE,
    NO_SIDE,
    NOT_FINITE,
    OTHER_SETS,
    USELESS_CUT,
    StoredLeaves,
    StoredSplits,
    judge_cuts,
    judge_entries,
    judge_nodes,
    judge_splits,
)
from fedforest.kernels.layout import SET_WORDS
from fedforest.kernels.walk import Leaves
from fedforest.tree.bins import Bins
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.class_labels import pack_labels, unpack_labels
from fedforest.tree.forest import LEAF, Forest, Shape, Splits
from fedforest.tree.model_file import ModelContents, decode_model, encode_model, list_pieces
from fedforest.tree.partial import FOREIGN, NOBODY, ForestOutline, PartialForest
from fedforest.tree.targets import MAX_CLASSES
from fedforest.tree.workers import ALONE, Workers

FOREST, PARTIAL, OUTLINE = "forest", "partial-forest", "forest-outline"

_NOTHING: Mapping[str, JsonValue] = MappingProxyType({})
_SHAPE = ("tree_start", "left_child")
_SPLITS = ("feature", "cut", "missing_left", "set_index", "left_set")
_LEAVES = ("leaf_start", "leaf_label", "leaf_value", "decrease")
_BINS = tuple(Bins.concatenate([]).to_arrays()[0])
_ARRAYS_OF = {
    FOREST: {*_SHAPE, *_SPLITS, *_LEAVES, *_BINS},
    PARTIAL: {*_SHAPE, *_SPLITS, *_BINS},
    OUTLINE: {*_SHAPE, "owner", *_LEAVES},
}
_METADATA_OF = {
    FOREST: {"about", "classes", "has_names", "n_classes", "names"},
    PARTIAL: {"about", "has_names", "names"},
    OUTLINE: {"about", "classes", "n_classes"},
}
_WRONG_SPLITS = {
    NO_COLUMN: ("features", "one is out of range"),
    MIXED_UP: ("features", "leaves and splits are mixed up"),
    NO_CUT: ("cuts", "one is no number, or beyond the bins of its column"),
    NO_SIDE: ("sides of missing values", "one is neither left nor right"),
    USELESS_CUT: ("cuts", "a node that is not split here has one"),
    OTHER_SETS: ("sets", "they are not those of the categorical splits"),
}
_WRONG_LEAVES = {
    NO_SEQUENCE: ("leaves", "their entries do not follow each other"),
    NO_LEAF: ("leaves", "one is empty, or no leaf"),
    NOT_FINITE: ("leaves", "a value is not finite"),
    NO_CLASS: ("leaves", "a class is out of range"),
    NO_ORDER: ("leaves", "the classes of one are out of order"),
    NO_SHARE: ("leaves", "a share of a class is no share"),
    MANY_VALUES: ("leaves", "one has more than one value"),
    NO_DECREASE: ("decreases", "one is no decrease"),
    DECREASE_OF_LEAF: ("decreases", "one belongs to a leaf"),
}


@dataclass(frozen=True, slots=True, eq=False)
class StoredForest:
    """A whole forest with what it takes to predict a table."""

    forest: Forest
    bins: Bins
    classes: NDArray[Any] | None  # None for regression, or where class numbers are enough
    metadata: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, eq=False)
class StoredPartial:
    """An owner's share with the bins of its columns."""

    partial: PartialForest
    bins: Bins
    metadata: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, eq=False)
class StoredOutline:
    """The coordinator's share; it knows no bins."""

    outline: ForestOutline
    classes: NDArray[Any] | None
    metadata: Mapping[str, JsonValue]


def encode_forest(
    forest: Forest,
    bins: Bins,
    classes: NDArray[Any] | None = None,
    metadata: Mapping[str, JsonValue] = _NOTHING,
    workers: Workers = ALONE,
) -> bytes:
    """The one encoding of a forest; `metadata` is the caller's, `classes` the labels by number."""
    return b"".join(list_forest_pieces(forest, bins, classes, metadata, workers))


def list_forest_pieces(
    forest: Forest,
    bins: Bins,
    classes: NDArray[Any] | None = None,
    metadata: Mapping[str, JsonValue] = _NOTHING,
    workers: Workers = ALONE,
) -> list[memoryview | bytes]:
    """The same in pieces that follow each other; large ones are the forest's own arrays."""
    _check_columns(forest.n_features, bins)
    arrays, names = bins.to_arrays()
    arrays |= _shape_arrays(forest.shape) | _split_arrays(forest.splits)
    arrays |= _leaf_arrays(forest.leaves, forest.decrease)
    about = _describe_classes(classes, forest.n_classes) | {"about": metadata}
    return list_pieces(FOREST, names | about, arrays, workers)


def decode_forest(data: bytes | memoryview) -> StoredForest:
    """Read what `encode_forest` gave; raises `ModelFileError` for anything else."""
    file = _open(data, FOREST)
    bins = Bins.from_arrays(file.arrays, file.metadata)
    shape = _read_shape(file.arrays)
    splits = _read_splits(file.arrays, shape, bins)
    n_classes, classes = _read_classes(file.metadata)
    leaves, decrease = _read_leaves(file.arrays, shape, n_classes)
    forest = Forest(shape, splits, leaves, decrease, n_classes, bins.n_features)
    return StoredForest(forest, bins, classes, _read_about(file.metadata))


def encode_partial(
    partial: PartialForest, bins: Bins, metadata: Mapping[str, JsonValue] = _NOTHING
) -> bytes:
    """The one encoding of an owner's share; `bins` are those of its columns."""
    _check_columns(partial.n_features, bins)
    arrays, names = bins.to_arrays()
    arrays |= _shape_arrays(partial.shape) | _split_arrays(partial.splits)
    return encode_model(PARTIAL, names | {"about": metadata}, arrays)


def decode_partial(data: bytes | memoryview) -> StoredPartial:
    """Read what `encode_partial` gave; raises `ModelFileError` for anything else."""
    file = _open(data, PARTIAL)
    bins = Bins.from_arrays(file.arrays, file.metadata)
    # an owner of labels only is not told the trees
    shape = _read_shape(file.arrays, least_trees=0 if bins.n_features == 0 else 1)
    splits = _read_splits(file.arrays, shape, bins, least_feature=FOREIGN)
    partial = PartialForest(shape, splits, bins.n_features)
    return StoredPartial(partial, bins, _read_about(file.metadata))


def encode_outline(
    outline: ForestOutline,
    classes: NDArray[Any] | None = None,
    metadata: Mapping[str, JsonValue] = _NOTHING,
) -> bytes:
    """The one encoding of the coordinator's share."""
    arrays = _shape_arrays(outline.shape) | _leaf_arrays(outline.leaves, outline.decrease)
    arrays["owner"] = outline.owner
    about = _describe_classes(classes, outline.n_classes) | {"about": metadata}
    return encode_model(OUTLINE, about, arrays)


def decode_outline(data: bytes | memoryview) -> StoredOutline:
    """Read what `encode_outline` gave; raises `ModelFileError` for anything else."""
    file = _open(data, OUTLINE)
    shape = _read_shape(file.arrays)
    owner = _read_vector(file.arrays, "owner", np.int16, shape.n_nodes)
    is_leaf = shape.left_child == LEAF
    _require((owner >= NOBODY).all(), "owners", "one is out of range")
    _require(((owner == NOBODY) == is_leaf).all(), "owners", "leaves and splits are mixed up")
    n_classes, classes = _read_classes(file.metadata)
    leaves, decrease = _read_leaves(file.arrays, shape, n_classes)
    outline = ForestOutline(shape, owner, leaves, decrease, n_classes)
    return StoredOutline(outline, classes, _read_about(file.metadata))


def _shape_arrays(shape: Shape) -> dict[str, NDArray[Any]]:
    return dict(zip(_SHAPE, (shape.tree_start, shape.left_child), strict=True))


def _split_arrays(splits: Splits) -> dict[str, NDArray[Any]]:
    return {name: getattr(splits, name) for name in _SPLITS}


def _leaf_arrays(leaves: Leaves, decrease: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    return dict(zip(_LEAVES, (leaves.start, leaves.label, leaves.value, decrease), strict=True))


def _check_columns(n_features: int, bins: Bins) -> None:
    if n_features != bins.n_features:
        raise ModelFileError(
            f"cannot store the model: it has {n_features} columns, its bins {bins.n_features}"
        )


def _describe_classes(classes: NDArray[Any] | None, n_classes: int) -> dict[str, JsonValue]:
    if classes is not None and classes.shape != (n_classes,):
        raise ModelFileError(f"cannot store the model: {n_classes} classes need as many labels")
    labels = None if classes is None else pack_labels(classes)
    return {"classes": labels, "n_classes": n_classes}


def _open(data: bytes | memoryview, kind: str) -> ModelContents:
    file = decode_model(data, expected_kind=kind, writable=True)
    _require(file.arrays.keys() == _ARRAYS_OF[kind], "arrays", "some are missing or unknown")
    _require(file.metadata.keys() == _METADATA_OF[kind], "metadata", "it has other entries")
    return file


def _read_shape(arrays: Mapping[str, NDArray[Any]], least_trees: int = 1) -> Shape:
    shape = Shape(
        _read_vector(arrays, "tree_start", np.int64), _read_vector(arrays, "left_child", np.int32)
    )
    _require(shape.n_trees >= least_trees, "trees", "there are none")
    shape.depths()  # raises where these are no trees
    return shape


def _read_splits(
    arrays: Mapping[str, NDArray[Any]], shape: Shape, bins: Bins, least_feature: int = LEAF
) -> Splits:
    """Splits of these columns; from `least_feature` to -1, features say that there is none."""
    is_raw = arrays["cut"].dtype.kind == "f"
    cut_type = np.dtype(np.float32 if is_raw else np.uint8)
    splits = StoredSplits(
        _read_vector(arrays, "feature", np.int32, shape.n_nodes),
        _read_vector(arrays, "cut", cut_type, shape.n_nodes),
        _read_vector(arrays, "missing_left", np.uint8, shape.n_nodes),
        _read_vector(arrays, "set_index", np.int32, shape.n_nodes),
    )
    wrong, n_sets = judge_splits(shape.left_child, splits, bins.n_features, least_feature), 0
    if not wrong & NO_COLUMN:
        n_bins = bins.n_bins[:0] if is_raw else bins.n_bins
        more, n_sets = judge_cuts(splits, bins.is_categorical, n_bins)
        wrong |= more
    _refuse(wrong, _WRONG_SPLITS)
    return Splits(*splits, _read_array(arrays, "left_set", np.uint64, (n_sets, SET_WORDS)))


def _read_leaves(
    arrays: Mapping[str, NDArray[Any]], shape: Shape, n_classes: int
) -> tuple[Leaves, NDArray[np.float64]]:
    value = _read_vector(arrays, "leaf_value", np.float64)
    leaves = StoredLeaves(
        _read_vector(arrays, "leaf_start", np.int64, shape.n_nodes + 1),
        _read_vector(arrays, "leaf_label", np.uint16, len(value) if n_classes else 0),
        value,
        _read_vector(arrays, "decrease", np.float64, shape.n_nodes),
    )
    wrong = judge_nodes(shape.left_child, leaves, n_classes)
    # entries are looked at where nodes lead to them
    wrong |= 0 if wrong & NO_SEQUENCE else judge_entries(leaves, n_classes)
    _refuse(wrong, _WRONG_LEAVES)
    return Leaves(leaves.start, leaves.label, leaves.value), leaves.decrease


def _read_classes(metadata: Mapping[str, JsonValue]) -> tuple[int, NDArray[Any] | None]:
    n_classes = metadata["n_classes"]
    if type(n_classes) is not int or not 0 <= n_classes <= MAX_CLASSES:
        raise _damaged("metadata", "the number of classes is out of range")
    if metadata["classes"] is None:
        return n_classes, None
    classes = unpack_labels(metadata["classes"])
    _require(len(classes) == n_classes > 0, "metadata", "it has another number of class labels")
    return n_classes, classes


def _read_about(metadata: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    about = metadata["about"]
    if not isinstance(about, dict):
        raise _damaged("metadata", "what it says about the model is no mapping")
    return about


def _read_vector(
    arrays: Mapping[str, NDArray[Any]], name: str, dtype: DTypeLike, length: int | None = None
) -> NDArray[Any]:
    return _read_array(arrays, name, dtype, (arrays[name].size if length is None else length,))


def _read_array(
    arrays: Mapping[str, NDArray[Any]], name: str, dtype: DTypeLike, shape: tuple[int, ...]
) -> NDArray[Any]:
    """One array in the byte order of this machine."""
    array, expected = arrays[name], np.dtype(dtype)
    if array.dtype != expected.newbyteorder("<") or array.shape != shape:
        raise _damaged(f"array {name!r}", f"it is not of {expected} and the expected shape")
    return array.astype(expected, copy=False)


def _refuse(wrong: int, reasons: Mapping[int, tuple[str, str]]) -> None:
    """Name the first of the things that are wrong."""
    for flag, (part, reason) in reasons.items():
        _require(not wrong & flag, part, reason)


def _require(condition: bool | np.bool_, part: str, reason: str) -> None:
    if not condition:
        raise _damaged(part, reason)


def _damaged(part: str, reason: str) -> DamagedModelError:
    return DamagedModelError(
        f"the stored forest is damaged in its {part}: {reason}; get a fresh copy"
    )
