"""Binning in the plainest words: sorted lists, nearest places, numpy's own search."""

import sys
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

MISSING = 255


def midpoint(low: float, high: float) -> float:
    """Halfway, infinities counted as the largest float; `low` itself when nothing lies between."""
    largest = sys.float_info.max
    middle = max(low, -largest) / 2 + min(high, largest) / 2
    return middle if low <= middle < high else low


def edges_between(values: Sequence[float]) -> list[float]:
    distinct = sorted(set(values))
    return [midpoint(low, high) for low, high in pairwise(distinct)]


def edges_at_quantiles(values: Sequence[float], max_bins: int) -> list[float]:
    """Give each bin its share of what is left; cut at the nearest change of value."""
    ascending = sorted(values)
    end = len(ascending)
    changes = [i for i in range(1, end) if ascending[i - 1] != ascending[i]]
    edges: list[float] = []
    begin = 0
    for n_bins_left in range(max_bins, 1, -1):
        target = begin + -(-(end - begin) // n_bins_left)
        places = [place for place in [*changes, end] if place > begin]
        cut = min(places, key=lambda place: (abs(place - target), -place), default=end)
        if cut == end:
            break
        edges.append(midpoint(ascending[cut - 1], ascending[cut]))
        begin = cut
    return edges


def fit_edges(column: ArrayLike, sampled_rows: NDArray[np.int64], max_bins: int) -> list[float]:
    """The edges of a numeric column, from all its rows and from the sampled ones."""
    values = np.asarray(column, np.float64)
    everything = values[~np.isnan(values)].tolist()
    sampled = values[sampled_rows][~np.isnan(values[sampled_rows])].tolist()
    if len(set(everything)) <= max_bins:
        return edges_between(everything)
    if len(set(sampled)) <= max_bins:
        return edges_between(sampled)
    return edges_at_quantiles(sampled, max_bins)


def find_bins(column: ArrayLike, edges: Sequence[float]) -> NDArray[np.uint8]:
    """Bins of a numeric column: how many edges lie below each value."""
    values = np.asarray(column, np.float64)
    bins = np.searchsorted(np.asarray(edges, np.float64), values, side="left")
    return np.where(np.isnan(values), MISSING, bins).astype(np.uint8)


def order_categories(values: Sequence[Hashable]) -> list[Hashable]:
    """The 254 most frequent categories in their order, then the rare ones in theirs."""
    counts = Counter(value for value in values if value is not None)
    ordered = sorted(counts)  # type: ignore[type-var]
    frequent = sorted(ordered, key=lambda value: -counts[value])[:254]
    return [value for value in ordered if value in frequent] + [
        value for value in ordered if value not in frequent
    ]
