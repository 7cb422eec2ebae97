"""A run as the coordinator's process works on it, and those who watch it."""

import threading
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
    is_to_end: bool = False
    left_out: frozenset[str] = frozenset()
    history: list[AnyEvent] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_underway(self) -> bool:
        """Whether it is worked on, or will be."""
        return self.state in ("queued", "running")

    @property
    def waits_for_parties(self) -> bool:
        """Whether it is paused because parties are away that nobody has given up."""
        is_away = isinstance(self.error, PartyLost | TooFewParties)
        return self.state == "paused" and is_away and not self.left_out

    def tell(self, event: AnyEvent) -> None:
        """Tell everybody who watches; exchanges are kept for those who come later."""
        with self.lock:
            if isinstance(event, Exchanged):
                self.history.append(event)
            for watcher in self.watchers:
                watcher.put(event)

    def end(self, state: str, error: Exception | None = None) -> None:
        """Nobody works on it any more; whoever watches hears of it, also why."""
        with self.lock:
            self.error = error
            self.state = state
            for watcher in self.watchers:
                watcher.put(error)

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
