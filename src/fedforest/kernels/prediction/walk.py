"""Walking rows through trees.

A *step* is one uint64 per node, so that a visit costs one load:

    | categorical 63 | missing left 62 | cut 54..61 | column 32..53 | left child 0..31 |

Children are neighbours: the right one follows the left. A leaf names itself as left child, with a
cut that every value passes, so a block of rows can take step after step without asking who has
arrived. The rows of a block take each step together: no row waits for another, so the processor
has the loads of many rows on their way at once. Node numbers are flat over all trees.

A categorical column holds, instead of codes, numbers of bits of short sets (see `short_sets.py`),
and every node may ask a set. Forests with thresholds on raw values (extra-trees) keep them beside
the steps and walk over float32 columns.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import MISSING_BIN
from fedforest.kernels.prediction.short_sets import in_short_set

BLOCK = 8192  # rows that walk together: the more, the longer a large tree stays in cache
STRETCH = 3  # steps between two looks at who has arrived
MAX_WALK_COLUMNS = 1 << 22

_CHILD = np.uint64(0xFFFFFFFF)
_COLUMN_SHIFT = np.uint64(32)
_COLUMN = np.uint64(MAX_WALK_COLUMNS - 1)
_BIN_SHIFT = np.uint64(54)
_MISSING_SHIFT = np.uint64(62)
_CATEGORICAL_SHIFT = np.uint64(63)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class Paths(NamedTuple):
    """A forest ready to be walked."""

    steps: NDArray[np.uint64]
    set_at: NDArray[np.uint32]  # per node: where its short set starts
    sets: NDArray[np.uint32]  # empty if no node is categorical
    tree_start: NDArray[np.int64]
    depth: NDArray[np.int32]  # steps from the root to the deepest leaf, per tree
    threshold: NDArray[np.float32]  # per node, or empty: cuts are bins; may share `set_at`'s memory


class Leaves(NamedTuple):
    """Node i owns entries start[i]:start[i + 1]; regression leaves have a value and no label."""

    start: NDArray[np.int64]
    label: NDArray[np.uint16]
    value: NDArray[np.float64]


@kernel
def depth_in_order(left_child, start, size):
    """Return the depth of a tree whose levels and children are in order; -1 for other trees.

    No branch asks whether a node has children: it would be mispredicted half of the time.
    """
    level_start, next_child, deepest, is_in_order = 0, 1, 0, True
    while level_start < size:
        level_end = next_child
        if level_end > size or level_end == level_start:
            return -1
        for node in range(start + level_start, start + level_end):
            child = left_child[node]
            is_in_order &= (child == -1) | (child == next_child)
            next_child += np.int64(child != -1) << 1
        level_start = level_end
        deepest += 1
    return deepest - 1 if is_in_order and next_child == size else -1


@kernel
def measure_depths(tree_start, left_child, depth):
    """Depth of every tree. False where these are no trees.

    A child lies behind its parent inside its tree, and every node but the root is the child of
    exactly one other. Trees whose children follow each other in the order of their parents, as most
    do, are seen to be trees without noting where children are.
    """
    for tree in range(tree_start.shape[0] - 1):
        start, size = tree_start[tree], tree_start[tree + 1] - tree_start[tree]
        depth[tree] = depth_in_order(left_child, start, size)
        if depth[tree] < 0:
            depth[tree] = depth_in_any_order(left_child[start : start + size])
        if depth[tree] < 0:
            return False
    return True


@kernel
def depth_in_any_order(left_child):
    """Depth of a tree; -1 if it is none."""
    unborn, size = np.int32(-1), left_child.shape[0]
    level = np.full(size, unborn, np.int32)
    deepest = 0
    level[0] = 0
    for node in range(size):
        child = left_child[node]
        if level[node] == unborn:
            return -1
        if child == -1:
            deepest = max(deepest, level[node])
            continue
        if child <= node or child >= size - 1:
            return -1
        if level[child] != unborn or level[child + 1] != unborn:
            return -1
        level[child] = level[node] + 1
        level[child + 1] = level[node] + 1
    return deepest


@kernel
def write_steps(tree_start, left_child, feature, cut, missing_left, set_index, steps):
    """Pack the nodes of all trees into steps."""
    for tree in range(tree_start.shape[0] - 1):
        for node in range(tree_start[tree], tree_start[tree + 1]):
            if left_child[node] < 0:
                stay = (np.uint64(MISSING_BIN) << _BIN_SHIFT) | (_ONE << _MISSING_SHIFT)
                steps[node] = np.uint64(node) | stay
                continue
            step = np.uint64(tree_start[tree] + left_child[node])
            step |= np.uint64(feature[node]) << _COLUMN_SHIFT
            if set_index[node] >= 0:
                step |= _ONE << _CATEGORICAL_SHIFT
            else:
                shift = np.uint64(missing_left[node] & 1)
                step |= (np.uint64(cut[node]) + shift) << _BIN_SHIFT  # wraps missing round to 0
                step |= shift << _MISSING_SHIFT
            steps[node] = step


@kernel
def step_by_cuts(steps, bins, n_rows, first, count, place, walking):
    """The first `count` rows of `walking` take one step; no node of the forest is categorical."""
    for k in range(count):
        i = walking[k]
        step = steps[place[i]]
        code = bins[((step >> _COLUMN_SHIFT) & _COLUMN) * n_rows + first + i]
        shift = np.uint8((step >> _MISSING_SHIFT) & _ONE)
        cut = np.uint8((step >> _BIN_SHIFT) & np.uint64(255))
        place[i] = (step & _CHILD) + np.uint64(np.uint8(code + shift) > cut)


@kernel
def step_by_sets(steps, set_at, sets, bins, n_rows, first, count, place, walking):
    """As `step_by_cuts`, for forests some of whose nodes are categorical.

    Every node is asked for both, a cut and a set: guessing wrong which it has would cost more.
    """
    for k in range(count):
        i = walking[k]
        node = place[i]
        step = steps[node]
        code = bins[((step >> _COLUMN_SHIFT) & _COLUMN) * n_rows + first + i]
        shift = np.uint8((step >> _MISSING_SHIFT) & _ONE)
        cut = np.uint8((step >> _BIN_SHIFT) & np.uint64(255))
        by_set = in_short_set(sets, np.uint64(set_at[node]), np.uint64(code))
        place[i] = (step & _CHILD) + (np.uint64(np.uint8(code + shift) > cut) ^ by_set)


@kernel
def step_by_thresholds(steps, threshold, values, n_rows, first, count, place, walking):
    """As `step_by_cuts`, for thresholds on raw values."""
    for k in range(count):
        i = walking[k]
        node = place[i]
        step = steps[node]
        value = values[((step >> _COLUMN_SHIFT) & _COLUMN) * n_rows + first + i]
        left = np.uint64(value <= threshold[node])
        if value != value:
            left = (step >> _MISSING_SHIFT) & _ONE
        place[i] = (step & _CHILD) + (_ONE - left)


@kernel
def step_by_values(steps, set_at, sets, threshold, values, n_rows, first, count, place, walking):
    """As `step_by_sets`, for thresholds on raw values, which lie where the sets' starts lie.

    The values of categorical columns are numbers of bits, as integers.
    """
    bits = values.view(np.uint32)
    for k in range(count):
        i = walking[k]
        node = place[i]
        step = steps[node]
        at = ((step >> _COLUMN_SHIFT) & _COLUMN) * n_rows + first + i
        value, is_by_set = values[at], step >> _CATEGORICAL_SHIFT
        mask = _ZERO - is_by_set
        by_set = in_short_set(sets, np.uint64(set_at[node]) & mask, np.uint64(bits[at]) & mask)
        left = np.uint64(value <= threshold[node])
        if value != value:
            left = (step >> _MISSING_SHIFT) & _ONE
        place[i] = (step & _CHILD) + (_ONE - (left & ~mask | by_set))


@kernel
def take_steps(paths, table, n_rows, first, n_steps, count, place, walking):
    """The first `count` rows of `walking` take some steps, or stay in the leaf they reached."""
    steps, set_at, sets, _, _, threshold = paths
    bins, values = table
    for _ in range(n_steps):
        if threshold.shape[0] > 0 and sets.shape[0] > 0:
            step_by_values(
                steps, set_at, sets, threshold, values, n_rows, first, count, place, walking
            )
        elif threshold.shape[0] > 0:
            step_by_thresholds(steps, threshold, values, n_rows, first, count, place, walking)
        elif sets.shape[0] > 0:
            step_by_sets(steps, set_at, sets, bins, n_rows, first, count, place, walking)
        else:
            step_by_cuts(steps, bins, n_rows, first, count, place, walking)


@kernel
def drop_arrived(steps, count, place, walking):
    """Keep, in order, those of the first `count` rows of `walking` that are not in a leaf."""
    kept = 0
    for k in range(count):
        i = walking[k]
        node = place[i]
        walking[kept] = i
        kept += 1 if (steps[node] & _CHILD) != node else 0
    return kept


@kernel
def balanced_depth(n_nodes):
    """Depth of a balanced tree of so many nodes; in a grown one, few rows arrive much sooner."""
    depth = 0
    while (2 << depth) - 1 < n_nodes:
        depth += 1
    return depth


@kernel
def walk_block(paths, table, n_rows, tree, first, last, place, walking):
    """place[i] = leaf (flat node number) that row first + i reaches in the tree."""
    root, end = paths.tree_start[tree], paths.tree_start[tree + 1]
    count = last - first
    for i in range(count):
        place[i] = root
        walking[i] = i
    left = paths.depth[tree]
    stretch = min(left, balanced_depth(end - root))
    while count > 0 and left > 0:
        take_steps(paths, table, n_rows, np.uint64(first), stretch, count, place, walking)
        left -= stretch
        stretch = STRETCH
        if left > 0:
            count = drop_arrived(paths.steps, count, place, walking)


@kernel
def find_leaves(paths, table, n_rows, leaves_of_rows, first, last):
    """leaves_of_rows[row, tree] = node number within the tree of the leaf the row reaches."""
    place, walking = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    for begin in range(first, last, BLOCK):
        end = min(last, begin + BLOCK)
        for tree in range(paths.depth.shape[0]):
            walk_block(paths, table, n_rows, tree, begin, end, place, walking)
            for i in range(end - begin):
                leaves_of_rows[begin + i, tree] = np.int64(place[i]) - paths.tree_start[tree]


@kernel
def add_means(leaves, leaf_of_row, rows, votes):
    """Add the mean of its leaf to each row's vote."""
    start, _, value = leaves
    flat = votes.reshape(-1)
    for i in range(rows.shape[0]):
        flat[np.uint64(rows[i])] += value[np.uint64(start[np.uint64(leaf_of_row[i])])]


