"""Waits of a call that hold no thread.

Whoever makes the events of a call yields a `Pause` where it has to wait. A transport that answers
many calls gives the thread to others until then; `block` waits in the place of a transport.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Event = TypeVar("Event")


class Pause:
    """A wait until `set` is called or, with `seconds`, at most so long."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._is_set = threading.Event()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_set(self) -> bool:
        """Whether the wait is over."""
        return self._is_set.is_set()

    def set(self) -> None:
        """End the wait, for good."""
        with self._lock:
            self._is_set.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_set(self, callback: Callable[[], None]) -> None:
        """Call back when the wait ends, at once if it has; on the thread that ends it."""
        with self._lock:
            if not self.is_set:
                self._callbacks.append(callback)
                return
        callback()

    def wait(self) -> None:
        """Wait on this thread."""
        self._is_set.wait(self.seconds)


def block(events: Iterable[Event | Pause]) -> Iterator[Event]:
    """Yield events, and wait on this thread where they pause."""
    for event in events:
        if isinstance(event, Pause):
            event.wait()
        else:
            yield event
