"""Questions about different segments, read together and counted in one pass over their rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import SET_WORDS
from fedforest.kernels.pairs import Cuts, Pairs
from fedforest.kernels.points import has_infinite
from fedforest.protocol.asking import check
from fedforest.protocol.fates import unpack_flags
from fedforest.protocol.horizontal.grouping import Grouping, cut_at
from fedforest.protocol.horizontal.messages import CutsQuestion
from fedforest.protocol.payloads import from_bytes, view_bytes


class QuestionedTogether(NamedTuple):
    """What several segments are asked about; which cuts and whole nodes are whose."""

    cuts: Cuts  # of all pairs
    asked: NDArray[np.int64]  # places of the asked pairs among all asked ones, segment by segment
    asked_ends: NDArray[np.int64]
    wholes: NDArray[np.int64]  # nodes, segment by segment
    whole_ends: NDArray[np.int64]


def read_together(
    questions: Sequence[CutsQuestion],
    segment_of_node: NDArray[np.uint16],
    pairs: Pairs,
    is_categorical: NDArray[np.bool_],
) -> QuestionedTogether:
    """What the segments' open nodes are asked about; a segment is asked once."""
    numbers = [question.segment for question in questions]
    check(len(set(numbers)) == len(numbers), "a segment is asked twice in one request")
    groups = Grouping.of(segment_of_node, numbers, pairs.node_start)
    check(all(groups.n_nodes), "a question is about trees that this party does not grow")
    sizes = zip(questions, groups.n_nodes, groups.n_pairs, strict=True)
    parts = [_read_part(question, n_nodes, n_pairs) for question, n_nodes, n_pairs in sizes]
    given, sides, flags = (np.concatenate(column) for column in zip(*parts, strict=True))
    set_index, sets = _read_sets(questions, groups, is_categorical[pairs.feature], given)
    cuts = _put_in_order(len(pairs.feature), groups, (given, sides, set_index), sets)
    is_asked = ~np.isnan(given)
    place = np.cumsum(~np.isnan(cuts.threshold)) - 1
    return QuestionedTogether(
        cuts,
        place[groups.pairs[is_asked]],
        groups.count_pairs(is_asked),
        groups.nodes[flags],
        groups.count_nodes(flags),
    )


def _read_part(
    question: CutsQuestion, n_nodes: int, n_pairs: int
) -> tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.bool_]]:
    """(thresholds, sides of missing values, whole nodes) of one segment."""
    threshold = view_bytes(question.threshold, "<f4", n_pairs, "thresholds")
    check(not has_infinite(threshold), "a threshold is infinite")
    missing_left = np.zeros(n_pairs, np.uint8)
    if len(question.missing_left):
        missing_left[:] = unpack_flags(question.missing_left, n_pairs)
    return threshold, missing_left, unpack_flags(question.wholes, n_nodes)


def _put_in_order(
    n_pairs: int,
    groups: Grouping,
    given: tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.int32]],
    sets: NDArray[np.uint64],
) -> Cuts:
    """The cuts of all pairs; those of other segments are not asked."""
    threshold, missing_left = np.full(n_pairs, np.nan, np.float32), np.zeros(n_pairs, np.uint8)
    set_index = np.full(n_pairs, -1, np.int32)
    threshold[groups.pairs], missing_left[groups.pairs], set_index[groups.pairs] = given
    return Cuts(threshold, missing_left, set_index, sets)


def _read_sets(
    questions: Sequence[CutsQuestion],
    groups: Grouping,
    is_categorical: NDArray[np.bool_],
    threshold: NDArray[np.float32],
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """(which set belongs to which pair, sets), segment by segment."""
    of_pairs = is_categorical[groups.pairs]
    parts = [
        read_sets_of_pairs(question.left_set, of_pairs[part], threshold[part])
        for question, part in zip(questions, cut_at(groups.pair_ends), strict=True)
    ]
    by_set = np.concatenate([index for index, _ in parts]) >= 0
    set_index = np.where(by_set, np.cumsum(by_set) - 1, -1).astype(np.int32)
    return set_index, np.concatenate([sets for _, sets in parts])


def read_sets_of_pairs(
    data: memoryview, is_categorical: NDArray[np.bool_], threshold: NDArray[np.float32]
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """(which set belongs to which pair, sets): one for each asked pair of a categorical column."""
    set_index = np.full(len(threshold), -1, np.int32)
    n_sets = 0
    if is_categorical.any():
        by_set = is_categorical & ~np.isnan(threshold)
        n_sets = int(np.count_nonzero(by_set))
        set_index[by_set] = np.arange(n_sets)
    sets = from_bytes(data, "<u8", n_sets * SET_WORDS, "sets")
    return set_index, sets.reshape(-1, SET_WORDS)
