"""The best split of one node: every cut of every candidate column, tried one after the other.

Sums are Python integers. Scores are floats by the formulas, and in the order of operations, that
the kernels document, so that the best split must be equal and not just close. Whoever comes first
wins a tie: the lowest column, then missing values on the right, then the lowest bin.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from fedforest.kernels.criteria.information import x_log2_x

MISSING = 255
UNSEEN = 2  # side of missing values where the node has none
EXACT_WEIGHT = 2**31  # class scores of lighter nodes come from whole numbers

Sums = tuple[int, ...]  # of some rows: what a statistic counts, then the rows themselves


@dataclass(frozen=True)
class Row:
    """A drawn row: its weight counts how often it was drawn."""

    bins: Sequence[int]
    weight: int
    target: int  # times the weight
    label: int = 0


@dataclass(frozen=True)
class Split:
    """What a node asks. A categorical split has the set of bins that go left, and cut 0."""

    score: float
    feature: int
    cut: int
    missing_left: int
    left_set: frozenset[int] | None = None

    def goes_left(self, bins: Sequence[int]) -> bool:
        code = bins[self.feature]
        if self.left_set is not None:
            return code in self.left_set
        return self.missing_left == 1 if code == MISSING else code <= self.cut


@dataclass(frozen=True)
class Statistic:
    """What is summed up over rows, how a left side is scored, what categories are ordered by."""

    of_row: Callable[[Row], Sums]
    score: Callable[[Sums, Sums], float]  # of the left side out of the node
    key: Callable[[Sums, Sums], float]  # of one category out of the node


def moments() -> Statistic:
    """Weight and sum of targets; two unweighted classes are the targets 0 and 1."""

    def score(left: Sums, node: Sums) -> float:
        a, n = float(left[0]), float(node[0])
        numerator = float(left[1]) * n - float(node[1]) * a
        return numerator * numerator / (a * (n - a))

    return Statistic(
        lambda row: (row.weight, row.target, 1),
        score,
        lambda category, _: float(category[1]) / float(category[0]),
    )


def deviance() -> Statistic:
    """Weight and sum of targets from zero on, scored by the deviance of Poisson."""

    def score(left: Sums, node: Sums) -> float:
        (a, s), (n, m) = map(float, left[:2]), map(float, node[:2])
        if s <= 0.0 or m - s <= 0.0:
            return -math.inf
        numerator = s * n - m * a
        b = n - a
        return m * (a * _stray(numerator / (m * a)) + b * _stray(-numerator / (m * b)))

    return replace(moments(), score=score)


def _stray(x: float) -> float:
    """(1 + x) ln(1 + x) - x."""
    if abs(x) >= 0.25:
        return float(x_log2_x(1.0 + x)) * 0.6931471805599453 - x
    z = x / (2.0 + x)
    square, series = z * z, 0.0
    for k in range(23, 1, -2):
        series = series * square + 1.0 / k
    return 2.0 * square * (1.0 + (square + z) * series) / (1.0 - z)


def class_weights(n_classes: int, *, entropy: bool) -> Statistic:
    """The weight of each class."""

    def of_row(row: Row) -> Sums:
        return (*(row.weight * (label == row.label) for label in range(n_classes)), 1)

    def score(left: Sums, node: Sums) -> float:
        sides = [left[:-1], subtract(node, left)[:-1]]
        if sum(node[:-1]) >= EXACT_WEIGHT:
            parts = [_heavy_entropy(side) if entropy else _heavy_gini(side) for side in sides]
            return parts[0] + parts[1]
        if entropy:
            fixed = [sum(map(_fixed_x_log2_x, side)) - _fixed_x_log2_x(sum(side)) for side in sides]
            return float(sum(fixed)) / 2.0**26
        squares = [float(sum(x * x for x in side)) / float(sum(side)) for side in sides]
        return squares[0] + squares[1]

    def key(category: Sums, node: Sums) -> float:
        majority = node.index(max(node[:-1]))
        return float(category[majority]) / float(sum(category[:-1]))

    return Statistic(of_row, score, key)


def _fixed_x_log2_x(x: int) -> int:
    return math.floor(float(x_log2_x(float(x))) * 2.0**26 + 0.5)


def _heavy_gini(side: Sums) -> float:
    squares = 0.0
    for x in side:
        squares += float(x) * float(x)
    return squares / float(sum(side))


def _heavy_entropy(side: Sums) -> float:
    total = 0.0
    for x in side:
        total += x_log2_x(float(x))
    return total - float(x_log2_x(float(sum(side))))


def add(a: Sums, b: Sums) -> Sums:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def subtract(whole: Sums, part: Sums) -> Sums:
    return tuple(x - y for x, y in zip(whole, part, strict=True))


def best_split(
    rows: Sequence[Row],
    is_categorical: Sequence[bool],
    candidates: Sequence[int],
    statistic: Statistic,
    min_rows_leaf: int,
    least_weight: int = 0,
) -> Split | None:
    """The best valid split among the candidate columns, if there is one."""
    best: Split | None = None
    for feature in sorted(candidates):
        column = Column(rows, feature, statistic)
        cuts = column.cut_categories() if is_categorical[feature] else column.cut_numbers()
        for split, n_left in cuts:
            is_allowed = split.score > -math.inf
            enough = is_allowed and min(n_left, len(rows) - n_left) >= min_rows_leaf
            if enough and least_weight:
                enough = lighter_side(split, rows) >= least_weight
            if enough and (best is None or split.score > best.score):
                best = split
    return best


def lighter_side(split: Split, rows: Sequence[Row]) -> int:
    """The weight of the lighter of the two sides."""
    left = sum(row.weight for row in rows if split.goes_left(row.bins))
    return min(left, sum(row.weight for row in rows) - left)


class Column:
    """One column of a node: the sums of its rows by bin, and its cuts in order of preference."""

    def __init__(self, rows: Sequence[Row], feature: int, statistic: Statistic) -> None:
        self.feature = feature
        self.statistic = statistic
        by_code: dict[int, list[Sums]] = {}
        for row in rows:
            by_code.setdefault(row.bins[feature], []).append(statistic.of_row(row))
        self.histogram = {code: reduce(add, by_code[code]) for code in sorted(by_code)}
        self.node = reduce(add, self.histogram.values())
        self.nothing = (0,) * len(self.node)

    def cut_numbers(self) -> Iterator[tuple[Split, int]]:
        """(split, rows on the left) after every value; missing values go right, then left."""
        for side in (0, 1) if MISSING in self.histogram else (UNSEEN,):
            left = self.histogram[MISSING] if side == 1 else self.nothing
            for code, sums in self.histogram.items():
                if code != MISSING:
                    left = add(left, sums)
                    if left != self.node:
                        score = self.statistic.score(left, self.node)
                        yield Split(score, self.feature, code, side), left[-1]

    def cut_categories(self) -> Iterator[tuple[Split, int]]:
        """(split, rows on the left) after every category in their order, missing among them."""
        key = {code: self.statistic.key(sums, self.node) for code, sums in self.histogram.items()}
        in_order = sorted(key, key=lambda code: (key[code], code))
        left = self.nothing
        for place, code in enumerate(in_order[:-1], start=1):
            left = add(left, self.histogram[code])
            seen_left = set(in_order[:place])
            if MISSING in key:
                others_left = MISSING in seen_left
            else:
                others_left = 2 * left[-1] > self.node[-1]
            unseen = set(range(256)) - set(key) if others_left else set()
            score = self.statistic.score(left, self.node)
            left_set = frozenset(seen_left | unseen)
            yield Split(score, self.feature, 0, int(others_left), left_set), left[-1]
