"""Words of one vector added where they belong in a longer one: in runs, between words of others.

runs      [2, 5)      [6, 8)        a run is where it begins and ends, in the longer vector
longer  . . w w w . w w .           words are taken in order, each once

Streams of words that are added in the same runs form a group, and groups are added in one pass.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.jit import kernel


class Grouped(NamedTuple):
    """Groups of streams: group g has the runs run_start[g] to run_start[g + 1]."""

    runs: NDArray[np.int64]  # (runs, 2)
    run_start: NDArray[np.int64]
    n_subtracted: NDArray[np.int64]  # streams, per group; they come before those that are added
    n_streams: NDArray[np.int64]  # both together


def find_runs(ends: NDArray[np.int64], places: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the runs of some of the vectors that lie end to end, by ascending places; (runs, 2).

    `ends` begins with where the first vector does.
    """
    return ends[join_neighbours(places)]


@lru_cache(maxsize=4096)
def join_neighbours(places: tuple[int, ...]) -> NDArray[np.int64]:
    """Return (runs, 2) from which to which place: the same sums are asked in every step."""
    runs: list[tuple[int, int]] = []
    for place in places:
        begin = runs.pop()[0] if runs and runs[-1][1] == place else place
        runs.append((begin, place + 1))
    return np.array(runs, np.int64).reshape(-1, 2)


@kernel
def add_runs(vector, words, runs):
    """Add words to the runs of a vector, modulo 2^64."""
    at = 0
    for k in range(runs.shape[0]):
        begin, end = runs[k]
        own, added = vector[begin:end], words[at : at + end - begin]
        for i in range(own.shape[0]):  # several at once, as `own += added` is not compiled
            own[i] += added[i]
        at += end - begin


@kernel
def count_within(grouped, first, last):
    """Count the words of each stream of a group that belong in [first, last)."""
    runs, run_start, _, n_streams = grouped
    n_words = np.zeros(n_streams.shape[0], np.int64)
    for g in range(n_streams.shape[0]):
        for k in range(run_start[g], run_start[g + 1]):
            n_words[g] += max(0, min(runs[k, 1], last) - max(runs[k, 0], first))
    return n_words


@kernel
def apply_streams(vector, words, grouped, first, last):
    """Subtract or add the next words of each stream, all end to end, inside [first, last)."""
    runs, run_start, n_subtracted, n_streams = grouped
    at = 0
    for g in range(n_streams.shape[0]):
        for stream in range(n_streams[g]):
            for k in range(run_start[g], run_start[g + 1]):
                begin, end = max(runs[k, 0], first), min(runs[k, 1], last)
                if begin >= end:
                    continue
                own, drawn = vector[begin:end], words[at : at + end - begin]
                if stream < n_subtracted[g]:
                    for i in range(own.shape[0]):
                        own[i] -= drawn[i]
                else:
                    for i in range(own.shape[0]):
                        own[i] += drawn[i]
                at += end - begin
