"""From noisy answers back to counts of classes that a split can be scored with.

Everything here works on what was already released, so it costs no privacy.
"""

import math
from functools import lru_cache

import numpy as np

from fedforest.kernels.noise.decoding import Decoder
from fedforest.privacy.local_dp import ResponseCode

# The Lasso takes this many standard deviations of the noise off every class. Small on purpose: what
# is there by chance goes when counts are made to add up, which finds its own penalty. In simulated
# nodes (2 to 64 classes, 5 to 2000 rows) more of it was at times a little better and at times much
# worse, and so was scaling in place of the nearest counts.
PENALTY_DEVIATIONS = 0.1
_TOLERANCE = 1e-10


@lru_cache(maxsize=16)
def make_decoder(code: ResponseCode) -> Decoder:
    """Make the decoder from sums of this code's instant responses to counts of classes.

    They minimise |y - A x|^2 / 2 + penalty sqrt(rows) sum(x) over x >= 0, where y are unbiased
    numbers of rows by bit and A is the code's matrix, and are then moved to the nearest counts that
    add up to the rows.
    """
    matrix, rate = code.matrix, code.rate_if_clear
    gram = matrix.T @ matrix
    contrast = code.keep * (code.p - code.q)
    deviation = math.sqrt(rate * (1.0 - rate)) / contrast  # of a bit's number, for one row
    return Decoder(
        np.stack([np.flatnonzero(bits) for bits in matrix.T]),
        gram,
        bool((gram != np.diag(np.diag(gram))).any()),
        rate,
        1.0 / contrast,
        PENALTY_DEVIATIONS * math.sqrt(code.hashes) * deviation,
        _TOLERANCE,
    )
