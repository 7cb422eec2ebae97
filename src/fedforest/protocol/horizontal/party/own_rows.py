"""A party's choice of how many of its rows a tree sees; which ones, its own randomness decides."""

from fedforest.protocol.asking import check
from fedforest.protocol.horizontal.messages import BeginTrees
from fedforest.tree.growth.rows import Sampling

SEEN_BY_BOOTSTRAP = 0.632  # fraction of rows


def choose_sampling(start: BeginTrees, n_rows: int, *, is_private: bool) -> Sampling:
    """Choose how trees draw rows; under noise a row counts once, to need less noise.

    All parties draw the same fraction: from one that drew nothing, others would have nothing to
    hide behind.
    """
    check(start.n_draws <= start.n_rows, "a tree is to draw more rows than exist")
    n_draws = max(1, round(start.n_draws * n_rows / start.n_rows)) if n_rows else 0
    if not (start.bootstrap and is_private):
        return Sampling(start.bootstrap, n_draws)
    if n_draws == n_rows:
        n_draws = max(min(1, n_rows), round(SEEN_BY_BOOTSTRAP * n_rows))
    return Sampling(bootstrap=False, n_draws=n_draws)
