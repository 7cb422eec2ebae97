"""Which of the queued runs begin now: fair among users, and within limits of runs at a time.

A run whose party is away takes no turn, before it begins and while it waits for the party. Of the
others the next one is of the user who has the fewest under way, then of the one who was served
longest ago, then the oldest. A run that waits for a busy party keeps its place there: no later run
of that party goes before it.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

_LOOK_SECONDS = 0.1  # between looks whether who waits for memory was cancelled


class Candidate(NamedTuple):
    """A run that waits for its turn, or is under way."""

    run: bytes
    user: str
    parties: frozenset[str]


def choose_turns(
    waiting: Sequence[Candidate],
    active: Collection[Candidate],
    served: Mapping[str, int],
    limits: tuple[int, int],
) -> list[Candidate]:
    """Return the runs that begin now.

    `waiting` are in the order they came, `served` numbers when each user's last run began, `limits`
    are the most runs at a time, in all and at one party.
    """
    most, most_of_party = limits
    remaining, chosen = list(waiting), list[Candidate]()
    of_user = Counter(run.user for run in active)
    of_party = Counter(party for run in active for party in run.parties)
    while remaining and len(active) + len(chosen) < most:
        first = min(remaining, key=lambda run: (of_user[run.user], served.get(run.user, -1)))
        remaining.remove(first)
        if all(of_party[party] < most_of_party for party in first.parties):
            chosen.append(first)
            of_user[first.user] += 1
        of_party.update(first.parties)  # also of one that waits: it keeps its place
    return chosen


class MemoryGauge:
    """The memory that runs under way have planned; one more waits until there is room."""

    def __init__(self, most_bytes: int | None = None) -> None:
        self._most = half_the_memory() if most_bytes is None else most_bytes
        self._held: dict[bytes, int] = {}
        self._changed = threading.Condition()

    def take(self, run: bytes, n_bytes: int, is_over: Callable[[], bool]) -> None:
        """Wait for room, or until no other run is under way, or `is_over`."""
        with self._changed:
            while not is_over() and self._held and self._total() + n_bytes > self._most:
                self._changed.wait(_LOOK_SECONDS)
            self._held[run] = n_bytes

    def release(self, run: bytes) -> None:
        """Let the next run begin."""
        with self._changed:
            self._held.pop(run, None)
            self._changed.notify_all()

    def _total(self) -> int:
        return sum(self._held.values())


def half_the_memory() -> int:
    """Return half the memory of this machine; no limit where the system does not tell it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 2**62
