"""Permanent randomized response: the bits of a row's code word, each turned over now and then.

The coins of a row are a ChaCha20 block of its own, found by row and class under a secret key, so
the same row and class always give the same answer and nothing needs to be stored.
"""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.noise.chacha import CONSTANTS, LANES, scramble

_WORDS = 16  # of a block: one coin each
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)


@kernel
def write_inputs(key, block, row_ids, labels, first, words):
    """The input blocks of `LANES` rows; behind the last row it is repeated."""
    for lane in range(LANES):
        row = min(first + lane, row_ids.shape[0] - 1)
        for i in range(4):
            words[i * LANES + lane] = CONSTANTS[i]
        for i in range(8):
            words[(4 + i) * LANES + lane] = key[i]
        words[12 * LANES + lane] = np.uint32(block)
        words[13 * LANES + lane] = np.uint32(row_ids[row] & _LOW_HALF)
        words[14 * LANES + lane] = np.uint32(row_ids[row] >> _HALF)
        words[15 * LANES + lane] = np.uint32(labels[row])


@kernel
def respond_permanently(code_words, n_bits, turn_below, key, row_ids, labels, responses):
    """responses[i] = code word of labels[i], each bit turned with probability turn_below / 2^32."""
    inputs = np.empty(_WORDS * LANES, np.uint32)
    words = np.empty(_WORDS * LANES, np.uint32)
    n_rows = row_ids.shape[0]
    for first in range(0, n_rows, LANES):
        for lane in range(min(LANES, n_rows - first)):
            responses[first + lane] = code_words[labels[first + lane]]
        for block in range((n_bits + _WORDS - 1) // _WORDS):
            write_inputs(key, block, row_ids, labels, first, inputs)
            words[:] = inputs
            scramble(words)
            for i in range(min(_WORDS, n_bits - block * _WORDS)):
                bit = np.uint64(block * _WORDS + i)
                for lane in range(min(LANES, n_rows - first)):
                    at = i * LANES + lane
                    turned = np.uint64(np.uint32(words[at] + inputs[at]) < turn_below)
                    responses[first + lane] ^= turned << bit
