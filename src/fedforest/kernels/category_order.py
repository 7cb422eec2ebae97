"""The order in which categories are cut: by a key per category, ties by category code.

For two classes and for regression the best of all subsets is a prefix of this order (Breiman et al.
1984, section 4.2.2); for more classes it is a good heuristic.
"""

from fedforest.kernels.bitsets import fill_set, put_in_set
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import MISSING_BIN


@kernel
def sort_by_key(visit, keys, count):
    """Sort the first `count` bins of `visit` by `keys[bin]`; equal keys keep their order."""
    for position in range(1, count):
        code = visit[position]
        key = keys[code]
        slot = position
        while slot > 0 and keys[visit[slot - 1]] > key:
            visit[slot] = visit[slot - 1]
            slot -= 1
        visit[slot] = code


@kernel
def keep_categories(found, node, cut, feature, visit, count, larger_is_left):
    """Store a categorical cut (score, position): visited bins up to the position go left.

    Categories the node has not seen follow the missing values; where it saw none of those either,
    both go to the larger child.
    """
    score, where = cut
    others_left = larger_is_left
    for position in range(count):
        if visit[position] == MISSING_BIN:
            others_left = position <= where
    fill_set(found.left_set, node, others_left)
    for position in range(count):
        put_in_set(found.left_set, node, visit[position], position <= where)
    found.feature[node] = feature
    found.bin[node] = 0
    found.missing_left[node] = 1 if others_left else 0
    return score
