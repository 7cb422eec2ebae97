"""Permanent responses equal their reference, bit by bit and for any number of rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.kernels.noise.chacha import read_key
from fedforest.kernels.noise.permanent_response import respond_permanently
from tests.reference import chacha as reference
from tests.strategies import IS_PLAIN_PYTHON

N_EXAMPLES = 4 if IS_PLAIN_PYTHON else 25


@given(
    st.binary(min_size=32, max_size=32),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=35, unique=True),
    st.sampled_from([1, 2, 15, 16, 17, 33, 63, 64]),
    st.integers(1, 2**31),
    st.data(),
)
@settings(max_examples=N_EXAMPLES)
def test_a_bit_is_turned_where_the_rows_own_coin_says_so(
    key: bytes, ids: list[int], n_bits: int, turn: int, data: st.DataObject
) -> None:
    words = data.draw(st.lists(st.integers(0, 2**n_bits - 1), min_size=1, max_size=4))
    labels = [data.draw(st.integers(0, len(words) - 1)) for _ in ids]
    responses = np.zeros(len(ids), np.uint64)
    respond_permanently(
        np.array(words, np.uint64),
        n_bits,
        np.uint32(turn),
        read_key(key),
        np.array(ids, np.uint64),
        np.array(labels, np.uint16),
        responses,
    )
    rows = zip(ids, labels, strict=True)
    expected = [reference.permanent_response(key, words[row[1]], n_bits, row, turn) for row in rows]
    assert responses.tolist() == expected
