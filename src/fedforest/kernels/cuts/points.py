"""Random points inside a party's range, and numbers between the parties' points.

A party never answers with a value of its own: its point lies strictly between the lowest and the
highest value it sees in a node, and where it sees too few values, or no float32 lies between them,
it abstains. Uniform numbers are arguments: a party draws its own from its randomness, or its range
could be computed back from its points.
"""

import numpy as np

from fedforest.kernels.jit import inlined, kernel

ABSTAINS = np.float32(np.nan)
_INFINITE = np.float32(np.inf)
_PLUS_ZERO = np.float32(0.0)
_UP, _SIGN = np.int32(1), np.int32(31)
_TWO = np.uint64(2)
_UNUSED_BITS = np.uint64(12)
_UNIT = 2.0**-52


@inlined
def next_above(value):
    """Return the next larger float32; the largest finite one is followed by infinity."""
    bits = np.float32(value + _PLUS_ZERO).view(np.int32)  # minus zero becomes zero
    step = _UP | (bits >> _SIGN)  # 1, or -1 for a negative number, whose bits grow downwards
    return np.int32(bits + step).view(np.float32)


@inlined
def draw_inside(low, high, unit):
    """Return the unit's float32 strictly between low < high, NaN if there is none.

    Both ends of what lies between are themselves float32, so rounding does not leave it; beyond the
    largest finite number nothing lies between.
    """
    lowest, highest = next_above(low), -next_above(-high)
    width = np.float64(highest) - np.float64(lowest)
    return np.float32(np.float64(lowest) + width * unit) if width >= 0.0 else ABSTAINS


@inlined
def to_unit(word):
    """A uniform number between 0 and 1, neither included, from the upper 52 bits of a word."""
    return (np.float64(word >> _UNUSED_BITS) + 0.5) * _UNIT


@kernel
def draw_points(low, high, words, points, first, last):
    """Points of the pairs first..last, NaN where the range is empty or a single value.

    `words` has two random words for each of these pairs alone; the first is used.
    """
    begin, words = np.uint64(first), words.reshape(-1)
    for i in range(np.uint64(last - first)):
        lowest, highest = low[begin + i], high[begin + i]
        point = draw_inside(lowest, highest, to_unit(words[_TWO * i]))
        points[begin + i] = point if lowest < highest else ABSTAINS


@kernel
def answer_categories(low, high, feature, is_categorical, points, first, last):
    """Answer for categorical columns, others untouched: zero where two categories are seen."""
    for pair in range(first, last):
        if is_categorical[feature[pair]]:
            points[pair] = _PLUS_ZERO if low[pair] < high[pair] else ABSTAINS


@inlined
def draw_between(low, high, unit):
    """Return the unit's float32 in [low, high), low if they are equal, NaN if there is no range."""
    drawn = np.float32(np.float64(low) + (np.float64(high) - np.float64(low)) * unit)
    inside = drawn if drawn < high else low
    return inside if low <= high else ABSTAINS


@kernel
def has_infinite(values):
    """Return whether a value is infinite."""
    found = False
    for i in range(values.shape[0]):
        found |= abs(values[i]) == _INFINITE
    return found
