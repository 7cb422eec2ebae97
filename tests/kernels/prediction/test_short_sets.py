"""Short sets, and sets asked for 64 rows at a time, say what whole sets say."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.bits.byte_lanes import WORD, look_up_rows
from fedforest.kernels.jit import kernel
from fedforest.kernels.prediction.short_sets import (
    EMPTY_WORDS,
    find_limits,
    in_short_set,
    least_limit,
    shorten_sets,
)
from tests.strategies import IS_PLAIN_PYTHON, MISSING, SEEDS

EXAMPLES = settings(max_examples=10 if IS_PLAIN_PYTHON else 100)


@kernel
def ask(words, address, bit):  # type: ignore[no-untyped-def] # numba infers
    return in_short_set(words, np.uint64(address), np.uint64(bit))


@kernel
def look_up(codes, at, n, sets, index):  # type: ignore[no-untyped-def] # numba infers
    return look_up_rows(codes, np.uint64(at), n, sets, index)


def random_members(n_sets: int, end: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """(sets, codes); from `end` on the codes of a set are alike, but for missing values."""
    is_member = rng.integers(0, 2, (n_sets, 256), np.uint8)
    is_member[:, end:MISSING] = rng.integers(0, 2, (n_sets, 1), np.uint8)
    return is_member


def pack(is_member: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return np.packbits(is_member, axis=1, bitorder="little").view(np.uint64)


@EXAMPLES
@given(SEEDS, st.sampled_from([0, 1, 30, 31, 32, 63, 200, 254, 255]))
def test_a_short_set_says_for_every_code_what_the_set_says(seed: int, end: int) -> None:
    is_member = random_members(3, end, np.random.default_rng(seed))
    column, limits = np.array([1, 0, 1]), np.empty(2, np.uint8)
    find_limits(pack(is_member), column, limits)
    words, start = shorten_sets(pack(is_member), column, limits)
    for index in range(3):
        for code in range(256):
            found = ask(words, start[index], min((code + 1) % 256, limits[column[index]]))
            assert found ^ (code == MISSING) == is_member[index, code]
    assert all(ask(words, 0, bit) == 0 for bit in range(256))


def test_a_short_set_ends_where_all_codes_are_alike() -> None:
    is_member, limits = np.zeros((3, 256), np.uint8), np.empty(3, np.uint8)
    is_member[0, [4, MISSING]], is_member[1, 29], is_member[2, 30] = 1, 1, 1
    assert [least_limit(pack(is_member), index) for index in range(3)] == [6, 31, 32]
    column = np.array([0, 0, 2])
    find_limits(pack(is_member), column, limits)
    assert limits.tolist() == [31, 1, 32]
    assert len(shorten_sets(pack(is_member), column, limits)[0]) == EMPTY_WORDS + 1 + 1 + 2


@EXAMPLES
@given(SEEDS, st.integers(1, WORD))
def test_up_to_64_rows_are_looked_up_at_once(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    is_member = random_members(2, 255, rng)
    codes = rng.integers(0, 256, 5 + WORD, np.uint8)
    found = int(look_up(codes, 5, n, pack(is_member), 1))
    expected = is_member[1, codes[5 : 5 + n]]
    assert found == sum(int(bit) << k for k, bit in enumerate(expected))
