"""The candidate columns of a level's open nodes, listed as pairs on all threads."""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.pairs import Pairs, count_pairs, write_pairs
from fedforest.tree.workers import Workers

PAIRS_WORTH_A_THREAD = 2**18  # with fewer, all are done before another thread is awake


def list_candidates(bitmap: NDArray[np.uint8], workers: Workers) -> Pairs:
    """List the pairs of a candidate bitmap, which has one row of bytes per node."""
    return list_placed(bitmap, count_pairs(bitmap), workers)


def list_placed(
    bitmap: NDArray[np.uint8], node_start: NDArray[np.int64], workers: Workers
) -> Pairs:
    """List the pairs of a candidate bitmap whose places are known."""
    pairs = Pairs(node_start, np.empty(int(node_start[-1]), np.int32))
    workers.run(lambda nodes: write_pairs(bitmap, pairs, *nodes), ranges_of_pairs(pairs, workers))
    return pairs


def ranges_of_pairs(pairs: Pairs, workers: Workers) -> list[tuple[int, int]]:
    """Divide the nodes into consecutive ranges with about as many pairs each."""
    node_start, feature = pairs
    if workers.count <= 1 or len(feature) < PAIRS_WORTH_A_THREAD:
        return [(0, len(node_start) - 1)]
    return workers.ranges(np.diff(node_start), PAIRS_WORTH_A_THREAD)
