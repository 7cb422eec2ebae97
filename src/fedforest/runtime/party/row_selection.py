"""Select the rows of a run: all or the aligned ones, without the held-out rows or only those.

Every party derives the same choice from the same few numbers, so that no list of rows is sent. The
choice must not depend on the release of any library: rows are drawn by hashing alone.
"""

from hashlib import shake_256

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.runtime.messages.roles import RowChoice
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.data_sets import DataSet

_PURPOSE = b"fedforest held-out rows 1/"


def take_rows(data: DataSet, choice: RowChoice | None, alignments: Alignments) -> DataSet:
    """Return the rows of a data set that a role uses; raises `DataError` if there are none."""
    if choice is None:
        return data
    rows: NDArray[np.int64] | None = None
    if choice.alignment is not None:
        rows = alignments.rows_of(choice.alignment, data)
    if choice.held_out > 0.0:
        n_rows = data.n_rows if rows is None else len(rows)
        is_held_out = hold_out(n_rows, choice.held_out, choice.seed)
        places = np.flatnonzero(is_held_out == choice.is_validation)
        rows = places if rows is None else rows[places]
    return data if rows is None else data.take(rows)


def hold_out(n_rows: int, share: float, seed: int) -> NDArray[np.bool_]:
    """Choose which of `n_rows` rows are held out: a fraction, at least one row and not all."""
    if n_rows < 2:
        raise DataError.of("validation.too_few", n_rows=n_rows)
    n_held_out = min(max(1, round(share * n_rows)), n_rows - 1)
    drawn = shake_256(_PURPOSE + seed.to_bytes(8, "little")).digest(8 * n_rows)
    order = np.argsort(np.frombuffer(drawn, "<u8"), kind="stable")
    is_held_out = np.zeros(n_rows, np.bool_)
    is_held_out[order[:n_held_out]] = True
    return is_held_out
