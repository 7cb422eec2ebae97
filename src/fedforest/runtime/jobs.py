"""A run as the coordinator's process works on it, and those who watch it."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fedforest.errors import PartyLost, TooFewParties
from fedforest.runtime.orders import AnyRun
from fedforest.runtime.results import AnyEvent, Exchanged, Progress, Told, Waiting

# Nobody looks more often; told one by one, events took as much of the event loop as requests.
PACE_SECONDS = 0.05


class Watcher:
    """Somebody who watches a run: hears everything so far, then what is new, several at a time."""

    def __init__(self, history: Iterable[Told]) -> None:
        self._told = deque(history)
        self._has_news = threading.Event()
        self._is_over = threading.Event()
        self._error: Exception | None = None
        if self._told:
            self._has_news.set()

    def tell(self, event: Told) -> None:
        self._told.append(event)
        self._has_news.set()

    def end(self, error: Exception | None) -> None:
        """There will be no more; an error is raised where the others were told."""
        self._error = error
        self._is_over.set()
        self._has_news.set()

    def events(self) -> Iterator[AnyEvent]:
        """What is told until the end of the run."""
        is_over = False
        while not is_over:
            self._has_news.wait()
            self._is_over.wait(PACE_SECONDS)
            self._has_news.clear()
            is_over = self._is_over.is_set()  # after that: an end in between would be unheard
            news = [self._told.popleft() for _ in range(len(self._told))]
            if news:
                yield Progress(news)
        if self._error is not None:
            raise self._error


@dataclass(slots=True)
class Job:
    """A run that this process works on, and who watches it."""

    run: bytes
    order: AnyRun
    state: str = "queued"
    doing: str = ""
    error: Exception | None = None  # why it is paused
    watchers: list[Watcher] = field(default_factory=list)
    record: Callable[[bytes, int, Told], None] | None = None  # run, number, what happened
    is_to_end: bool = False
    cancelling: threading.Event = field(default_factory=threading.Event)
    left_out: frozenset[str] = frozenset()
    history: list[Told] = field(default_factory=list)
    waiting: Waiting | None = None  # for whom, at this moment
    lock: threading.Lock = field(default_factory=threading.Lock)
    has_ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_underway(self) -> bool:
        """Whether it is worked on, or will be."""
        return self.state in ("queued", "running")

    @property
    def has_begun(self) -> bool:
        """Whether its training has: parts that come before it, such as an alignment, do not."""
        return any(
            isinstance(event, Exchanged) and "part" not in event.note for event in self.history
        )

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

    def tell(self, event: Told) -> None:
        """Tell everybody who watches; exchanges are kept for those who come later."""
        with self.lock:
            self.waiting = event if isinstance(event, Waiting) else None
            if isinstance(event, Exchanged):
                self.history.append(event)
            for watcher in self.watchers:
                watcher.tell(event)
        if self.record is not None:
            self.record(self.run, len(self.history), event)

    def end(self, state: str, error: Exception | None = None) -> None:
        """Nobody works on it any more; whoever watches hears of it, also why."""
        with self.lock:
            self.error = error
            self.state = state
            for watcher in self.watchers:
                watcher.end(error)
            self.has_ended.set()

    def watch(self) -> Watcher | None:
        """Everything told so far, and what follows; None where it has ended."""
        with self.lock:
            if not self.is_underway:
                return None
            now = [] if self.waiting is None else [self.waiting]
            watcher = Watcher([*self.history, *now])
            self.watchers.append(watcher)
        return watcher
