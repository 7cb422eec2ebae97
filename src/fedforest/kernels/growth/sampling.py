"""Random draws from counters: bootstrap samples and the candidate features of a node.

A draw is a hash of (key, counter), never the state of a generator, so every tree and every node
gets the same numbers whatever is computed before it, beside it, or in another process.
"""

import numpy as np

from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import MAX_MULTIPLICITY, MULTIPLICITY_BITS

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)
_ONE = np.uint64(1)


@kernel
def mix(x):
    """Scramble a 64-bit word (the finaliser of splitmix64; Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _MIX_A
    x = (x ^ (x >> np.uint64(27))) * _MIX_B
    return x ^ (x >> np.uint64(31))


@kernel
def draw_below(key, counter, bound):
    """Return the counter's uniform integer below `bound` < 2^32, as uint64."""
    return ((mix(key + counter * _GOLDEN) >> _HALF) * bound) >> _HALF


@kernel
def draw_unit(key, counter):
    """Return the counter's uniform float64 in [0, 1)."""
    return np.float64(mix(key + counter * _GOLDEN) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def count_draws(key, n_draws, multiplicity):
    """Draw rows with replacement; `multiplicity` (uint8, one per row) becomes how often each came.

    A row counts at most 15 times, which a bootstrap of n out of n rows exceeds about once in
    10^13 rows.
    """
    multiplicity[:] = 0
    n_rows = np.uint64(multiplicity.shape[0])
    for i in range(n_draws):
        row = draw_below(key, np.uint64(i), n_rows)
        if multiplicity[row] < MAX_MULTIPLICITY:
            multiplicity[row] += np.uint8(1)


@kernel
def count_draws_within(key, n_draws, n_table, first, multiplicity):
    """Draw as `count_draws` does from a table of `n_table` rows; keep those from `first` on.

    `multiplicity` has one number for each of the consecutive rows that are kept.
    """
    multiplicity[:] = 0
    n_kept, bound, begin = np.uint64(multiplicity.shape[0]), np.uint64(n_table), np.uint64(first)
    for i in range(n_draws):
        row = draw_below(key, np.uint64(i), bound) - begin  # rows before wrap round: too large
        if row < n_kept and multiplicity[row] < MAX_MULTIPLICITY:
            multiplicity[row] += np.uint8(1)


@kernel
def choose_rows(key, n_draws, multiplicity):
    """Draw rows without replacement, each once at most: selection sampling (Knuth 3.4.2 S)."""
    n_rows = multiplicity.shape[0]
    needed = n_draws
    for row in range(n_rows):
        left = np.uint64(n_rows - row)
        chosen = draw_below(key, np.uint64(row), left) < np.uint64(needed)
        multiplicity[row] = np.uint8(1) if chosen else np.uint8(0)
        if chosen:
            needed -= 1


@kernel
def write_entries(multiplicity, classes, row_bits, entries, at):
    """Write the entries of all drawn rows from position `at` on; return the end position.

    `classes` has one code per row, or is empty for regression. Written without a branch: an entry
    that does not count is overwritten by the next, so one spare position is needed at the end.
    """
    dtype = entries.dtype.type
    with_class = classes.shape[0] > 0
    code_bits = np.uint64(MULTIPLICITY_BITS)
    for row in range(multiplicity.shape[0]):
        code = np.uint64(multiplicity[row])
        if with_class:
            code |= np.uint64(classes[row]) << code_bits
        entries[at] = dtype(np.uint64(row) | (code << row_bits))
        at += 1 if multiplicity[row] > 0 else 0
    return at


@kernel
def write_left_out(multiplicity, allowed, entries, at):
    """Write the rows that were not drawn (plain row indices); return the end position."""
    dtype = entries.dtype.type
    for row in range(multiplicity.shape[0]):
        entries[at] = dtype(row)
        at += 1 if multiplicity[row] == 0 and allowed[row] else 0
    return at


@kernel
def key_nodes(tree_keys, tree, node):
    """Return the key of each open node: of tree[k], number node[k]."""
    keys = np.empty(tree.shape[0], np.uint64)
    for k in range(tree.shape[0]):
        keys[k] = mix(tree_keys[tree[k]] + np.uint64(node[k]) * _GOLDEN)
    return keys


@kernel
def draw_candidates(tree_keys, tree, node, tried, count, bit_of_column, bitmap):
    """Set the bits of the next `count` columns of each open node's own random permutation.

    Open node k belongs to tree[k], has number node[k] there, and skips the tried[k] columns it
    already used without success. The permutation is put back in order after every node, so no
    draw depends on another node.
    """
    n_columns = bit_of_column.shape[0]
    keys = key_nodes(tree_keys, tree, node)
    permutation = np.arange(n_columns)
    swaps = np.empty(n_columns, np.int64)
    for k in range(tree.shape[0]):
        key = keys[k]
        drawn = min(n_columns, tried[k] + count)
        for i in range(drawn):
            j = i + np.int64(draw_below(key, np.uint64(i), np.uint64(n_columns - i)))
            swaps[i] = j
            permutation[i], permutation[j] = permutation[j], permutation[i]
        for i in range(tried[k], drawn):
            bit = bit_of_column[permutation[i]]
            bitmap[k, bit >> 3] |= np.uint8(1 << (bit & 7))
        for i in range(drawn - 1, -1, -1):
            j = swaps[i]
            permutation[i], permutation[j] = permutation[j], permutation[i]
