"""Categories and their bins: the order of codes, rare categories, and storage as arrays.

The most frequent categories own a bin each, in category order; all rarer ones share the bin after
them. A category that training did not see is treated as missing.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DamagedModelError
from fedforest.kernels.layout import MAX_BINS, MISSING_BIN
from fedforest.tree.table.columns import Category, CategoryColumn, is_canonical

N_OWN_BINS = MAX_BINS - 1
RARE_BIN = N_OWN_BINS

_TYPES = (str, int, float)


def count_categories(column: CategoryColumn) -> dict[Category, int]:
    """Count the rows of each category that occurs."""
    counts = np.bincount(column.codes + 1, minlength=len(column.values) + 1)[1:].tolist()
    return {value: count for value, count in zip(column.values, counts, strict=True) if count}


def order_categories(count_of: Mapping[Category, int]) -> tuple[Category, ...]:
    """Return categories in code order, given their rows; those after N_OWN_BINS are rare."""
    ordered = sort_categories(list(count_of))
    if len(ordered) <= N_OWN_BINS:
        return tuple(ordered)
    by_frequency = sorted(ordered, key=lambda value: -count_of[value])  # stable: ties stay ordered
    frequent = set(by_frequency[:N_OWN_BINS])
    return tuple(sorted(ordered, key=lambda value: value not in frequent))


def find_bins(column: CategoryColumn, categories: Sequence[Category]) -> NDArray[np.uint8]:
    """Return the bins of a column's rows, given the categories in code order."""
    bin_of = {value: min(code, RARE_BIN) for code, value in enumerate(categories)}
    bins = [bin_of.get(value, MISSING_BIN) for value in column.values]
    return np.array([*bins, MISSING_BIN], np.uint8)[column.codes]  # code -1 finds the last


def sort_categories(values: list[Category]) -> list[Category]:
    """Sort categories by value, or by type and text if there are both text and numbers."""
    numbers = [value for value in values if not isinstance(value, str)]
    texts = [value for value in values if isinstance(value, str)]
    if numbers and texts:
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))
    return [*sorted(numbers), *sorted(texts)]


def pack_categories(lists: Sequence[Sequence[Category]]) -> dict[str, NDArray[Any]]:
    """Store lists of categories as arrays: the type and the UTF-8 text of each category.

    Arrays and not JSON, because a column of identifiers can have millions of categories.
    """
    flat = [value for values in lists for value in values]
    texts = [str(value).encode() for value in flat]
    return {
        "category_counts": np.array([len(values) for values in lists], np.int64),
        "category_types": np.array([_TYPES.index(type(value)) for value in flat], np.uint8),
        "category_lengths": np.array([len(text) for text in texts], np.int64),
        "category_text": np.frombuffer(b"".join(texts), np.uint8),
    }


def unpack_categories(arrays: Mapping[str, NDArray[Any]]) -> list[tuple[Category, ...]]:
    """Read what `pack_categories` wrote; raises `DamagedModelError` for anything else."""
    counts = read_array(arrays, "category_counts", np.int64).tolist()
    types = read_array(arrays, "category_types", np.uint8).tolist()
    lengths = read_array(arrays, "category_lengths", np.int64).tolist()
    text = read_array(arrays, "category_text", np.uint8).tobytes()
    if min([0, *counts, *lengths]) < 0:
        raise damaged("a length is negative")
    if not sum(counts) == len(types) == len(lengths) or sum(lengths) != len(text):
        raise damaged("the lengths of its categories do not add up")
    pieces = (text[first:last] for first, last in pairwise(accumulate([0, *lengths])))
    flat = [_parse(kind, piece) for kind, piece in zip(types, pieces, strict=True)]
    lists = [tuple(flat[first:last]) for first, last in pairwise(accumulate([0, *counts]))]
    if any(len(set(values)) < len(values) for values in lists):
        raise damaged("a category is repeated")
    return lists


def read_array(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type) -> NDArray[Any]:
    """Return an array of a stored model; raises unless it is a vector of this type."""
    array = arrays.get(name)
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != dtype:
        raise damaged(f"array {name!r} is missing, or not a vector of {np.dtype(dtype)}")
    return array


def damaged(reason: str) -> DamagedModelError:
    return DamagedModelError(f"the bins of the model are damaged: {reason}; get a fresh copy")


def _parse(kind: int, text: bytes) -> Category:
    """Read one category; only its canonical form, as `str` writes it, is accepted."""
    try:
        # numbers are short, and parsing digits takes quadratic time
        value = text.decode() if kind == 0 else _TYPES[kind](text[:32].decode("ascii"))
    except (ValueError, IndexError):
        raise damaged("a category cannot be read") from None
    if str(value).encode() != text or not is_canonical(value):
        raise damaged("a category is not in its one form")
    return value
