"""Which of its rows a party lets trees see: drawn by its own randomness, told nobody."""

import numpy as np
from numpy.typing import NDArray

from fedforest.masking.key_agreement import derive_key
from fedforest.masking.keystream import expand
from fedforest.protocol.horizontal.messages import StartTrees
from fedforest.tree.rows import Sampling

THINNEST, THICKEST = 0.75, 0.95  # share of rows that are kept after a loss
SEEN_BY_BOOTSTRAP = 0.632  # share of rows


def choose_sampling(start: StartTrees, n_rows: int, *, is_private: bool) -> Sampling:
    """How each tree draws its rows; under noise a row counts once, or it would need more noise."""
    n_draws = min(start.n_draws, n_rows)
    if not (start.bootstrap and is_private):
        return Sampling(start.bootstrap, n_draws)
    if n_draws == n_rows:
        n_draws = max(min(1, n_rows), round(SEEN_BY_BOOTSTRAP * n_rows))
    return Sampling(bootstrap=False, n_draws=n_draws)


def keep_rows(row_secret: bytes, n_rows: int, left_out: int) -> NDArray[np.bool_]:
    """All rows but a part whose size nobody else knows; `left_out` is its number, 0 for none.

    It is the same part in all trees: parts of their own would average out over many trees. The
    size is rounded by chance, or a party of two rows would leave out none; one row is kept.
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
