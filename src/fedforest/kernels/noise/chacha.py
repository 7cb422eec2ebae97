"""ChaCha20 (RFC 8439) inside kernels: the secure words behind all noise and all random points.

Thirty-two blocks are worked out side by side, one per lane: the compiler then uses vector
instructions, which makes words seven times as cheap (with eight lanes it does not). A stream is one
uint32 array that kernels read from and move on:

    0..511       the words of 32 blocks: word i of block b is at 32 i + b
    512..527     the next input block: constants, key, counter (two words), number of the stream
    528          how many of the buffered words were read

A key is used for one purpose once: the same key and number give the same words again. The time of a
draw depends on its result; an attacker who can time single draws is not defended against.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import PrivacyError
from fedforest.kernels.jit import borrowing, embedded

LANES = 32
KEY_BYTES = 32
CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4").astype(np.uint32)

_COUNTER_LOW, _COUNTER_HIGH = 12, 13
_N_BUFFERED = 16 * LANES
_INPUT = _N_BUFFERED
_READ = _INPUT + 16
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_UNUSED_BITS = np.uint64(12)  # a unit has 52 random bits and a half: never 0, never 1
_UNIT = 2.0**-52
_ALL_HALVES = np.uint64(1 << 32)


def read_key(key: bytes) -> NDArray[np.uint32]:
    """Return the eight words of a key."""
    if len(key) != KEY_BYTES:
        raise PrivacyError(f"A noise key has {KEY_BYTES} bytes, not {len(key)}.")
    return np.frombuffer(key, "<u4").astype(np.uint32)


def open_stream(key: bytes, number: int = 0) -> NDArray[np.uint32]:
    """Return the beginning of a key's stream; streams of other numbers have other words."""
    stream = np.zeros(_READ + 1, np.uint32)
    block = stream[_INPUT:_READ]
    block[:4] = CONSTANTS
    block[4:12] = read_key(key)
    block[14:] = number & 0xFFFFFFFF, number >> 32
    stream[_READ] = _N_BUFFERED
    return stream


@embedded
def rotate(word, by, rest):
    """Turn 32 bits left; `rest` is 32 - `by`."""
    return np.uint32(np.uint32(word << by) | np.uint32(word >> rest))


@embedded
def quarter_round(words, a, b, c, d):
    """RFC 8439 section 2.1 for words a, b, c, d of every lane."""
    for lane in range(LANES):
        k = np.uint64(lane)
        at_a, at_b, at_c, at_d = (
            k + np.uint64(a),
            k + np.uint64(b),
            k + np.uint64(c),
            k + np.uint64(d),
        )
        p, q, r, s = words[at_a], words[at_b], words[at_c], words[at_d]
        p = np.uint32(p + q)
        s = rotate(np.uint32(s ^ p), np.uint32(16), np.uint32(16))
        r = np.uint32(r + s)
        q = rotate(np.uint32(q ^ r), np.uint32(12), np.uint32(20))
        p = np.uint32(p + q)
        s = rotate(np.uint32(s ^ p), np.uint32(8), np.uint32(24))
        r = np.uint32(r + s)
        q = rotate(np.uint32(q ^ r), np.uint32(7), np.uint32(25))
        words[at_a], words[at_b], words[at_c], words[at_d] = p, q, r, s


@borrowing
def scramble(words):
    """The twenty rounds of ChaCha20, in place, on `LANES` blocks.

    Adding the input words to the result, which makes it impossible to undo, is left to callers.
    """
    for _ in range(10):
        quarter_round(words, 0 * LANES, 4 * LANES, 8 * LANES, 12 * LANES)
        quarter_round(words, 1 * LANES, 5 * LANES, 9 * LANES, 13 * LANES)
        quarter_round(words, 2 * LANES, 6 * LANES, 10 * LANES, 14 * LANES)
        quarter_round(words, 3 * LANES, 7 * LANES, 11 * LANES, 15 * LANES)
        quarter_round(words, 0 * LANES, 5 * LANES, 10 * LANES, 15 * LANES)
        quarter_round(words, 1 * LANES, 6 * LANES, 11 * LANES, 12 * LANES)
        quarter_round(words, 2 * LANES, 7 * LANES, 8 * LANES, 13 * LANES)
        quarter_round(words, 3 * LANES, 4 * LANES, 9 * LANES, 14 * LANES)


@borrowing
def refill(stream):
    """Buffer the words of the next blocks and move the counter on."""
    counter = np.uint64(stream[_INPUT + _COUNTER_LOW])
    counter |= np.uint64(stream[_INPUT + _COUNTER_HIGH]) << _HALF
    for i in range(16):
        for lane in range(LANES):
            stream[i * LANES + lane] = stream[_INPUT + i]
    for lane in range(LANES):
        own = counter + np.uint64(lane)
        stream[_COUNTER_LOW * LANES + lane] = np.uint32(own & _LOW_HALF)
        stream[_COUNTER_HIGH * LANES + lane] = np.uint32(own >> _HALF)
    scramble(stream)
    for i in range(16):
        if i in (_COUNTER_LOW, _COUNTER_HIGH):
            continue
        for lane in range(LANES):
            at = i * LANES + lane
            stream[at] = np.uint32(stream[at] + stream[_INPUT + i])
    for lane in range(LANES):
        own = counter + np.uint64(lane)
        low, high = _COUNTER_LOW * LANES + lane, _COUNTER_HIGH * LANES + lane
        stream[low] = np.uint32(stream[low] + np.uint32(own & _LOW_HALF))
        stream[high] = np.uint32(stream[high] + np.uint32(own >> _HALF))
    counter += np.uint64(LANES)
    stream[_INPUT + _COUNTER_LOW] = np.uint32(counter & _LOW_HALF)
    stream[_INPUT + _COUNTER_HIGH] = np.uint32(counter >> _HALF)
    stream[_READ] = np.uint32(0)


@embedded
def next_half(stream):
    """32 random bits, as uint32."""
    if stream[_READ] == _N_BUFFERED:
        refill(stream)
    at = np.int64(stream[_READ])
    stream[_READ] = np.uint32(at + 1)
    return stream[at]


@embedded
def next_word(stream):
    """64 random bits, as uint64. A single half left in the buffer is skipped."""
    if stream[_READ] > _N_BUFFERED - 2:
        refill(stream)
    at = np.int64(stream[_READ])
    stream[_READ] = np.uint32(at + 2)
    return np.uint64(stream[at]) | (np.uint64(stream[at + 1]) << _HALF)


@embedded
def next_unit(stream):
    """Return a uniform float64 strictly between 0 and 1."""
    return (np.float64(next_word(stream) >> _UNUSED_BITS) + 0.5) * _UNIT


@embedded
def next_below(stream, bound):
    """Return a uniform uint64 below `bound`, which is from 1 to 2^32, without bias (Lemire 2019).

    The upper half of half * bound is uniform once the 2^32 mod bound lowest lower halves, which
    would make some results likelier, are drawn again.
    """
    product = np.uint64(next_half(stream)) * bound
    if (product & _LOW_HALF) < bound:
        skipped = _ALL_HALVES % bound
        while (product & _LOW_HALF) < skipped:
            product = np.uint64(next_half(stream)) * bound
    return product >> _HALF
