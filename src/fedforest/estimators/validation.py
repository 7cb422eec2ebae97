"""Checks of what a user passes in, shared by all estimators.

Every refusal names the argument, says what is wrong and what to do, and shows no label or value.
"""

import os
import secrets
from numbers import Integral
from typing import Any

import numpy as np

from fedforest.errors import ConfigurationError

LARGEST_SEED = 2**63


def count_workers(n_jobs: int | None) -> int:
    """Threads to use: None means one, -1 all cores, as in scikit-learn."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ConfigurationError(
            f"n_jobs is {n_jobs!r}; it must be a positive whole number, or -1 for all cores."
        )
    if n_jobs > 0:
        return int(n_jobs)
    cores = os.cpu_count() or 1  # asks the system
    return max(1, cores + 1 + int(n_jobs))


def check_seed(random_state: int, more: str = "") -> int:
    """A root seed: a whole number that is not negative; `more` says what else is allowed."""
    is_whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if not is_whole or not 0 <= random_state < LARGEST_SEED:
        raise ConfigurationError(
            f"random_state is {random_state!r}; it must be a whole number from 0 to 2^63 - 1{more}."
        )
    return int(random_state)


def draw_seed(random_state: Any) -> int:
    """The root seed; without a random state, from the system's entropy."""
    if random_state is None:
        return secrets.randbits(63)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return check_seed(random_state, ", None or a numpy.random.RandomState")


def check_choice(name: str, value: Any, choices: tuple[str, ...], more: str = "") -> None:
    """One of these words; `more` says what else is allowed."""
    if not (isinstance(value, str) and value in choices):
        allowed = ", ".join(map(repr, choices))
        raise ConfigurationError(f"{name} is {value!r}; it must be one of {allowed}{more}.")


def check_verbose(verbose: Any) -> None:
    """How much training shows."""
    if not isinstance(verbose, Integral) or verbose < 0:
        raise ConfigurationError(
            f"verbose is {verbose!r}; it must be 0 for silence or 1 for a progress bar."
        )


def check_transport(transport: Any) -> None:
    """Where parties are: in this process, or in a federation that a profile leads to."""
    if transport is not None and not (isinstance(transport, str) and transport):
        raise ConfigurationError(
            f"transport is {transport!r}; it must be None for parties in this process, or the "
            "name, folder or address of a profile."
        )
