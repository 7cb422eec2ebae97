"""Sources of secret bytes for parties: the system, a seed, or the secret of one run."""

import secrets
from collections import Counter
from collections.abc import Callable
from hashlib import shake_256
from typing import Protocol

from fedforest.privacy.randomized_response import Randomness

SECRET_BYTES = 32
_PURPOSE = b"fedforest run entropy 1/"


class RandomnessSource(Protocol):
    """Secret bytes by name: two names never get the same bytes."""

    def of(self, name: str) -> Randomness:
        """Return a source of bytes for one role and purpose."""


class SystemRandomness:
    """The system's randomness for all roles or, with a seed, reproducible bytes for simulations.

    Anyone who knows the seed can compute every secret. A party on a machine of its own never has
    a seed.
    """

    def __init__(self, seed: int | None) -> None:
        self._seed = seed

    def of(self, name: str) -> Randomness:
        """Return a source of bytes for one role and purpose; names never get the same bytes."""
        return secrets.token_bytes if self._seed is None else _stream(self._seed, name)


def _stream(seed: int, name: str) -> Callable[[int], bytes]:
    n_draws = 0

    def draw(n_bytes: int) -> bytes:
        nonlocal n_draws
        n_draws += 1
        return shake_256(f"{seed}/{n_draws}/{name}".encode()).digest(n_bytes)

    return draw


class RunRandomness:
    """The secret bytes of one run, all drawn from one secret that is stored before it is used.

    A draw depends on the secret, its name, the present request, and how many draws of that name
    came before it in that request. So a replay draws the same bytes. A request that is refused
    halfway, which no replay repeats, does not change later draws. Two requests never get the same
    draw, even if a party's disk is restored to an older state and other requests follow.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._request = b""
        self._n_draws: Counter[str] = Counter()

    def begin(self, number: int, digest: bytes) -> None:
        """Set the request that draws belong to from now on."""
        self._request = number.to_bytes(8, "little") + digest
        self._n_draws.clear()

    def of(self, name: str) -> Randomness:
        """Return a source of bytes for one role and purpose; names never get the same bytes."""

        def draw(n_bytes: int) -> bytes:
            self._n_draws[name] += 1
            place = [self._secret, self._request, f"{self._n_draws[name]}/{name}".encode()]
            lengths = [len(part).to_bytes(8, "little") for part in place]
            return shake_256(b"".join([_PURPOSE, *lengths, *place])).digest(n_bytes)

        return draw
