"""Words are added to their runs, in order and piece by piece, and to nothing else."""

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedforest.kernels.runs import add_runs, count_within, find_runs, subtract_runs

LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=8)


@given(LENGTHS, st.data())
def test_runs_hold_the_words_of_their_vectors_and_are_as_few_as_can_be(
    lengths: list[int], data: st.DataObject
) -> None:
    places = tuple(sorted(data.draw(st.sets(st.sampled_from(range(len(lengths)))))))
    ends = np.array([0, *accumulate(lengths)])
    runs = find_runs(ends, places).tolist()
    covered = [word for begin, end in runs for word in range(begin, end)]
    assert covered == [k for place in places for k in range(ends[place], ends[place + 1])]
    assert len(runs) == sum(place - 1 not in places for place in places)


@given(LENGTHS, st.data(), st.integers(1, 7))
def test_pieces_of_a_vector_take_the_words_one_after_the_other(
    lengths: list[int], data: st.DataObject, piece: int
) -> None:
    places = tuple(sorted(data.draw(st.sets(st.sampled_from(range(len(lengths)))))))
    ends = np.array([0, *accumulate(lengths)])
    runs, n_words = find_runs(ends, places), sum(lengths[place] for place in places)
    words = np.random.default_rng(n_words).integers(0, 2**64, n_words, np.uint64)
    vector = np.full(ends[-1], 2**64 - 5, np.uint64)
    expected = vector.copy()
    for begin, end in runs.tolist():
        before = count_within(runs, 0, begin)
        expected[begin:end] += words[before : before + end - begin]
    at = 0
    for first in range(0, len(vector), piece):
        last = first + piece
        n_here = count_within(runs, first, last)
        add_runs(vector, words[at : at + n_here], runs, first, last)
        at += n_here
    assert at == n_words
    assert np.array_equal(vector, expected)
    subtract_runs(vector, words, runs, 0, len(vector))
    assert (vector == 2**64 - 5).all()
