"""A party's choice of the rows that trees see, drawn by its own randomness and kept secret."""

import numpy as np
from numpy.typing import NDArray

from fedforest.masking.key_agreement import derive_key
from fedforest.masking.keystream import expand
from fedforest.protocol.horizontal.messages import BeginTrees
from fedforest.tree.growth.rows import Sampling

THINNEST, THICKEST = 0.75, 0.95  # fraction of rows that are kept after a loss
SEEN_BY_BOOTSTRAP = 0.632  # fraction of rows


def choose_sampling(start: BeginTrees, n_rows: int, *, is_private: bool) -> Sampling:
    """Choose how trees draw rows; under noise a row counts once, to need less noise."""
    n_draws = min(start.n_draws, n_rows)
    if not (start.bootstrap and is_private):
        return Sampling(start.bootstrap, n_draws)
    if n_draws == n_rows:
        n_draws = max(min(1, n_rows), round(SEEN_BY_BOOTSTRAP * n_rows))
    return Sampling(bootstrap=False, n_draws=n_draws)


def keep_rows(row_secret: bytes, n_rows: int, left_out: int) -> NDArray[np.bool_]:
    """Return the rows to keep: all but a secret set with the number `left_out`; 0 keeps all.

    All trees leave out the same set, as different sets would average out over many trees. The
    size is rounded at random, so that even a party of two rows may leave one out; one row is kept.
    """
    if left_out == 0:
        return np.ones(n_rows, np.bool_)
    key = derive_key(row_secret, b"left out", left_out.to_bytes(8, "little"))
    words = expand(key, n_rows + 2)
    share, chance = (words[:2] >> np.uint64(11)).astype(np.float64) * 2.0**-53
    n_kept = int((THINNEST + (THICKEST - THINNEST) * share) * n_rows + chance)
    kept = np.zeros(n_rows, np.bool_)
    kept[np.argsort(words[2:])[: max(min(1, n_rows), n_kept)]] = True
    return kept
