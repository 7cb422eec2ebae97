"""`n_jobs` and `random_state` checked where they are used: as a number of threads, as a seed."""

import os
import secrets
from typing import Any

import numpy as np

from fedforest.estimators.inputs.parameters import N_JOBS, RANDOM_STATE


def count_workers(n_jobs: int | None) -> int:
    """Threads to use: None means one, -1 all cores, as in scikit-learn."""
    N_JOBS.check("n_jobs", n_jobs)
    if n_jobs is None:
        return 1
    if n_jobs > 0:
        return int(n_jobs)
    cores = os.cpu_count() or 1  # asks the system
    return max(1, cores + 1 + int(n_jobs))


def draw_seed(random_state: Any) -> int:
    """Return the root seed; without a random state, from the system's randomness."""
    RANDOM_STATE.check("random_state", random_state)
    if random_state is None:
        return secrets.randbits(63)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)
