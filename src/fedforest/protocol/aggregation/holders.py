"""Who holds which shares of a sum that is formed by secret sharing; both sides agree on it."""

from functools import partial
from typing import NamedTuple

from fedforest.masking.key_agreement import KEY_BYTES, Entropy, draw_bytes
from fedforest.masking.keystream import expand
from fedforest.masking.secret_shares import Words


class Holders(NamedTuple):
    """Where shares of one sum lie: participants at the points 1 to n, the coordinator at n + 1."""

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
        """The other participants, in order."""
        return [name for name in self.participants if name != party]

    @property
    def returning(self) -> tuple[str, ...]:
        """Who tells the coordinator its sum of shares: with its own there are enough."""
        return self.participants[: self.threshold - 1]


def draw_words(entropy: Entropy) -> Words:
    """Random words for the coefficients of one polynomial per number."""
    return partial(expand, draw_bytes(entropy, KEY_BYTES))
