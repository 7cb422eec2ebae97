"""The union of the classes of all parties, where each party knows its own only.

A class that some parties never saw is a class like the others. Labels of different kinds are
refused: 1, "1" and True would be three classes in one library and one class in another.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.tree.table.targets import MAX_CLASSES

_KINDS = {"b": "booleans", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text", "T": "text"}


def merge_classes(classes_by_party: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Merge each party's distinct labels into all classes, sorted; a party may have none.

    Raises `DataError` where labels are of different kinds, or too many; it names parties and no
    label.
    """
    declared = {party: classes for party, classes in classes_by_party.items() if len(classes)}
    if not declared:
        raise DataError.stating("No party has a label; there is nothing to learn from.")
    _check_kinds({party: _kind_of(classes, party) for party, classes in declared.items()})
    together = np.concatenate(list(declared.values()))
    # Python compares an integer with a float exactly; numpy's common type may have rounded both
    if together.tolist() != [label for classes in declared.values() for label in classes.tolist()]:
        raise DataError(
            "Class labels of different parties have no common type that holds all of them "
            f"exactly: {_list_types(declared)}. Use one type at all parties."
        )
    merged = np.unique(together)
    if len(merged) > MAX_CLASSES:
        raise DataError.of("target.classes", n_classes=len(merged), limit=MAX_CLASSES)
    return merged


def find_codes(own: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return where a party's classes are among all; raises `DataError` if one is missing."""
    if len(own) == 0:
        return np.zeros(0, np.int64)
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    codes = [code_of.get(label, -1) for label in own.tolist()]
    if min(codes) < 0:
        raise DataError.stating("The classes of the run lack a class of this party.")
    return np.array(codes, np.int64)


def _check_kinds(kind_of_party: Mapping[str, str]) -> None:
    first, kind = next(iter(kind_of_party.items()))
    for party, other in kind_of_party.items():
        if other != kind:
            raise DataError(
                f"Class labels are {kind} at party {first!r} and {other} at {party!r}; use one "
                "kind at all parties."
            )


def _kind_of(classes: NDArray[Any], party: str) -> str:
    if classes.dtype.kind != "O":
        return _KINDS.get(classes.dtype.kind, str(classes.dtype))
    kinds = {_kind_of_object(label) for label in classes.tolist()}
    if len(kinds) > 1:
        raise DataError(
            f"party {party!r} mixes class labels of different kinds ({', '.join(sorted(kinds))}); "
            "make them all one kind."
        )
    return kinds.pop()


def _kind_of_object(label: object) -> str:
    if isinstance(label, str):
        return "text"
    if isinstance(label, bool | np.bool_):
        return "booleans"
    return "numbers" if isinstance(label, int | float | np.number) else type(label).__name__


def _list_types(declared: Mapping[str, NDArray[Any]]) -> str:
    return ", ".join(f"{classes.dtype} at {party!r}" for party, classes in declared.items())
