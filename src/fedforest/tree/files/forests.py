"""Forests and partial forests as model files, and back.

A file may come from a stranger: every index is checked before a kernel could follow it, so opening
gives a model that can be walked, or a `DamagedModelError` that says what does not fit. Files keep
what does not follow from the rest (`docs/decisions/0018`); a forest is expanded when it is needed.
Decoded arrays are writable, like those of a forest just grown: for others numba would compile every
kernel once more. Equal models have equal bytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ModelFileError
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.arrays import damaged, read_vector, require
from fedforest.tree.files.container import (
    ModelContents,
    check_kind,
    decode_model,
    encode_model,
    list_pieces,
)
from fedforest.tree.files.packed_decreases import expand_decreases, pack_decreases, read_decreases
from fedforest.tree.files.packed_leaves import LEAF_ARRAYS, pack_leaves, read_leaves
from fedforest.tree.files.packed_shape import SHAPE_ARRAYS, PackedShape, pack_shape, read_shape
from fedforest.tree.files.packed_splits import (
    SPLIT_ARRAYS,
    expand_splits,
    keep_splits,
    pack_splits,
    read_splits,
)
from fedforest.tree.forest.forest import Forest
from fedforest.tree.forest.partial import NOBODY, ForestOutline, PartialForest, no_leaves
from fedforest.tree.table.bins import Bins
from fedforest.tree.table.class_labels import pack_labels, unpack_labels
from fedforest.tree.table.targets import MAX_CLASSES
from fedforest.tree.workers import ALONE, Workers

FOREST, PARTIAL, OUTLINE = "forest", "partial-forest", "forest-outline"
# where labels are encrypted, leaves are with the label party instead of the coordinator
VOTING_PARTIAL, BLIND_OUTLINE = "partial-forest-with-leaves", "forest-outline-without-leaves"

_NOTHING: Mapping[str, JsonValue] = MappingProxyType({})
_BINS = set(Bins.concatenate([]).to_arrays()[0])
_ARRAYS_OF = {
    FOREST: {*SHAPE_ARRAYS, *SPLIT_ARRAYS, *LEAF_ARRAYS, "decrease", *_BINS},
    PARTIAL: {*SHAPE_ARRAYS, *SPLIT_ARRAYS, *_BINS},
    OUTLINE: {*SHAPE_ARRAYS, "owner", *LEAF_ARRAYS, "decrease"},
    VOTING_PARTIAL: {*SHAPE_ARRAYS, *SPLIT_ARRAYS, *_BINS, *LEAF_ARRAYS, "decrease"},
    BLIND_OUTLINE: {*SHAPE_ARRAYS, "owner"},
}
_METADATA_OF = {
    FOREST: {"about", "classes", "has_names", "n_classes", "names"},
    PARTIAL: {"about", "has_names", "names"},
    OUTLINE: {"about", "classes", "n_classes"},
    VOTING_PARTIAL: {"about", "has_names", "names", "n_classes"},
    BLIND_OUTLINE: {"about", "classes", "n_classes"},
}


@dataclass(frozen=True, slots=True, eq=False)
class StoredForest:
    """A whole forest with the bins and classes that predicting a table needs."""

    forest: Forest
    bins: Bins
    classes: NDArray[Any] | None  # None for regression, or where class numbers are enough
    metadata: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, eq=False)
class StoredPartial:
    """An owner's partial forest with the bins of its columns."""

    partial: PartialForest
    bins: Bins
    metadata: Mapping[str, JsonValue]
    outline: ForestOutline | None = None  # with leaves, of the label party of encrypted labels


@dataclass(frozen=True, slots=True, eq=False)
class StoredOutline:
    """The coordinator's outline of a forest; it has no bins."""

    outline: ForestOutline
    classes: NDArray[Any] | None
    metadata: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, eq=False)
class OpenedForest:
    """A forest whose file was checked, packed until `expand`."""

    bins: Bins
    classes: NDArray[Any] | None
    metadata: Mapping[str, JsonValue]
    n_classes: int  # 0 for regression
    n_trees: int
    has_bins: bool  # whether splits compare bins, not raw values
    make_forest: Callable[[Workers], Forest]

    def expand(self, workers: Workers = ALONE) -> StoredForest:
        """Unpack the forest so that it can predict."""
        return StoredForest(self.make_forest(workers), self.bins, self.classes, self.metadata)


