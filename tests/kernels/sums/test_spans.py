"""Words are added to their runs, in order and piece by piece, and to nothing else."""

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.sums.spans import Grouped, add_runs, apply_streams, count_within, find_runs

START = 2**64 - 5
LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=8)


def draw_words(n_words: int, seed: int = 0) -> NDArray[np.uint64]:
    return np.random.default_rng((n_words, seed)).integers(0, 2**64, n_words, np.uint64)


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


@given(LENGTHS, st.data())
def test_words_are_added_to_the_vectors_they_belong_to(
    lengths: list[int], data: st.DataObject
) -> None:
    places = tuple(sorted(data.draw(st.sets(st.sampled_from(range(len(lengths)))))))
    ends = np.array([0, *accumulate(lengths)])
    words = draw_words(sum(lengths[place] for place in places))
    vector = np.full(ends[-1], START, np.uint64)
    add_runs(vector, words, find_runs(ends, places))
    expected, at = np.full(ends[-1], START, np.uint64), 0
    for place in places:
        expected[ends[place] : ends[place + 1]] += words[at : at + lengths[place]]
        at += lengths[place]
    assert np.array_equal(vector, expected)


GROUPS = st.dictionaries(
    st.sets(st.integers(0, 7), min_size=1).map(lambda places: tuple(sorted(places))),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),  # streams subtracted, and added
    max_size=4,
)


@given(st.lists(st.integers(0, 4), min_size=8, max_size=8), GROUPS, st.integers(1, 7))
def test_pieces_of_a_vector_take_the_words_of_each_stream_one_after_the_other(
    lengths: list[int], groups: dict[tuple[int, ...], tuple[int, int]], piece: int
) -> None:
    ends = np.array([0, *accumulate(lengths)])
    runs = [find_runs(ends, places) for places in groups]
    grouped = Grouped(
        np.concatenate([np.zeros((0, 2), np.int64), *runs]),
        np.array([0, *accumulate(map(len, runs))]),
        np.array([subtracted for subtracted, _ in groups.values()], np.int64),
        np.array([sum(streams) for streams in groups.values()], np.int64),
    )
    streams = [
        [draw_words(sum(lengths[place] for place in places), seed) for seed in range(sum(counts))]
        for places, counts in groups.items()
    ]
    vector = np.full(ends[-1], START, np.uint64)
    read = [0] * len(groups)
    for first in range(0, len(vector), piece):
        n_words = count_within(grouped, first, first + piece).tolist()
        words = [
            stream[at : at + n]
            for own, at, n in zip(streams, read, n_words, strict=True)
            for stream in own
        ]
        together = np.concatenate([np.zeros(0, np.uint64), *words])
        apply_streams(vector, together, grouped, first, first + piece)
        read = [at + n for at, n in zip(read, n_words, strict=True)]
    expected = np.full(ends[-1], START, np.uint64)
    for (places, (n_subtracted, _)), own in zip(groups.items(), streams, strict=True):
        for number, stream in enumerate(own):
            signed = np.uint64(0) - stream if number < n_subtracted else stream
            add_runs(expected, signed, find_runs(ends, places))
    assert np.array_equal(vector, expected)
