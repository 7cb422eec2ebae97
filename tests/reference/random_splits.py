"""Random-threshold splits, slowly: one threshold per column, every row asked one by one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.reference.draws import GOLDEN, mix


@dataclass(frozen=True)
class RandomSplit:
    score: float
    feature: int
    threshold: np.float32
    missing_left: int
    left_set: tuple[int, ...] | None


def draw_unit(key: int) -> float:
    return (mix(key) >> 11) / 2.0**53


def key_of(node_key: int, feature: int) -> int:
    return mix(node_key + (feature + 1) * GOLDEN)


def draw_threshold(key: int, low: np.float32, high: np.float32) -> np.float32:
    middle = np.float32(float(low) + (float(high) - float(low)) * draw_unit(key))
    return middle if middle < high else low


def draw_set(key: int) -> frozenset[int]:
    words = [mix(key + (word + 1) * GOLDEN) for word in range(4)]
    return frozenset(b for b in range(256) if words[b >> 6] >> (b & 63) & 1)


def gini_score(left: Sequence[int], whole: Sequence[int]) -> float:
    right = [w - x for w, x in zip(whole, left, strict=True)]
    return sum(x * x for x in left) / sum(left) + sum(x * x for x in right) / sum(right)


def variance_score(left: tuple[int, int], whole: tuple[int, int]) -> float:
    (a, s), (n, m) = left, whole
    numerator = float(s) * float(n) - float(m) * float(a)
    return numerator * numerator / (float(a) * (float(n) - float(a)))


def goes_left(
    value: np.float32, threshold: np.float32, members: frozenset[int] | None, missing: int
) -> bool:
    if math.isnan(value):
        return bool(missing)
    return int(value) in members if members is not None else bool(value <= threshold)


def best_random_split(
    values: NDArray[np.float32],  # (columns, rows of the node)
    sums: Sequence[tuple[int, ...]],  # per row: class weights, or (weight, weighted target)
    is_categorical: Sequence[bool],
    node_key: int,
    min_rows_leaf: int,
    by_class: bool,
    least_weight: int = 0,
    score_moments: Callable[[tuple[int, ...], tuple[int, ...]], float] | None = None,
) -> RandomSplit | None:
    """The best of one random split per column; ties go to the first column, missing right first."""
    whole = tuple(sum(column) for column in zip(*sums, strict=True))
    best: RandomSplit | None = None
    for feature, column in enumerate(values):
        present = column[~np.isnan(column)]
        if len(present) == 0 or present.min() == present.max():
            continue
        key = key_of(node_key, feature)
        threshold = draw_threshold(key, present.min(), present.max())
        members = draw_set(key) if is_categorical[feature] else None
        for missing in (0, 1) if len(present) < len(column) else (0,):
            marked = [goes_left(value, threshold, members, missing) for value in column]
            n_left = sum(marked)
            if min(n_left, len(marked) - n_left) < min_rows_leaf:
                continue
            left = tuple(
                sum(total for total, chosen in zip(of_class, marked, strict=True) if chosen)
                for of_class in zip(*sums, strict=True)
            )
            weights = [sum(side) if by_class else side[0] for side in (left, whole)]
            if min(weights[0], weights[1] - weights[0]) < least_weight:
                continue
            if by_class:
                score = gini_score(left, whole)
            elif score_moments is not None:
                score = score_moments(left, whole)
            else:
                score = variance_score((left[0], left[1]), (whole[0], whole[1]))
            if score > (-math.inf if best is None else best.score):
                side = missing if len(present) < len(column) else 2
                kept = tuple(sorted(members)) if members is not None else None
                best = RandomSplit(score, feature, threshold, side, kept)
    return best
