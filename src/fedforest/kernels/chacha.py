"""ChaCha20 (RFC 8439) inside kernels: the secure words behind all noise and all random points.

Eight blocks are worked out side by side, one per lane, so that vector instructions can be used. A
stream is one uint32 array that kernels read from and move on:

    0..15      the next input block: constants, key, counter (12, 13), number of the stream (14, 15)
    16         how many of the buffered words were read
    32..159    the words of eight blocks: word i of block b is at 32 + 8 i + b

A key is used for one purpose once: the same key and number give the same words again. How long a
draw takes depends on what is drawn; whoever can time single draws is not defended against.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import PrivacyError
from fedforest.kernels.jit import borrowing, embedded, kernel

LANES = 8
KEY_BYTES = 32
CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4").astype(np.uint32)

_COUNTER_LOW, _COUNTER_HIGH = 12, 13
_READ = 16
_BUFFER = 32
_N_BUFFERED = 16 * LANES
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_UNUSED_BITS = np.uint64(12)  # a unit has 52 random bits and a half: never 0, never 1
_UNIT = 2.0**-52
_ONE = np.uint64(1)


def read_key(key: bytes) -> NDArray[np.uint32]:
    """The eight words of a key."""
    if len(key) != KEY_BYTES:
        raise PrivacyError(f"A noise key has {KEY_BYTES} bytes, not {len(key)}.")
    return np.frombuffer(key, "<u4").astype(np.uint32)


def open_stream(key: bytes, number: int = 0) -> NDArray[np.uint32]:
    """The beginning of a key's stream; streams of other numbers have other words."""
    stream = np.zeros(_BUFFER + _N_BUFFERED, np.uint32)
    stream[:4] = CONSTANTS
    stream[4:12] = read_key(key)
    stream[14:16] = number & 0xFFFFFFFF, number >> 32
    stream[_READ] = _N_BUFFERED
    return stream


def draw_units(key: bytes, count: int) -> NDArray[np.float64]:
    """Uniform numbers strictly between 0 and 1."""
    units = np.empty(count, np.float64)
    fill_units(open_stream(key), units)
    return units


@embedded
def rotate(word, by, rest):
    """Turn 32 bits left; `rest` is 32 - `by`."""
    return np.uint32(np.uint32(word << by) | np.uint32(word >> rest))


@embedded
def quarter_round(words, at, a, b, c, d):
    """RFC 8439 section 2.1, in every lane; the four words are `LANES` lanes each from at + a on."""
    for lane in range(at, at + LANES):
        p, q, r, s = words[lane + a], words[lane + b], words[lane + c], words[lane + d]
        p = np.uint32(p + q)
        s = rotate(np.uint32(s ^ p), np.uint32(16), np.uint32(16))
        r = np.uint32(r + s)
        q = rotate(np.uint32(q ^ r), np.uint32(12), np.uint32(20))
        p = np.uint32(p + q)
        s = rotate(np.uint32(s ^ p), np.uint32(8), np.uint32(24))
        r = np.uint32(r + s)
        q = rotate(np.uint32(q ^ r), np.uint32(7), np.uint32(25))
        words[lane + a], words[lane + b], words[lane + c], words[lane + d] = p, q, r, s


@borrowing
def scramble(words, at):
    """The twenty rounds of ChaCha20, in place, on the blocks that begin at `at`.

    Adding the input words to the result, which makes it impossible to undo, is left to callers.
    """
    for _ in range(10):
        quarter_round(words, at, 0 * LANES, 4 * LANES, 8 * LANES, 12 * LANES)
        quarter_round(words, at, 1 * LANES, 5 * LANES, 9 * LANES, 13 * LANES)
        quarter_round(words, at, 2 * LANES, 6 * LANES, 10 * LANES, 14 * LANES)
        quarter_round(words, at, 3 * LANES, 7 * LANES, 11 * LANES, 15 * LANES)
        quarter_round(words, at, 0 * LANES, 5 * LANES, 10 * LANES, 15 * LANES)
        quarter_round(words, at, 1 * LANES, 6 * LANES, 11 * LANES, 12 * LANES)
        quarter_round(words, at, 2 * LANES, 7 * LANES, 8 * LANES, 13 * LANES)
        quarter_round(words, at, 3 * LANES, 4 * LANES, 9 * LANES, 14 * LANES)


@embedded
def input_word(stream, i, lane):
    """Word i of the input block of a lane: the blocks' counters follow each other."""
    if i not in (_COUNTER_LOW, _COUNTER_HIGH):
        return stream[i]
    counter = np.uint64(stream[_COUNTER_LOW]) | (np.uint64(stream[_COUNTER_HIGH]) << _HALF)
    counter += np.uint64(lane)
    return np.uint32((counter & _LOW_HALF) if i == _COUNTER_LOW else (counter >> _HALF))


@borrowing
def refill(stream):
    """Buffer the words of the next blocks and move the counter on."""
    for i in range(16):
        for lane in range(LANES):
            stream[_BUFFER + i * LANES + lane] = input_word(stream, i, lane)
    scramble(stream, _BUFFER)
    for i in range(16):
        for lane in range(LANES):
            at = _BUFFER + i * LANES + lane
            stream[at] = np.uint32(stream[at] + input_word(stream, i, lane))
    low, high = input_word(stream, _COUNTER_LOW, LANES), input_word(stream, _COUNTER_HIGH, LANES)
    stream[_COUNTER_LOW], stream[_COUNTER_HIGH] = low, high
    stream[_READ] = np.uint32(0)


@embedded
def next_half(stream):
    """32 random bits, as uint32."""
    if stream[_READ] == _N_BUFFERED:
        refill(stream)
    at = np.int64(stream[_READ])
    stream[_READ] = np.uint32(at + 1)
    return stream[_BUFFER + at]


@embedded
def next_word(stream):
    """64 random bits, as uint64."""
    low = np.uint64(next_half(stream))
    return low | (np.uint64(next_half(stream)) << _HALF)


@embedded
def next_unit(stream):
    """A uniform float64 strictly between 0 and 1."""
    return (np.float64(next_word(stream) >> _UNUSED_BITS) + 0.5) * _UNIT


@borrowing
def next_below(stream, bound):
    """A uniform uint64 below `bound` (at least 1), exactly: what is too large is drawn again."""
    mask = bound - _ONE
    for by in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(by)
    while True:
        word = np.uint64(next_half(stream)) if mask <= _LOW_HALF else next_word(stream)
        word &= mask
        if word < bound:
            return word


@kernel
def fill_words(stream, words):
    """The next words of the stream."""
    for i in range(words.shape[0]):
        words[i] = next_word(stream)


@kernel
def fill_units(stream, units):
    """The next uniform numbers strictly between 0 and 1."""
    for i in range(units.shape[0]):
        units[i] = next_unit(stream)
