"""Hypothesis strategies that several test modules share."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

# around the 512 rows that binning handles as one block
BLOCK_SIZES = (1, 2, 3, 17, 511, 512, 513, 1025)


@st.composite
def numeric_columns(draw: st.DrawFn, n_rows: int, dtype: type = np.float64) -> NDArray[Any]:
    """A column that may be constant, tied, skewed, continuous or wild, with gaps and infinities."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    shape = draw(st.sampled_from(["constant", "few", "tied", "even", "skewed", "heavy", "wild"]))
    if shape == "constant":
        column = np.full(n_rows, draw(st.floats(-1e6, 1e6)))
    elif shape == "few":
        column = rng.integers(0, draw(st.integers(1, 300)), n_rows) / 8
    elif shape == "tied":
        column = np.where(rng.random(n_rows) < 0.8, 0.0, rng.standard_normal(n_rows))
    elif shape == "even":
        column = rng.random(n_rows)
    elif shape == "skewed":
        column = np.exp(8 * rng.standard_normal(n_rows))
    elif shape == "heavy":
        column = rng.standard_cauchy(n_rows)
    else:
        pool = draw(st.lists(st.floats(allow_nan=False), min_size=1, max_size=30))
        column = rng.choice(pool, n_rows)
    column[rng.random(n_rows) < draw(st.sampled_from([0, 0, 0.2, 1]))] = np.nan
    column[rng.random(n_rows) < draw(st.sampled_from([0, 0, 0.1]))] = np.inf
    column[rng.random(n_rows) < draw(st.sampled_from([0, 0, 0.1]))] = -np.inf
    with np.errstate(over="ignore"):
        return column.astype(dtype)
