"""Random cuts between parties, slowly: every row asked one by one, every sum a Python integer."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.reference.splits import Sums

ABSTAINS = math.nan
Score = Callable[[Sums, Sums], float]  # of the left side out of the node


@dataclass(frozen=True)
class Cut:
    """A threshold, or a set of categories, and the side of missing values."""

    threshold: np.float32
    missing_left: bool
    left_set: frozenset[int] | None = None

    def goes_left(self, value: np.float32) -> bool:
        if math.isnan(value):
            return self.missing_left
        if self.left_set is not None:
            return int(value) in self.left_set
        return bool(value <= self.threshold)


def list_candidates(bitmap: Sequence[Sequence[int]]) -> list[list[int]]:
    """The columns of each node."""
    return [
        [8 * place + bit for place, byte in enumerate(row) for bit in range(8) if byte >> bit & 1]
        for row in bitmap
    ]


def draw_point(
    values: Sequence[np.float32], unit: float, least_rows: int, *, is_categorical: bool
) -> float:
    """A party's point for the values it sees in a node, NaN if it abstains."""
    seen = [value for value in values if not math.isnan(value)]
    if len(seen) < least_rows or min(seen) == max(seen):
        return ABSTAINS
    if is_categorical:
        return 0.0
    lowest = np.nextafter(min(seen), np.float32(math.inf))
    highest = np.nextafter(max(seen), np.float32(-math.inf))
    if not lowest <= highest:
        return ABSTAINS
    return float(np.float32(float(lowest) + (float(highest) - float(lowest)) * unit))


def merge_points(points: Sequence[float], unit: float) -> float:
    """The threshold drawn between the points of the parties that did not abstain."""
    answers = [point for point in points if not math.isnan(point)]
    if not answers:
        return math.nan
    low, high = min(answers), max(answers)
    drawn = float(np.float32(low + (high - low) * unit))
    return drawn if drawn < high else low


def add_up(rows: Sequence[Sums], width: int) -> Sums:
    """The sums of some rows, each of which adds `width` integers."""
    return tuple(sum(row[c] for row in rows) for c in range(width))


@dataclass(frozen=True)
class AskedCut:
    """What the parties' sums say about a cut: each side has its rows last."""

    left: Sums
    right: Sums


def choose_cut(cuts: Sequence[AskedCut], score: Score, min_rows_leaf: int) -> tuple[int, float]:
    """(position, score) of the best valid cut, the first of equals; (-1, -inf) if there is none."""
    best, best_score = -1, -math.inf
    for place, cut in enumerate(cuts):
        if min(cut.left[-1], cut.right[-1]) < min_rows_leaf:
            continue
        node = tuple(a + b for a, b in zip(cut.left, cut.right, strict=True))
        if score(cut.left, node) > best_score:
            best, best_score = place, score(cut.left, node)
    return best, best_score


def gains(cut: AskedCut) -> bool:
    """Whether the means of (weight, sum, rows) differ between the sides."""
    (a, s, _), (b, t, _) = cut.left, cut.right
    return s * b != t * a
