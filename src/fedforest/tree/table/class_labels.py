"""Class labels as part of a model file's metadata: JSON's own types and the name of a dtype.

Labels are read back with the same dtype and values, so a stored forest predicts labels of the same
type. Labels are text, booleans or finite numbers, or objects that are these.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DamagedModelError, ModelFileError
from fedforest.printable import is_fit_for_names
from fedforest.tree.canonical_json import JsonValue

LONGEST_CLASS_NAME = 4096  # characters
Label = bool | int | float | Annotated[str, msgspec.Meta(max_length=LONGEST_CLASS_NAME)]

_TYPE_OF_KIND = {"b": bool, "i": int, "u": int, "f": float, "U": str, "T": str}
_SIMPLE = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "object"),
)
_FIXED_TEXT = re.compile(r"U([1-9][0-9]{0,7})", re.ASCII)
_STRINGS: np.dtype[Any] = np.dtypes.StringDType()
_MAX_TEXT_BYTES = 1 << 26  # of an array of fixed-width text: a damaged file may state any width


def pack_labels(labels: NDArray[Any]) -> JsonValue:
    """Describe the labels; raises `ModelFileError` where no file can hold them."""
    name = _name_of(labels.dtype)
    values = labels.tolist()
    types = (bool, int, float, str) if name == "object" else (_TYPE_OF_KIND[labels.dtype.kind],)
    if labels.ndim != 1 or not all(type(value) in types for value in values):
        raise _cannot_store()
    return {"dtype": name, "labels": values}


def unpack_labels(stored: JsonValue) -> NDArray[Any]:
    """Read what `pack_labels` gave; raises `DamagedModelError` for anything else."""
    if not isinstance(stored, Mapping) or stored.keys() != {"dtype", "labels"}:
        raise _damaged("their description is incomplete")
    name, values = stored["dtype"], stored["labels"]
    if not isinstance(name, str) or not isinstance(values, list):
        raise _damaged("their description has the wrong types")
    dtype = _dtype_of(name, len(values))
    types = (bool, int, float, str) if name == "object" else (_TYPE_OF_KIND[dtype.kind],)
    if not all(type(value) in types for value in values):
        raise _damaged("a label has another type than it should")
    if len(set(values)) < len(values):
        raise _damaged("a label is repeated")
    try:
        with np.errstate(all="ignore"):
            labels = np.array(values, dtype)
    except OverflowError:
        raise _damaged("a label does not fit its type") from None
    if labels.tolist() != values:
        raise _damaged("a label does not fit its type")
    return labels


def are_fit_for_names(labels: Iterable[object]) -> bool:
    """Whether class labels can be told to others: no control characters, no marks of direction."""
    texts = (label for label in labels if isinstance(label, str))
    return all(len(text) <= LONGEST_CLASS_NAME and is_fit_for_names(text) for text in texts)


def _name_of(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "U" and 0 < dtype.itemsize <= _MAX_TEXT_BYTES:
        return f"U{dtype.itemsize // 4}"
    name = "string" if dtype == _STRINGS else dtype.name
    if name not in (*_SIMPLE, "string"):
        raise _cannot_store()
    return name


def _dtype_of(name: str, n_labels: int) -> np.dtype[Any]:
    if name in _SIMPLE:
        return np.dtype(name)
    if name == "string":
        return _STRINGS
    width = _FIXED_TEXT.fullmatch(name)
    if width is None:
        raise _damaged("their type is not one of ours")
    if 4 * int(width[1]) * n_labels > _MAX_TEXT_BYTES:
        raise _damaged("their type is too wide")
    return np.dtype(name)


def _cannot_store() -> ModelFileError:
    return ModelFileError(
        "cannot store the class labels: they must be text, booleans or numbers of at most 64 bits; "
        "train on labels of one of these types"
    )


def _damaged(reason: str) -> DamagedModelError:
    return DamagedModelError(
        f"the class labels of the stored forest are damaged: {reason}; get a fresh copy"
    )
