"""Whether splits that were told can be splits at all, in one pass."""

import numpy as np

from fedforest.kernels.jit import kernel

NO_COLUMN, NO_NUMBER, NO_SIDE = 1, 2, 3  # what can be wrong with splits


@kernel
def find_wrong_split(feature, threshold, missing_left, n_columns):
    """0, or the first of the rules above that one of the splits breaks."""
    no_column, no_number, no_side = False, False, False
    for i in range(feature.shape[0]):
        no_column |= (feature[i] < 0) | (feature[i] >= n_columns)
        no_number |= np.isnan(threshold[i])
        no_side |= missing_left[i] > 1
    if no_column:
        return NO_COLUMN
    if no_number:
        return NO_NUMBER
    return NO_SIDE if no_side else 0
