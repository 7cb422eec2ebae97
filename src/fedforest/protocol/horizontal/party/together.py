"""Questions about different segments, read together and counted in one pass over their rows."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.kernels.cuts.pairs import Cuts, Pairs
from fedforest.kernels.cuts.points import has_infinite
from fedforest.kernels.layout import SET_WORDS
from fedforest.protocol.asking import check
from fedforest.protocol.fates import unpack_flags
from fedforest.protocol.horizontal.grouping import Grouping, Ranges, count_before, ends_of, spread
from fedforest.protocol.horizontal.messages import CutsQuestion
from fedforest.protocol.payloads import from_bytes

NO_NODES = np.zeros(0, np.int64)
NO_SETS = np.zeros((0, SET_WORDS), np.uint64)


class QuestionedTogether(NamedTuple):
    """The decoded questions of several segments, with the ranges of each segment."""

    cuts: Cuts  # of all pairs
    nodes: Ranges  # of each segment
    wholes: NDArray[np.int64]  # nodes
    whole_ends: list[int]  # of the segments


def read_together(
    questions: Sequence[CutsQuestion],
    nodes_of: Mapping[int, tuple[int, int]],
    pairs: Pairs,
    is_categorical: NDArray[np.bool_],
) -> QuestionedTogether:
    """Decode the questions of several segments, each at most once and in order.

    `is_categorical` is empty if no column has categories.
    """
    numbers = [question.segment for question in questions]
    check(len(set(numbers)) == len(numbers), "a segment is asked twice in one request")
    groups = Grouping.of(numbers, nodes_of, pairs.node_start)
    n_pairs = groups.n_pairs
    threshold, sides = _read_thresholds(questions, n_pairs), _read_sides(questions, n_pairs)
    wholes, whole_ends = _read_wholes(questions, groups)
    if not groups.is_all:  # a ring: other segments reach this party at a later hop
        n_places = len(pairs.feature)
        threshold = spread(threshold, groups.pairs, n_places, np.nan)
        sides = spread(sides, groups.pairs, n_places)
    set_index, sets = _read_sets(questions, groups, is_categorical, (pairs, threshold))
    cuts = Cuts(threshold, sides.view(np.uint8), set_index, sets)
    return QuestionedTogether(cuts, groups.nodes, wholes, whole_ends)


def _read_thresholds(
    questions: Sequence[CutsQuestion], n_pairs_of: Sequence[int]
) -> NDArray[np.float32]:
    """Read the thresholds of all segments, concatenated."""
    parts = [question.threshold for question in questions]
    sizes = [*map(len, parts)]
    if sizes != [4 * n_pairs for n_pairs in n_pairs_of]:
        raise ProtocolError.stating(
            "thresholds: {sizes} bytes for {n_pairs} entries", sizes=sizes, n_pairs=[*n_pairs_of]
        )
    together = bytearray().join(parts)
    threshold = np.frombuffer(together, "<f4")  # writable, as kernels are compiled for
    check(not has_infinite(threshold), "a threshold is infinite")
    return threshold


def _read_sides(questions: Sequence[CutsQuestion], n_pairs_of: Sequence[int]) -> NDArray[np.bool_]:
    """Read the sides of missing values of all segments; questions without any are empty."""
    said = [question.missing_left for question in questions]
    if not any(map(len, said)):
        return np.zeros(sum(n_pairs_of), np.bool_)
    none = [bytes((n_pairs + 7) >> 3) for n_pairs in n_pairs_of]
    filled = [memoryview(data or nothing) for data, nothing in zip(said, none, strict=True)]
    return _read_flags(filled, n_pairs_of)


def _read_wholes(
    questions: Sequence[CutsQuestion], groups: Grouping
) -> tuple[NDArray[np.int64], list[int]]:
    """Return (nodes to count whole, how many of them come before each segment's end)."""
    packed, n_nodes = [question.wholes for question in questions], groups.n_nodes
    if _are_unset(packed, n_nodes):
        return NO_NODES, [0] * (len(n_nodes) + 1)
    flags = _read_flags(packed, n_nodes)
    ends = count_before(flags, ends_of(n_nodes))
    if not groups.is_all:
        flags = spread(flags, groups.nodes, groups.nodes[-1][1])
    return np.flatnonzero(flags), ends


def _are_unset(packed: Sequence[memoryview], n_flags: Sequence[int]) -> bool:
    """Return whether no flag is set; False for wrong lengths, which `_read_flags` refuses."""
    is_sized = [*map(len, packed)] == [(n + 7) >> 3 for n in n_flags]
    return is_sized and not b"".join(packed).strip(b"\0")


def _read_flags(packed: Sequence[memoryview], n_flags: Sequence[int]) -> NDArray[np.bool_]:
    """Read the flags of all segments, concatenated."""
    return np.concatenate([unpack_flags(data, n) for data, n in zip(packed, n_flags, strict=True)])


def _read_sets(
    questions: Sequence[CutsQuestion],
    groups: Grouping,
    is_categorical: NDArray[np.bool_],
    cuts: tuple[Pairs, NDArray[np.float32]],
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Return (index of each pair's set, sets) for all pairs."""
    pairs, threshold = cuts
    together = memoryview(b"".join([question.left_set for question in questions]))
    if len(is_categorical) == 0:
        return read_sets_of_pairs(together, is_categorical, threshold)
    of_pairs = is_categorical[pairs.feature]
    by_set = of_pairs & ~np.isnan(threshold)
    for question, (first, last) in zip(questions, groups.pairs, strict=True):
        n_bytes, n_sets = len(question.left_set), int(np.count_nonzero(by_set[first:last]))
        check(
            n_bytes == n_sets * SET_WORDS * 8,
            "sets: {n_bytes} bytes for {n_sets} entries",
            n_bytes=n_bytes,
            n_sets=n_sets,
        )
    return read_sets_of_pairs(together, of_pairs, threshold)


def read_sets_of_pairs(
    data: memoryview, is_categorical: NDArray[np.bool_], threshold: NDArray[np.float32]
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Return (index of each pair's set, sets): one set per asked pair of a categorical column.

    `is_categorical` is empty if no column has categories.
    """
    if len(is_categorical) == 0:
        check(len(data) == 0, "sets: {n_bytes} bytes for 0 entries", n_bytes=len(data))
        return _no_sets(1 << len(threshold).bit_length())[: len(threshold)], NO_SETS
    by_set = is_categorical & ~np.isnan(threshold)
    n_sets = int(np.count_nonzero(by_set))
    set_index = np.full(len(threshold), -1, np.int32)
    set_index[by_set] = np.arange(n_sets)
    sets = from_bytes(data, "<u8", n_sets * SET_WORDS, "sets")
    return set_index, sets.reshape(-1, SET_WORDS)


@lru_cache(maxsize=32)
def _no_sets(n_pairs: int) -> NDArray[np.int32]:
    """Return the set index of pairs without sets; cached, so do not write to it."""
    return np.full(n_pairs, -1, np.int32)
