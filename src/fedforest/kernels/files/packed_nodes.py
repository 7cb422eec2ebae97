"""Between one entry per node and what a model file keeps: entries of splits, or of leaves, alone.

Whether a node is a leaf is as good as random, so nobody asks: an entry is copied to where the next
one that is kept belongs, and stays there if it is one. Loops end with the last one that is kept, so
the arrays of files need exactly as much room as they have.
"""

import numpy as np

from fedforest.kernels.jit import kernel


@kernel
def keep_some(is_kept, values, kept):
    """The values of nodes that are kept; `kept` has room for all of them and no more."""
    node, at = 0, 0
    while at < kept.shape[0]:
        kept[at] = values[node]
        at += is_kept[node]
        node += 1


@kernel
def place_some(is_kept, kept, default, values):
    """Undo `keep_some`: nodes that were not kept have the default."""
    choice = np.full(2, default, kept.dtype)
    node, at = 0, 0
    while at < kept.shape[0]:
        choice[1] = kept[at]
        values[node] = choice[np.int64(is_kept[node])]
        at += is_kept[node]
        node += 1
    values[node:] = default


@kernel
def count_entries(is_split, start, entries):
    """Per leaf, how many entries it has; those of node i are start[i]:start[i + 1]."""
    node, leaf = 0, 0
    while leaf < entries.shape[0]:
        entries[leaf] = start[node + 1] - start[node]
        leaf += not is_split[node]
        node += 1


@kernel
def place_starts(is_split, entries, start):
    """Undo `count_entries`: splits have no entries."""
    node, leaf, total = 0, 0, 0
    while leaf < entries.shape[0]:
        start[node] = total
        is_leaf = not is_split[node]
        total += np.int64(entries[leaf]) * is_leaf
        leaf += is_leaf
        node += 1
    start[node:] = total


@kernel
def keep_shares(entries, value, kept):
    """The shares in leaves of several classes; False where a class alone in its leaf has not all.

    `kept` has room for all of them and no more.
    """
    at, end, have_all = 0, 0, True
    for leaf in range(entries.shape[0]):
        count = np.int64(entries[leaf])
        if count == 1:
            have_all &= value[at] == 1.0
        else:
            for k in range(count):
                kept[end + k] = value[at + k]
            end += count
        at += count
    return have_all


@kernel
def place_shares_of_leaves(entries, kept, value):
    """Undo `keep_shares`."""
    at, end = 0, 0
    for leaf in range(entries.shape[0]):
        count = np.int64(entries[leaf])
        if count == 1:
            value[at] = 1.0
        else:
            for k in range(count):
                value[at + k] = kept[end + k]
            end += count
        at += count


@kernel
def ascend_in_leaves(entries, label):
    """Return whether the classes of every leaf ascend.

    As often as a class is not above the one before it, another leaf must begin.
    """
    n_falls, at = 0, 0
    for entry in range(1, label.shape[0]):
        n_falls += label[entry - 1] >= label[entry]
    for leaf in range(entries.shape[0] - 1):
        at += np.int64(entries[leaf])
        n_falls -= label[at - 1] >= label[at]
    return n_falls == 0
