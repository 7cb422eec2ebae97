"""Numbers of a table as they are: rounded to float32, column after column, and which are missing.

The columns of a C-ordered table share cache lines: they are read together, by blocks of rows that
stay in the first cache (see `binning.Cells`).
"""

import numpy as np

from fedforest.kernels.jit import kernel

ROWS_TOGETHER = 64

_ZERO = np.uint64(0)


@kernel
def find_missing(cells, n_rows):
    """Per column whether one of its n_rows values is missing."""
    memory, row_step, starts = cells.memory, np.uint64(cells.row_step), cells.starts
    is_missing = np.zeros(starts.shape[0], np.bool_)
    for begin in range(0, n_rows, ROWS_TOGETHER):
        n = np.uint64(min(ROWS_TOGETHER, n_rows - begin))
        for column in range(starts.shape[0]):
            at, found = np.uint64(starts[column]) + np.uint64(begin) * row_step, False
            for _ in range(_ZERO, n):
                found |= memory[at] != memory[at]
                at += row_step
            is_missing[column] |= found
    return is_missing


@kernel
def round_columns(cells, features, values, first, last):
    """Copy the rows first..last of every column to values[features[column]]; values is float32.

    Values beyond float32 become infinite.
    """
    memory, row_step, starts = cells.memory, np.uint64(cells.row_step), cells.starts
    for begin in range(first, last, ROWS_TOGETHER):
        end = min(last, begin + ROWS_TOGETHER)
        for column in range(starts.shape[0]):
            target, at = values[features[column]], np.uint64(starts[column])
            for row in range(np.uint64(begin), np.uint64(end)):
                target[row] = np.float32(memory[at + row * row_step])
