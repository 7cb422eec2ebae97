"""The progress of a run, worked out from its events, for terminals and pages.

Time left is guessed only where the depth of trees is known: from `max_depth`, or from batches of
trees that are complete.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedforest.reports.formats import format_bytes, format_seconds
from fedforest.runtime.messages.results import Exchanged, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedforest.runtime.messages.results import News

_LEAST_SHARE = 0.02  # of the work; before that nothing can be said about the rest


@dataclass(slots=True)
class RunProgress:
    """The state of a run, from the events received so far."""

    n_trees: int
    max_depth: int | None = None
    clock: Callable[[], float] = time.monotonic
    doing: str = "waiting its turn"
    trees: range = range(0)  # that grow at this moment
    level: int | None = None  # of the deepest open nodes
    open_nodes: int = 0
    n_heard: int = 0  # events of any kind
    is_anybody_away: bool = False  # and the run waits for them
    n_exchanges: int = 0
    n_bytes: int = 0
    oob_score: float | None = None
    _seconds: float = 0.0  # of exchanges; those before watching began included
    _deepest: int = 0  # level of batches that are complete
    part: str = ""  # of the run, such as its alignment
    pieces: tuple[int, int] | None = None  # of lists of ids: done, and all
    warning: str = ""  # that came with the last exchange
    _first_step: int | None = None  # of this level: further ones ask nodes again
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def hear(self, event: News) -> None:
        """One more event."""
        self.n_heard += 1
        self.is_anybody_away = isinstance(event, Waiting) and bool(event.parties)
        if isinstance(event, Waiting):
            names = ", ".join(event.parties)
            away = f"waiting for {names}, not connected to the coordinator"
            self.doing = away if names else "all parties are connected again"
        elif isinstance(event, Exchanged):
            self._hear_exchange(event)

    def _hear_exchange(self, event: Exchanged) -> None:
        self.n_exchanges += 1
        self.n_bytes += sum(event.bytes_to.values()) + sum(event.bytes_from.values())
        self._seconds += event.seconds
        note = event.note
        self.warning = str(note.get("warning", ""))
        self.oob_score = note.get("oob_score", self.oob_score)
        part = f"{note['part']}: " if "part" in note else ""
        if part != self.part:  # trees and levels begin anew in every part
            self.part, self.trees, self.level, self._deepest = part, range(0), None, 0
            self._since, self._seconds = self.clock() - event.seconds, event.seconds
        self.pieces = (note["done"], note["total"]) if "total" in note else None
        if "level" not in note:
            self.doing = part + name_step(event.request)
            return
        trees = range(*note["trees"])
        if self.level is not None and trees.start > self.trees.start:
            self._deepest = max(self._deepest, self.level)
        if (trees, note["level"]) != (self.trees, self.level):
            self._first_step = note.get("step")
        self.trees, self.level, self.open_nodes = trees, note["level"], note["open_nodes"]
        nodes = "node" if self.open_nodes == 1 else "nodes"
        # a node whose candidates could not split it is asked about again, with others
        again = " again" if note.get("step") != self._first_step else ""
        self.doing = f"{part}level {self.level}{again}, {self.open_nodes} open {nodes}"

    @property
    def share(self) -> float | None:
        """Estimate the fraction of the growing, or of the comparing of ids, that is done."""
        if self.pieces is not None:
            return self.pieces[0] / max(1, self.pieces[1])
        depth = self.max_depth or self._deepest
        if self.level is None or not depth:
            return None
        grown = self.trees.start + len(self.trees) * min(1.0, self.level / depth)
        return min(1.0, grown / max(1, self.n_trees))

    @property
    def seconds_left(self) -> float | None:
        """Estimate from the time that growing took so far; None if the depth is unknown."""
        share = self.share
        if share is None or share < _LEAST_SHARE:
            return None
        spent = max(self._seconds, self.clock() - self._since)
        return spent * (1.0 - share) / share

    def describe(self) -> str:
        """Return all of it on one line."""
        parts = [self.doing]
        if 0 < len(self.trees) < self.n_trees:
            parts.append(f"trees {self.trees.start + 1}-{self.trees.stop} of {self.n_trees}")
        if self.pieces is not None and self.share is not None:
            parts.append(f"{self.share:.0%} of the ids")
        parts.append("1 exchange" if self.n_exchanges == 1 else f"{self.n_exchanges} exchanges")
        parts.append(format_bytes(self.n_bytes))
        if self.oob_score is not None:
            parts.append(f"out-of-bag score {self.oob_score:.4f}")
        if self.seconds_left is not None:
            parts.append(f"about {format_seconds(self.seconds_left)} left")
        return ", ".join(parts)


def name_step(request: str) -> str:
    """`ShareLabels` as words."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", request).lower()
