"""What cuts of other parties are worth to the label party, by the formula of all searches.

A column of categories comes as the sum of each category, in the order of their codes. They are cut
in the order in which every search cuts them: by mean target or share of the majority class, ties by
code (`kernels/splits/category_order.py`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.listed_cuts import score_list_by_classes, score_list_by_moments
from fedforest.kernels.cuts.scores import Sides
from fedforest.kernels.layout import NO_SPLIT, Rules
from fedforest.protocol.asking import check
from fedforest.protocol.vertical.encrypted.cut_lists import A_CATEGORY, A_CUT, CutCounts
from fedforest.tree.table.targets import TargetKind, rows_of


class OrderedCuts(NamedTuple):
    """Cuts of numbers as they came, and categories in the order in which they are cut."""

    left: NDArray[np.int64]  # (cuts, sums): of a category, with all categories before it
    place: NDArray[np.int64]  # of each cut in the list as it came
    column: NDArray[np.int64]  # the first category of the cut's column; of numbers the cut itself
    is_last: NDArray[np.bool_]  # nothing is right of the last category


def describe_left(
    counts: CutCounts, numbers: NDArray[np.int64], kind: TargetKind, *, is_weighted: bool
) -> NDArray[np.int64]:
    """Return the left of cuts as the integers that describe nodes; of moments, none is pure.

    Where rows weigh the same, the draws tell the weight, and so the first class.
    """
    left = np.zeros((len(counts.rows), kind.n_sums), np.int64)
    n_numbers = 2 if kind.is_regression else kind.n_classes
    if is_weighted:
        left[:, :n_numbers] = numbers[:, :n_numbers]
    else:
        left[:, 0] = counts.draws
        left[:, 1:n_numbers] = numbers[:, : n_numbers - 1]
        if not kind.is_regression:
            left[:, 0] -= left[:, 1:n_numbers].sum(axis=1)
    rows_of(left, kind)[:] = counts.rows
    return left


def score_cuts(
    first: NDArray[np.int64],
    left: NDArray[np.int64],
    totals: NDArray[np.int64],
    kind: TargetKind,
    rules: Rules,
) -> NDArray[np.float64]:
    """Score each cut by the formula of the searches over columns."""
    scores = np.empty(len(left))
    if kind.search == "classes":
        sides = Sides(first, left, np.ascontiguousarray(totals), kind.n_sums)
        score_list_by_classes(sides, kind.n_classes, rules, scores)
        return scores
    sides = Sides(first, _as_moments(left, kind), _as_moments(totals, kind), 3)
    score_list_by_moments(sides, rules, scores)
    return scores


def order_categories(
    counts: CutCounts, left: NDArray[np.int64], totals: NDArray[np.int64], kind: TargetKind
) -> OrderedCuts:
    """Put categories in the order in which they are cut, and add up what is left of each cut."""
    places = np.arange(len(left))
    if (counts.kind == A_CUT).all():
        return OrderedCuts(left, places, places, np.zeros(len(left), np.bool_))
    unit = np.cumsum(counts.kind != A_CATEGORY) - 1
    first = np.flatnonzero(counts.kind != A_CATEGORY)
    is_category = counts.kind != A_CUT
    key = np.where(is_category, _category_keys(left, totals[counts.node], kind), 0.0)
    order = np.lexsort((places, key, unit))
    ordered = left[order]
    running = np.cumsum(ordered, axis=0)
    before = (running - ordered)[first][unit]  # unit by unit, as they came
    ordered = np.where(is_category[:, None], running - before, ordered)
    last = np.append(first[1:], len(left)) - 1
    is_last = np.zeros(len(left), np.bool_)
    is_last[last] = True
    is_last &= is_category
    whole = ordered[is_last] == totals[counts.node[is_last]]
    n_checked = 3 if kind.is_regression else kind.n_sums
    check(bool(whole[:, :n_checked].all()), "categories do not add up to their node")
    return OrderedCuts(ordered, order, first[unit], is_last)


def _category_keys(
    sums: NDArray[np.int64], totals: NDArray[np.int64], kind: TargetKind
) -> NDArray[np.float64]:
    """By what the categories of a column are ordered, each with the sums of its node."""
    if kind.search != "classes":
        weight, total, _ = _as_moments(sums, kind).T.astype(np.float64)
    else:
        majority = totals[:, : kind.n_classes].argmax(axis=1)
        weight = sums[:, : kind.n_classes].sum(axis=1).astype(np.float64)
        total = sums[np.arange(len(sums)), majority].astype(np.float64)
    check(bool((weight > 0).all()), "a category has no weight")
    keys: NDArray[np.float64] = total / weight
    return keys


def keep_best_of_columns(cuts: OrderedCuts, score: NDArray[np.float64]) -> None:
    """Of each column of categories keep the score of its first best cut, and of no other."""
    score[cuts.is_last] = NO_SPLIT
    grouped = cuts.column != np.arange(len(score))
    grouped[cuts.column[grouped]] = True
    members = np.flatnonzero(grouped)
    order = members[np.lexsort((members, -score[members], cuts.column[members]))]
    is_best = np.concatenate([[True], np.diff(cuts.column[order]) != 0])[: len(order)]
    score[order[~is_best]] = NO_SPLIT


def _as_moments(sums: NDArray[np.int64], kind: TargetKind) -> NDArray[np.int64]:
    """(weight, sum, rows); of two classes, the second counts as one and the first as zero."""
    if kind.is_regression:
        return np.ascontiguousarray(sums[:, :3])
    return np.stack([sums[:, 0] + sums[:, 1], sums[:, 1], sums[:, 2]], axis=1)
