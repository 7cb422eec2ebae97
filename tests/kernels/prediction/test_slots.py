"""Fifteen splits at once, against one after the other."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.jit import kernel
from fedforest.kernels.prediction.lookahead import OwnSplits
from fedforest.kernels.prediction.slots import (
    CARD_BYTES,
    GROUP_BYTES,
    PLACES,
    SET_CARD_BYTES,
    SLOTS,
    VECTOR_LANES,
    has_set,
    lay_side_by_side,
    say_slots,
    say_slots_and_sets,
    write_card,
    write_sets,
)
from tests.strategies import IS_PLAIN_PYTHON, MISSING, SEEDS

EXAMPLES = settings(max_examples=25 if IS_PLAIN_PYTHON else 200)
NODE_OF_SLOT = np.arange(SLOTS, dtype=np.int32)


@kernel
def speak(lanes, row, cards, column, sets):  # type: ignore[no-untyped-def] # numba infers
    """What the second card says about a row."""
    base = np.uint64(row) * np.uint64(lanes.shape[1])
    flat, one = lanes.reshape(-1), np.uint64(1)
    if sets.shape[0] == 0:
        return say_slots(flat, base, cards, column, one)  # type: ignore[no-untyped-call] # as above
    return say_slots_and_sets(flat, base, cards, column, one, sets, np.uint64(3))  # type: ignore[no-untyped-call] # as above


def random_sets(n_sets: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    """Sets that end alike from some code on, many of them soon; missing values are apart."""
    is_member = rng.integers(0, 2, (n_sets, 256), np.uint8)
    for members, end in zip(is_member, rng.choice([0, 1, 6, 7, 20, 100, 255], n_sets), strict=True):
        members[end:255] = rng.integers(2)
    return np.packbits(is_member, axis=1, bitorder="little").view(np.uint64)


def random_splits(n_columns: int, rng: np.random.Generator) -> OwnSplits:
    """A full tree of fifteen splits, some of which are others'; no leaf is told of."""
    is_own = rng.random(SLOTS) < rng.choice([0.2, 0.5, 1.0])
    by_set = is_own & (rng.random(SLOTS) < rng.choice([0.0, 0.1, 0.6, 1.0]))
    return OwnSplits(
        np.zeros(SLOTS, np.int32),
        np.where(is_own, rng.integers(0, n_columns, SLOTS), -2).astype(np.int32),
        rng.choice([0, 1, 100, 127, 128, 253], SLOTS).astype(np.uint8),
        rng.integers(0, 2, SLOTS).astype(np.uint8),
        np.where(by_set, np.cumsum(by_set) - 1, -1).astype(np.int32),
        random_sets(int(by_set.sum()), rng),
    )


def said_one_by_one(splits: OwnSplits, codes: NDArray[np.uint8]) -> int:
    said, waiting = 0, [0]
    while waiting:
        slot = waiting.pop()
        sides = [1, 2]
        if splits.feature[slot] >= 0:
            code = int(codes[splits.feature[slot]])
            goes_left = code <= splits.cut[slot] if code != MISSING else splits.missing_left[slot]
            if splits.set_index[slot] >= 0:
                words = splits.left_set[splits.set_index[slot]]
                goes_left = int(words[code // 64]) >> code % 64 & 1
            said |= int(bool(goes_left)) << slot
            sides = [1 if goes_left else 2]
        waiting += [2 * slot + side for side in sides if 2 * slot + side < SLOTS]
    return said


@EXAMPLES
@given(
    SEEDS, st.sampled_from([1, 5, 16, 17, 31]), st.sampled_from([np.uint8, np.uint16, np.uint32])
)
def test_an_owner_says_of_fifteen_splits_what_it_says_of_one_after_the_other(
    seed: int, n_columns: int, column_type: type
) -> None:
    rng = np.random.default_rng(seed)
    bins = rng.choice([0, 1, 2, 7, 8, 100, 127, 128, 129, 253, 254, MISSING], (n_columns, 20))
    bins = bins.astype(np.uint8)
    splits, is_wide = random_splits(n_columns, rng), column_type is not np.uint8
    lanes = np.zeros((20, n_columns + 1 if is_wide else VECTOR_LANES), np.uint8)
    lay_side_by_side(bins.reshape(-1), 20, (0, 20), lanes, 0, 20)
    cards = np.full(2 * CARD_BYTES, 99, np.uint8)
    column: NDArray[Any] = np.full(2 * PLACES * is_wide, 99, column_type)
    sets = np.full(3 + SET_CARD_BYTES + (1 + SLOTS) * GROUP_BYTES, 99, np.uint8)
    card = cards[CARD_BYTES:]
    write_card(splits, NODE_OF_SLOT, lanes.shape[1] - 1, card, column[PLACES:])
    assert has_set(splits, NODE_OF_SLOT) == (len(splits.left_set) > 0)
    if has_set(splits, NODE_OF_SLOT):
        n_bytes = write_sets(splits, NODE_OF_SLOT, sets[3:], card)
        assert n_bytes == SET_CARD_BYTES + int(card[-1]) * GROUP_BYTES
    else:
        sets = sets[:0]
    for row in range(20):
        expected = said_one_by_one(splits, bins[:, row])
        assert int(speak(lanes, row, cards, column, sets)) == expected


def test_cards_without_sets_may_ask_an_empty_group() -> None:
    splits = random_splits(5, np.random.default_rng(1))
    sets, card = np.full(200, 99, np.uint8), np.zeros(CARD_BYTES, np.uint8)
    n_bytes = write_sets(splits, np.full(SLOTS, -1, np.int32), sets, card)
    assert (n_bytes, card[-1]) == (SET_CARD_BYTES + GROUP_BYTES, 1)
    assert (sets[2 * PLACES : SET_CARD_BYTES] == 255).all()
    assert not sets[SET_CARD_BYTES:n_bytes].any()


@pytest.mark.parametrize("n_columns", [3, 40])
def test_lanes_are_the_codes_of_some_rows_side_by_side(n_columns: int) -> None:
    bins = np.random.default_rng(0).integers(0, 256, (n_columns, 700)).astype(np.uint8)
    lanes = np.zeros((600, VECTOR_LANES), np.uint8)
    for part in ((0, 10), (10, 600)):
        lay_side_by_side(bins.reshape(-1), 700, (50, 650), lanes, *part)
    n_laid = min(n_columns, VECTOR_LANES - 1)
    assert np.array_equal(lanes[:, :n_laid], bins[:n_laid, 50:650].T)
    assert not lanes[:, n_laid:].any()
