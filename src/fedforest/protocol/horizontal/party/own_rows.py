"""A party's choice of how many of its rows a tree sees; which ones, its own randomness decides."""

from fedforest.protocol.asking import check
from fedforest.protocol.horizontal.messages import BeginTrees
from fedforest.tree.growth.rows import Sampling


def choose_sampling(start: BeginTrees, n_rows: int, *, is_private: bool) -> Sampling:
    """Choose how trees draw rows; under noise a label may count once only.

    All parties draw the same fraction: from one that drew nothing, others would have nothing to
    hide behind.
    """
    check(start.n_draws <= start.n_rows, "a tree is to draw more rows than exist")
    check(not (start.bootstrap and is_private), "noise is to cover rows that are drawn twice")
    n_draws = max(1, round(start.n_draws * n_rows / start.n_rows)) if n_rows else 0
    return Sampling(start.bootstrap, n_draws)
