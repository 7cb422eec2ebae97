"""How surprising a vector would be if all its words were drawn uniformly."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2


def chance_of(counts: NDArray[np.integer], n_tables: int) -> float:
    """Chance that uniform draws fill equal cells at least as unevenly: Pearson's chi-square.

    `counts` are those of `n_tables` tables of as many draws each, one after the other.
    """
    expected = counts.sum() / counts.size
    distance = float(((counts - expected) ** 2).sum() / expected)
    return float(chi2.sf(distance, counts.size - n_tables))


def chance_of_words(words: NDArray[np.uint64], n_bytes: int = 8) -> float:
    """The same for the bytes of words: a table of 256 cells for each of the lowest `n_bytes`."""
    places = words.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :n_bytes]
    cells = places.astype(np.int64) + 256 * np.arange(n_bytes)
    return chance_of(np.bincount(cells.reshape(-1), minlength=256 * n_bytes), n_bytes)