def encode_forest(
    forest: Forest,
    bins: Bins,
    classes: NDArray[Any] | None = None,
    metadata: Mapping[str, JsonValue] = _NOTHING,
    workers: Workers = ALONE,
) -> bytes:
    """Return the one encoding of a forest; `classes` are the labels by class number."""
    return b"".join(list_forest_pieces(forest, bins, classes, metadata, workers))


def list_forest_pieces(
    forest: Forest,
    bins: Bins,
    classes: NDArray[Any] | None = None,
    metadata: Mapping[str, JsonValue] = _NOTHING,
    workers: Workers = ALONE,
) -> list[memoryview | bytes]:
    """Return the encoding of a forest in consecutive pieces."""
    _check_columns(forest.n_features, bins)
    arrays, names = bins.to_arrays()
    shape = pack_shape(forest.shape, workers)
    arrays |= shape.to_arrays()

    def add_splits() -> None:
        splits = pack_splits(forest.splits, shape, forest.n_features)
        arrays["decrease"] = pack_decreases(forest.decrease, shape, splits)
        arrays.update(splits.to_arrays())

    def add_leaves() -> None:
        arrays.update(pack_leaves(forest.leaves, shape, forest.n_classes).to_arrays())

    workers.run(lambda add: add(), [add_splits, add_leaves])
    about = _describe_classes(classes, forest.n_classes) | {"about": metadata}
    return list_pieces(FOREST, names | about, arrays, workers)


def decode_forest(data: bytes | memoryview, workers: Workers = ALONE) -> StoredForest:
    """Read what `encode_forest` gave; raises `ModelFileError` for anything else."""
    return open_forest(data).expand(workers)


def open_forest(data: bytes | memoryview) -> OpenedForest:
    """Check a file as `decode_forest` does, but leave the forest packed."""
    file = _open(data, FOREST)
    bins = Bins.from_arrays(file.arrays, file.metadata)
    n_classes, classes = _read_classes(file.metadata)
    about = _read_about(file.metadata)
    shape = read_shape(file.arrays)
    splits = read_splits(file.arrays, shape, bins)
    leaves = read_leaves(file.arrays, shape, n_classes)
    decrease = read_decreases(file.arrays, shape, splits)

    def make_forest(workers: Workers) -> Forest:
        of_nodes = splits.expand(shape, bins.is_categorical, workers)
        return Forest(
            shape.expand(),
            of_nodes,
            leaves.expand(shape),
            expand_decreases(decrease, shape, of_nodes.feature),
            n_classes,
            bins.n_features,
        )

    return OpenedForest(
        bins, classes, about, n_classes, shape.n_trees, splits.has_bins, make_forest
    )


def encode_partial(
    partial: PartialForest,
    bins: Bins,
    metadata: Mapping[str, JsonValue] = _NOTHING,
    outline: ForestOutline | None = None,
) -> bytes:
    """Return the one encoding of a partial forest; `bins` are those of its columns.

    `outline` says what leaves predict, at the label party of encrypted labels.
    """
    _check_columns(partial.n_features, bins)
    arrays, names = bins.to_arrays()
    shape = pack_shape(partial.shape)
    splits = pack_splits(partial.splits, shape, partial.n_features)
    arrays |= shape.to_arrays() | splits.to_arrays()
    about = names | {"about": metadata}
    if outline is None:
        return encode_model(PARTIAL, about, arrays)
    arrays |= pack_leaves(outline.leaves, shape, outline.n_classes).to_arrays()
    arrays["decrease"] = pack_decreases(outline.decrease, shape)
    return encode_model(VOTING_PARTIAL, about | {"n_classes": outline.n_classes}, arrays)


