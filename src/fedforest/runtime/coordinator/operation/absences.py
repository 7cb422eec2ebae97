"""Tell the watchers of a run which of its parties are away, within seconds of their going."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from fedforest.runtime.coordinator.jobs import Job
from fedforest.runtime.messages.results import Waiting

LOOK_SECONDS = 1.0


class Doorway(Protocol):
    """A transport whose parties come and go."""

    def connected(self) -> list[str]:
        """List the names of the connected parties."""


@contextmanager
def telling_absences(job: Job, hub: Doorway) -> Iterator[None]:
    """Tell watchers of a run of parties that went, and when all are back, until the block ends."""
    wanted = {party for party in job.order.data if party not in job.left_out}
    is_over = threading.Event()

    def look() -> None:
        told: list[str] = []
        while not is_over.wait(LOOK_SECONDS):
            missing = sorted(wanted.difference(hub.connected()))
            if missing != told:
                job.tell(Waiting(missing))
                told = missing

    thread = threading.Thread(target=look, name="fedforest-absences", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()  # no event may come after the end