@kernel
def add_shares(leaves, leaf_of_row, rows, votes):
    """Add the class shares of its leaf to each row's votes."""
    start, label, value = leaves
    flat, n_classes = votes.reshape(-1), np.uint64(votes.shape[1])
    for i in range(rows.shape[0]):
        leaf, at = np.uint64(leaf_of_row[i]), np.uint64(rows[i]) * n_classes
        for entry in range(np.uint64(start[leaf]), np.uint64(start[leaf + _ONE])):
            flat[at + label[entry]] += value[entry]


@kernel
def add_choices(leaves, leaf_of_row, rows, votes):
    """Give one vote of each row to the class with the largest share of its leaf."""
    start, label, value = leaves
    flat, n_classes = votes.reshape(-1), np.uint64(votes.shape[1])
    for i in range(rows.shape[0]):
        leaf, at = np.uint64(leaf_of_row[i]), np.uint64(rows[i]) * n_classes
        best = np.uint64(start[leaf])
        for entry in range(best + _ONE, np.uint64(start[leaf + _ONE])):
            if value[entry] > value[best]:
                best = entry
        flat[at + label[best]] += 1.0


@kernel
def add_leaves(leaves, leaf_of_row, rows, votes, hard):
    """Add what their leaves say to the votes of some rows."""
    if leaves.label.shape[0] == 0:
        add_means(leaves, leaf_of_row, rows, votes)
    elif hard:
        add_choices(leaves, leaf_of_row, rows, votes)
    else:
        add_shares(leaves, leaf_of_row, rows, votes)


@kernel
def sum_votes(paths, leaves, table, n_rows, votes, hard, first, last):
    """votes[row] += what the leaves of all trees say, tree after tree."""
    place, walking = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    for begin in range(first, last, BLOCK):
        rows = np.arange(begin, min(last, begin + BLOCK))
        n = len(rows)
        for tree in range(paths.depth.shape[0]):
            walk_block(paths, table, n_rows, tree, begin, begin + n, place, walking)
            add_leaves(leaves, place[:n], rows, votes, hard)


@kernel
def vote_at(leaves, leaf_of_row, rows, votes, counts, hard):
    """Votes of one tree for some rows whose leaves are known: out-of-bag rows."""
    add_leaves(leaves, leaf_of_row, rows, votes, hard)
    for i in range(rows.shape[0]):
        counts[rows[i]] += 1
