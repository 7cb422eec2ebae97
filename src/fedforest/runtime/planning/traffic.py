"""Planned exchanges: which request goes to whom, with how many bytes there and back."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

ENVELOPE = 12  # bytes around the contents of a message


@dataclass(slots=True)
class Traffic:
    """The exchanges of a run, added up."""

    to: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    back: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    n_exchanges: float = 0.0
    n_asked: float = 0.0  # requests
    line_bytes: float = 0.0  # in each exchange those of the party that has most

    def exchange(
        self,
        request: str,
        to: Mapping[str, float],
        back: Mapping[str, float] | None = None,
    ) -> None:
        """Add one exchange: the contents of requests and replies, by party."""
        back = back or {}
        for party, n_bytes in to.items():
            self.to[party][request] += round(n_bytes + ENVELOPE)
            self.back[party][request] += round(back.get(party, 0.0) + ENVELOPE)
        self.n_exchanges += 1
        self.n_asked += len(to)
        each = (n_bytes + back.get(party, 0.0) for party, n_bytes in to.items())
        self.line_bytes += max(each, default=0.0) + 2 * ENVELOPE

    def add(self, other: "Traffic", times: int = 1) -> None:
        """Add the exchanges of `other`, so many times."""
        for party, requests in other.to.items():
            for request, n_bytes in requests.items():
                self.to[party][request] += times * n_bytes
                self.back[party][request] += times * other.back[party][request]
        self.n_exchanges += times * other.n_exchanges
        self.n_asked += times * other.n_asked
        self.line_bytes += times * other.line_bytes

    def bytes_to(self) -> dict[str, int]:
        """Return the bytes to each party."""
        return {party: sum(requests.values()) for party, requests in self.to.items()}

    def bytes_from(self) -> dict[str, int]:
        """Return the bytes from each party."""
        return {party: sum(requests.values()) for party, requests in self.back.items()}