def decode_partial(data: bytes | memoryview) -> StoredPartial:
    """Read what `encode_partial` gave; raises `ModelFileError` for anything else."""
    file = _open(data, PARTIAL, VOTING_PARTIAL)
    bins = Bins.from_arrays(file.arrays, file.metadata)
    about = _read_about(file.metadata)
    # an owner that has only labels does not know the trees
    least_trees = 0 if bins.n_features == 0 else 1
    shape = read_shape(file.arrays, least_trees)
    splits = read_splits(file.arrays, shape, bins, may_be_foreign=True)
    whole = splits.expand(shape, bins.is_categorical)
    partial = PartialForest(shape.expand(), whole, bins.n_features)
    outline = _read_leaves(file, shape, partial) if file.kind == VOTING_PARTIAL else None
    return StoredPartial(partial, bins, about, outline)


def _read_leaves(file: ModelContents, shape: PackedShape, partial: PartialForest) -> ForestOutline:
    """Read what leaves predict and splits were worth; who split which node is not said."""
    n_classes = _read_class_count(file.metadata)
    leaves = read_leaves(file.arrays, shape, n_classes).expand(shape)
    decrease = expand_decreases(read_decreases(file.arrays, shape), shape)
    nobody = np.full(shape.n_nodes, NOBODY, np.int16)
    return ForestOutline(partial.shape, nobody, leaves, decrease, n_classes)


def encode_outline(
    outline: ForestOutline,
    classes: NDArray[Any] | None = None,
    metadata: Mapping[str, JsonValue] = _NOTHING,
) -> bytes:
    """Return the one encoding of the coordinator's outline, with leaves or without."""
    shape = pack_shape(outline.shape)
    arrays = shape.to_arrays()
    arrays["owner"] = keep_splits(shape, outline.owner)
    about = _describe_classes(classes, outline.n_classes) | {"about": metadata}
    if not outline.has_leaves:
        return encode_model(BLIND_OUTLINE, about, arrays)
    arrays |= pack_leaves(outline.leaves, shape, outline.n_classes).to_arrays()
    arrays["decrease"] = pack_decreases(outline.decrease, shape)
    return encode_model(OUTLINE, about, arrays)


def decode_outline(data: bytes | memoryview) -> StoredOutline:
    """Read what `encode_outline` gave; raises `ModelFileError` for anything else."""
    file = _open(data, OUTLINE, BLIND_OUTLINE)
    n_classes, classes = _read_classes(file.metadata)
    about = _read_about(file.metadata)
    shape = read_shape(file.arrays)
    owner = read_vector(file.arrays, "owner", np.int16, shape.n_splits)
    require((owner > NOBODY).all(), "owners", "one is out of range")
    leaves, decrease = no_leaves(shape.n_nodes), np.zeros(shape.n_nodes)
    if file.kind == OUTLINE:
        leaves = read_leaves(file.arrays, shape, n_classes).expand(shape)
        decrease = expand_decreases(read_decreases(file.arrays, shape), shape)
    owners = expand_splits(shape, owner, NOBODY)
    outline = ForestOutline(shape.expand(), owners, leaves, decrease, n_classes)
    return StoredOutline(outline, classes, about)


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


def _open(data: bytes | memoryview, kind: str, other: str | None = None) -> ModelContents:
    file = decode_model(data, writable=True)
    if file.kind != other:
        check_kind(file.kind, kind)
    kind = file.kind
    require(file.arrays.keys() == _ARRAYS_OF[kind], "arrays", "some are missing or unknown")
    require(file.metadata.keys() == _METADATA_OF[kind], "metadata", "it has other entries")
    return file


def _read_classes(metadata: Mapping[str, JsonValue]) -> tuple[int, NDArray[Any] | None]:
    n_classes = _read_class_count(metadata)
    if metadata["classes"] is None:
        return n_classes, None
    classes = unpack_labels(metadata["classes"])
    require(len(classes) == n_classes > 0, "metadata", "it has another number of class labels")
    return n_classes, classes


def _read_class_count(metadata: Mapping[str, JsonValue]) -> int:
    n_classes = metadata["n_classes"]
    if type(n_classes) is not int or not 0 <= n_classes <= MAX_CLASSES:
        raise damaged("metadata", "the number of classes is out of range")
    return n_classes


def _read_about(metadata: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    about = metadata["about"]
    if not isinstance(about, dict):
        raise damaged("metadata", "what it says about the model is no mapping")
    return about
