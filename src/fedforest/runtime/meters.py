"""Counts of what this process did, for its metrics; there is one set of them, as there is one log.

Only names of this table are counted, and labels are kinds, states and directions that this package
defines: no label names a row, a column, a user or anything that a peer chose.
"""

import threading
from collections import defaultdict
from typing import NamedTuple


class Metric(NamedTuple):
    """What a counter means, and the labels that divide it."""

    help: str
    labels: tuple[str, ...] = ()


COUNTERS = {
    "fedforest_requests": Metric(
        "Requests that were answered, refused or failed, by their type.", ("kind", "outcome")
    ),
    "fedforest_runs_ended": Metric("Runs that came to this state.", ("state",)),
    "fedforest_exchanges": Metric("Exchanges of runs with parties."),
    "fedforest_exchange_seconds": Metric("Seconds that exchanges of runs took."),
    "fedforest_exchange_bytes": Metric("Bytes of exchanges of runs.", ("direction",)),
    "fedforest_log_events": Metric("Lines of the log, by how severe they are.", ("severity",)),
}


class Meters:
    """Counters that any thread may add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: defaultdict[str, defaultdict[tuple[str, ...], float]] = defaultdict(
            lambda: defaultdict(float)
        )

    def add(self, name: str, *labels: str, value: float = 1.0) -> None:
        """Add to a counter of the table, with the values of its labels in their order."""
        assert len(labels) == len(COUNTERS[name].labels)
        with self._lock:
            self._counts[name][labels] += value

    def read(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the counts of one counter, by the values of its labels."""
        with self._lock:
            return dict(self._counts[name])


METERS = Meters()
