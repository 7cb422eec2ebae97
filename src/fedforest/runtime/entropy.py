"""Where the secrets of parties come from: the system, a seed, or the secret of one run."""

import secrets
from collections import Counter
from collections.abc import Callable
from hashlib import shake_256
from typing import Protocol

from fedforest.privacy.randomized_response import Entropy

SECRET_BYTES = 32
_PURPOSE = b"fedforest run entropy 1/"


class EntropySource(Protocol):
    """Secure bytes by name: no two names share any."""

    def of(self, name: str) -> Entropy:
        """Bytes for one role and purpose."""


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


class RunEntropies:
    """What is drawn in one run, all of it from one secret that is stored before it is used.

    A draw depends on the secret, its name, the request that is being handled, and how many draws of
    that name came before it in that request. So a replay draws the same; a request that was refused
    halfway, which no replay repeats, leaves no trace in what later ones draw; and two requests
    never share a draw, not even if a party's disk is set back and others come in their place.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._request = b""
        self._n_draws: Counter[str] = Counter()

    def begin(self, number: int, digest: bytes) -> None:
        """From now on this request is handled; before the first one there is none."""
        self._request = number.to_bytes(8, "little") + digest
        self._n_draws.clear()

    def of(self, name: str) -> Entropy:
        """Bytes for one role and purpose; no two names share any."""

        def draw(n_bytes: int) -> bytes:
            self._n_draws[name] += 1
            place = [self._secret, self._request, f"{self._n_draws[name]}/{name}".encode()]
            lengths = [len(part).to_bytes(8, "little") for part in place]
            return shake_256(b"".join([_PURPOSE, *lengths, *place])).digest(n_bytes)

        return draw
