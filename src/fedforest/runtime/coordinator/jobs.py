"""A run that the coordinator's process works on, and its watchers."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fedforest.errors import FederationError, PartyLost, TooFewParties
from fedforest.runtime.event_log import log_event, severity_of
from fedforest.runtime.messages.orders import AnyRun
from fedforest.runtime.messages.results import AnyEvent, Exchanged, Progress, Told, Waiting
from fedforest.runtime.meters import METERS
from fedforest.transport.pauses import Pause

_LOG = logging.getLogger(__name__)
# Events are sent in batches: one by one, they took as much of the event loop as requests.
PACE_SECONDS = 0.05


class Watcher:
    """Receive the events of a run: all past ones first, then new ones in batches."""

    def __init__(self, history: Iterable[Told]) -> None:
        self._told = deque(history)
        self._news = Pause()
        self._over = Pause(PACE_SECONDS)
        self._error: FederationError | None = None
        if self._told:
            self._news.set()

    def tell(self, event: Told) -> None:
        self._told.append(event)
        self._news.set()

    def end(self, error: FederationError | None) -> None:
        """End the stream; `events` raises `error` after the last event."""
        self._error = error
        self._over.set()
        self._news.set()

    def events(self) -> Iterator[AnyEvent | Pause]:
        """Yield the events until the run ends, and pauses between; raises the run's error."""
        is_over = False
        while not is_over:
            yield self._news
            yield self._over  # or at most so long that events come together
            self._news = Pause()
            is_over = self._over.is_set  # read after that, or an end could be missed
            news = [self._told.popleft() for _ in range(len(self._told))]
            if news:
                yield Progress(news)
        if self._error is not None:
            raise self._error.bare()


@dataclass(slots=True)
class Job:
    """A run that this process works on, and its watchers."""

    run: bytes
    order: AnyRun
    proof: bytes = b""  # the request as its user signed it
    state: str = "queued"
    doing: str = ""
    error: FederationError | None = None  # why the run ended without a result
    watchers: list[Watcher] = field(default_factory=list)
    record: Callable[[bytes, int, Told], None] | None = None  # run, number, event
    is_to_end: bool = False
    cancelling: threading.Event = field(default_factory=threading.Event)
    left_out: frozenset[str] = frozenset()
    history: list[Told] = field(default_factory=list)
    waiting: Waiting | None = None  # the parties that the run waits for now
    lock: threading.Lock = field(default_factory=threading.Lock)
    has_ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_underway(self) -> bool:
        """Whether the run is queued or running."""
        return self.state in ("queued", "running")

    @property
    def has_begun(self) -> bool:
        """Whether the training itself has begun; parts before it, such as an alignment, do not."""
        return any(
            isinstance(event, Exchanged) and "part" not in event.note for event in self.history
        )

    @property
    def waits_for_parties(self) -> bool:
        """Whether the run is paused because parties are away, and none of them was left out."""
        is_away = isinstance(self.error, PartyLost | TooFewParties)
        return self.state == "paused" and is_away and not self.left_out

    def take_up(self) -> bool:
        """Mark a queued run as running; return False if it was not queued."""
        return self._leave_queue("running")

    def drop(self) -> bool:
        """Mark a queued run as cancelled; return False if it was not queued."""
        return self._leave_queue("cancelled")

    def _leave_queue(self, state: str) -> bool:
        with self.lock:
            if self.state != "queued":
                return False
            self.state = state
            return True

    def tell(self, event: Told) -> None:
        """Send an event to all watchers; keep exchanges for watchers that come later."""
        with self.lock:
            self.waiting = event if isinstance(event, Waiting) and event.parties else None
            if isinstance(event, Exchanged):
                self.history.append(event)
            for watcher in self.watchers:
                watcher.tell(event)
        if self.record is not None:
            self.record(self.run, len(self.history), event)

    def end(self, state: str, error: FederationError | None = None) -> None:
        """Stop the work on the run; tell all watchers, with the error if there is one.

        The error is kept bare: its frames hold the answers that the run failed on.
        """
        error = None if error is None else error.bare()
        METERS.add("fedforest_runs_ended", state)
        if state in ("paused", "failed") and error is not None:
            about = {"run": self.run.hex(), "user": self.order.asker}
            why = {"reason": type(error).__name__, "text": str(error)}
            log_event(_LOG, state, severity=severity_of(error), **about, **why)
        with self.lock:
            self.error = error
            self.state = state
            for watcher in self.watchers:
                watcher.end(error)
            self.has_ended.set()

    def watch(self) -> Watcher | None:
        """Return a watcher of all past and future events; None if the run has ended."""
        with self.lock:
            if not self.is_underway:
                return None
            now = [] if self.waiting is None else [self.waiting]
            watcher = Watcher([*self.history, *now])
            self.watchers.append(watcher)
        return watcher
