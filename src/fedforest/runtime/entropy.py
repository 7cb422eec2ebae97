"""Where the secrets of parties in this process come from."""

import secrets
from collections.abc import Callable
from hashlib import shake_256

from fedforest.privacy.randomized_response import Entropy


class Entropies:
    """The system's entropy for everybody or, with a seed, reproducible streams for simulations.

    With a seed whoever knows it can compute every secret. A party on a machine of its own never has
    one.
    """

    def __init__(self, seed: int | None) -> None:
        self._seed = seed

    def of(self, name: str) -> Entropy:
        """Bytes for one role and purpose; no two names share any."""
        return secrets.token_bytes if self._seed is None else _stream(self._seed, name)


def _stream(seed: int, name: str) -> Callable[[int], bytes]:
    n_draws = 0

    def draw(n_bytes: int) -> bytes:
        nonlocal n_draws
        n_draws += 1
        return shake_256(f"{seed}/{n_draws}/{name}".encode()).digest(n_bytes)

    return draw
