"""Questions about different segments, read together and counted in one pass over their rows."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.kernels.layout import SET_WORDS
from fedforest.kernels.pairs import Cuts, Pairs, place_asked
from fedforest.kernels.points import has_infinite
from fedforest.protocol.asking import check
from fedforest.protocol.fates import unpack_flags
from fedforest.protocol.horizontal.grouping import Grouping, count_before, ends_of, spread
from fedforest.protocol.horizontal.messages import CutsQuestion
from fedforest.protocol.payloads import from_bytes

NO_NODES = np.zeros(0, np.int64)


class QuestionedTogether(NamedTuple):
    """What several segments are asked about; which cuts and whole nodes are whose."""

    cuts: Cuts  # of all pairs
    asked_ends: list[int]  # of the segments, among the pairs that are asked
    wholes: NDArray[np.int64]  # nodes
    whole_ends: list[int]


def read_together(
    questions: Sequence[CutsQuestion],
    nodes_of: Mapping[int, tuple[int, int]],
    pairs: Pairs,
    is_categorical: NDArray[np.bool_],
) -> QuestionedTogether:
    """What the segments' open nodes are asked about, each segment once and in their order.

    `is_categorical` is nothing where no column has categories.
    """
    numbers = [question.segment for question in questions]
    check(len(set(numbers)) == len(numbers), "a segment is asked twice in one request")
    groups = Grouping.of(numbers, nodes_of, pairs.node_start)
    n_pairs = groups.n_pairs
    threshold, sides = _read_thresholds(questions, n_pairs), _read_sides(questions, n_pairs)
    asked_ends = place_asked(np.array(ends_of(n_pairs)), threshold).tolist()
    wholes, whole_ends = _read_wholes(questions, groups)
    if not groups.is_all:  # a ring: this party's turn comes later in others
        n_places = len(pairs.feature)
        threshold = spread(threshold, groups.pairs, n_places, np.nan)
        sides = spread(sides, groups.pairs, n_places)
    set_index, sets = _read_sets(questions, groups, is_categorical, (pairs, threshold))
    cuts = Cuts(threshold, sides.view(np.uint8), set_index, sets)
    return QuestionedTogether(cuts, asked_ends, wholes, whole_ends)


def _read_thresholds(
    questions: Sequence[CutsQuestion], n_pairs_of: Sequence[int]
) -> NDArray[np.float32]:
    """The thresholds of all segments, end to end."""
    parts = [question.threshold for question in questions]
    for n_bytes, n_pairs in zip(map(len, parts), n_pairs_of, strict=True):
        if n_bytes != 4 * n_pairs:
            raise ProtocolError(f"thresholds: {n_bytes} bytes for {n_pairs} entries")
    together = bytearray().join(parts)
    threshold = np.frombuffer(together, "<f4")  # writable, as kernels are compiled for
    check(not has_infinite(threshold), "a threshold is infinite")
    return threshold


def _read_sides(questions: Sequence[CutsQuestion], n_pairs_of: Sequence[int]) -> NDArray[np.bool_]:
    """Sides of missing values, of all segments; where nothing is missing, nothing was said."""
    said = [question.missing_left for question in questions]
    if not any(map(len, said)):
        return np.zeros(sum(n_pairs_of), np.bool_)
    none = [bytes((n_pairs + 7) >> 3) for n_pairs in n_pairs_of]
    filled = [memoryview(data or nothing) for data, nothing in zip(said, none, strict=True)]
    return _read_flags(filled, n_pairs_of)


def _read_wholes(
    questions: Sequence[CutsQuestion], groups: Grouping
) -> tuple[NDArray[np.int64], list[int]]:
    """(nodes to be counted whole, how many of them come before each segment's end)."""
    packed, n_nodes = [question.wholes for question in questions], groups.n_nodes
    if are_unset(packed, n_nodes):
        return NO_NODES, [0] * (len(n_nodes) + 1)
    flags = _read_flags(packed, n_nodes)
    ends = count_before(flags, ends_of(n_nodes))
    if not groups.is_all:
        flags = spread(flags, groups.nodes, groups.nodes[-1][1])
    return np.flatnonzero(flags), ends


def are_unset(packed: Sequence[memoryview], n_flags: Sequence[int]) -> bool:
    """Whether no flag is set; where the lengths are wrong, it is for others to say so."""
    together = b"".join(packed)
    is_sized = [*map(len, packed)] == [(n + 7) >> 3 for n in n_flags]
    return is_sized and together.count(0) == len(together)


def _read_flags(packed: Sequence[memoryview], n_flags: Sequence[int]) -> NDArray[np.bool_]:
    """The flags of all segments, end to end."""
    return np.concatenate([unpack_flags(data, n) for data, n in zip(packed, n_flags, strict=True)])


def _read_sets(
    questions: Sequence[CutsQuestion],
    groups: Grouping,
    is_categorical: NDArray[np.bool_],
    cuts: tuple[Pairs, NDArray[np.float32]],
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """(which set belongs to which pair, sets), of all pairs and their thresholds."""
    pairs, threshold = cuts
    together = memoryview(b"".join([question.left_set for question in questions]))
    if len(is_categorical) == 0:
        return read_sets_of_pairs(together, is_categorical, threshold)
    of_pairs = is_categorical[pairs.feature]
    by_set = of_pairs & ~np.isnan(threshold)
    for question, (first, last) in zip(questions, groups.pairs, strict=True):
        n_bytes, n_sets = len(question.left_set), int(np.count_nonzero(by_set[first:last]))
        check(n_bytes == n_sets * SET_WORDS * 8, f"sets: {n_bytes} bytes for {n_sets} entries")
    return read_sets_of_pairs(together, of_pairs, threshold)


def read_sets_of_pairs(
    data: memoryview, is_categorical: NDArray[np.bool_], threshold: NDArray[np.float32]
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """(which set belongs to which pair, sets): one for each asked pair of a categorical column."""
    set_index = np.full(len(threshold), -1, np.int32)
    n_sets = 0
    if len(is_categorical):
        by_set = is_categorical & ~np.isnan(threshold)
        n_sets = int(np.count_nonzero(by_set))
        set_index[by_set] = np.arange(n_sets)
    sets = from_bytes(data, "<u8", n_sets * SET_WORDS, "sets")
    return set_index, sets.reshape(-1, SET_WORDS)
