"""The order in which categories are cut: by a key per category, ties by category code.

For two classes and for regression the best of all subsets is a prefix of this order (Breiman et al.
1984, section 4.2.2); for more classes it is a good heuristic.
"""

from fedforest.kernels.jit import borrowing


@borrowing
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
