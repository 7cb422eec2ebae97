"""Stored forests with something else in them, and right checksums, as a stranger could write."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.tree.files.container import decode_model, encode_model
from fedforest.tree.files.forests import encode_forest
from fedforest.tree.forest.forest import Forest
from fedforest.tree.table.bins import Bins, number_categories
from tests.tree.grown_forests import renumber, sample_forest

Arrays = dict[str, NDArray[Any]]
Metadata = dict[str, Any]
Change = Callable[[Arrays, Metadata], None]

HUGE = 2**31 - 1
CLASSES = np.array(["high", "low", "none"])
SECRET = "patient-4711"


def stored_forest(task: str = "classes", *, by_level: bool = True) -> bytes:
    """Trees that number children in the order of their parents, or in another."""
    grown = sample_forest(task)
    labels = CLASSES if grown.forest.n_classes else None
    forest = renumber(grown.forest, by_level=by_level)
    return encode_forest(forest, grown.bins, labels, {"note": SECRET})


def with_columns(forest: Forest, bins: Bins, n_columns: int) -> tuple[Forest, Bins]:
    """The forest over a table with columns that it never splits by."""
    n_more = n_columns - bins.n_features
    names = [f"more {place}" for place in range(n_more)]
    others = number_categories(names, [None] * n_more, has_names=True)
    return replace(forest, n_features=n_columns), Bins.concatenate([bins, others])


def changed(data: bytes, change: Change) -> bytes:
    """The file with something else in it, and right checksums, as a stranger could write it."""
    file = decode_model(data)
    arrays = {name: array.copy() for name, array in file.arrays.items()}
    metadata = dict(file.metadata)
    change(arrays, metadata)
    return encode_model(file.kind, metadata, arrays)


def put(name: str, at: int | tuple[int, ...] | slice, value: object) -> Change:
    def change(arrays: Arrays, _metadata: Metadata) -> None:
        arrays[name][at] = value

    return change


def make(name: str, remake: Callable[[NDArray[Any]], NDArray[Any]]) -> Change:
    def change(arrays: Arrays, _metadata: Metadata) -> None:
        arrays[name] = remake(arrays[name])

    return change


def state(**entries: object) -> Change:
    def change(_arrays: Arrays, metadata: Metadata) -> None:
        metadata.update(entries)

    return change


def wrap_around(name: str) -> Change:
    """Steps that look positive only because their differences overflow."""

    def change(arrays: Arrays, _metadata: Metadata) -> None:
        third = 2**64 // 3
        arrays[name][1:3] = [third, 2 * third - 2**64]

    return change


def drop(name: str) -> Change:
    def change(arrays: Arrays, metadata: Metadata) -> None:
        del (arrays if name in arrays else metadata)[name]

    return change


# what both forms of a file have: classes, names and bins; with what the error says of it
DAMAGED_DESCRIPTIONS: list[tuple[Change, str]] = [
    (put("edges", 0, np.nan), "bins of the model are damaged"),
    (state(n_classes=2), "class is out of range|number of class labels"),
    (state(n_classes=0), "number of class labels"),
    (state(n_classes=4), "number of class labels"),
    (state(n_classes=-1), "number of classes is out of range"),
    (state(n_classes=10**9), "number of classes is out of range"),
    (state(n_classes=True), "number of classes is out of range"),
    (state(n_classes=3.0), "number of classes is out of range"),
    (state(classes={"dtype": "U4", "labels": ["a", "a", "b"]}), "class labels .* repeated"),
    (state(about=[]), "no mapping"),
    (state(more=1), "other entries"),
    (state(names=["a"]), "bins of the model are damaged"),
]
