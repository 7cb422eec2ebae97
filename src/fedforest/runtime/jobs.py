"""A run as the coordinator's process works on it, and those who watch it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

from fedforest.errors import PartyLost, TooFewParties
from fedforest.runtime.results import AnyEvent, Exchanged
from fedforest.runtime.trainings import AnyRun


@dataclass(slots=True)
class Job:
    """A run that this process works on, and who watches it."""

    run: bytes
    order: AnyRun
    state: str = "queued"
    doing: str = ""
    error: Exception | None = None  # why it is paused
    watchers: list["SimpleQueue[AnyEvent | BaseException | None]"] = field(default_factory=list)
    record: Callable[[bytes, int, AnyEvent], None] | None = None  # run, number, what happened
    is_to_end: bool = False
    cancelling: threading.Event = field(default_factory=threading.Event)
    left_out: frozenset[str] = frozenset()
    history: list[AnyEvent] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    has_ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_underway(self) -> bool:
        """Whether it is worked on, or will be."""
        return self.state in ("queued", "running")

    @property
    def waits_for_parties(self) -> bool:
        """Whether it is paused because parties are away that nobody has given up."""
        is_away = isinstance(self.error, PartyLost | TooFewParties)
        return self.state == "paused" and is_away and not self.left_out

    def take_up(self) -> bool:
        """Whether it still waited; from now on it is worked on."""
        return self._leave_queue("running")

    def drop(self) -> bool:
        """Whether it still waited; from now on nobody works on it."""
        return self._leave_queue("cancelled")

    def _leave_queue(self, state: str) -> bool:
        with self.lock:
            if self.state != "queued":
                return False
            self.state = state
            return True

    def tell(self, event: AnyEvent) -> None:
        """Tell everybody who watches; exchanges are kept for those who come later."""
        with self.lock:
            if isinstance(event, Exchanged):
                self.history.append(event)
            for watcher in self.watchers:
                watcher.put(event)
        if self.record is not None:
            self.record(self.run, len(self.history), event)

    def end(self, state: str, error: Exception | None = None) -> None:
        """Nobody works on it any more; whoever watches hears of it, also why."""
        with self.lock:
            self.error = error
            self.state = state
            for watcher in self.watchers:
                watcher.put(error)
            self.has_ended.set()

    def watch(self) -> "SimpleQueue[AnyEvent | BaseException | None] | None":
        """Everything told so far, and what follows; None where it has ended."""
        queue: SimpleQueue[AnyEvent | BaseException | None] = SimpleQueue()
        with self.lock:
            if not self.is_underway:
                return None
            for event in self.history:
                queue.put(event)
            self.watchers.append(queue)
        return queue
