"""Words of one vector added where they belong in a longer one: in runs, between words of others.

runs      [2, 5)      [6, 8)        a run is where it begins and ends, in the longer vector
longer  . . w w w . w w .           words are taken in order, each once
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.jit import kernel


def find_runs(ends: NDArray[np.int64], places: tuple[int, ...]) -> NDArray[np.int64]:
    """The runs of some of the vectors that lie end to end, by ascending places; (runs, 2).

    `ends` begins with where the first vector does.
    """
    return ends[_join_neighbours(places)]


@lru_cache(maxsize=4096)
def _join_neighbours(places: tuple[int, ...]) -> NDArray[np.int64]:
    """(runs, 2) from which to which place: the same sums are asked in every step."""
    runs: list[tuple[int, int]] = []
    for place in places:
        begin = runs.pop()[0] if runs and runs[-1][1] == place else place
        runs.append((begin, place + 1))
    return np.array(runs, np.int64).reshape(-1, 2)


@kernel
def count_within(runs, first, last):
    """How many words of the runs lie in [first, last)."""
    n_words = 0
    for k in range(runs.shape[0]):
        n_words += max(0, min(runs[k, 1], last) - max(runs[k, 0], first))
    return n_words


@kernel
def add_runs(vector, words, runs, first, last):
    """Add the next words to the runs inside [first, last), modulo 2^64."""
    at = 0
    for k in range(runs.shape[0]):
        begin, end = max(runs[k, 0], first), min(runs[k, 1], last)
        if begin < end:
            own, added = vector[begin:end], words[at : at + end - begin]
            for i in range(own.shape[0]):  # several at once, as `own += added` is not compiled
                own[i] += added[i]
            at += end - begin


@kernel
def subtract_runs(vector, words, runs, first, last):
    """The same, subtracted."""
    at = 0
    for k in range(runs.shape[0]):
        begin, end = max(runs[k, 0], first), min(runs[k, 1], last)
        if begin < end:
            own, subtracted = vector[begin:end], words[at : at + end - begin]
            for i in range(own.shape[0]):
                own[i] -= subtracted[i]
            at += end - begin
