"""The holders of the shares of a sum; the coordinator and the parties derive the same ones."""

from functools import partial
from typing import NamedTuple

from fedforest.masking.key_agreement import KEY_BYTES, Randomness, derive_key, draw_bytes
from fedforest.masking.keystream import expand
from fedforest.masking.secret_shares import Words


class Holders(NamedTuple):
    """The holders of one sum's shares: participants at points 1 to n, the coordinator at n + 1."""

    participants: tuple[str, ...]
    threshold: int

    @classmethod
    def of(cls, participants: tuple[str, ...], threshold: int) -> "Holders":
        return cls(participants, min(threshold, len(participants) + 1))

    @property
    def points(self) -> range:
        return range(1, len(self.participants) + 2)

    @property
    def coordinator(self) -> int:
        """The point of the coordinator's shares."""
        return len(self.participants) + 1

    def point(self, party: str) -> int:
        return self.participants.index(party) + 1

    def without(self, party: str) -> list[str]:
        """Return the other participants, in order."""
        return [name for name in self.participants if name != party]

    @property
    def returning(self) -> tuple[str, ...]:
        """Parties that send their sum of shares: enough together with the coordinator's own."""
        return self.participants[: self.threshold - 1]


def draw_words(randomness: Randomness, digest: bytes = b"") -> Words:
    """Return a source of random words for the coefficients of one polynomial per number.

    Bound to the digest of a sum: randomness that repeats itself, at a party restored from an old
    copy, gives other polynomials to other sums.
    """
    key = derive_key(draw_bytes(randomness, KEY_BYTES), b"coefficients", digest)
    return partial(expand, key)
