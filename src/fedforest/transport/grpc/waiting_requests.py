"""The complete requests that wait for a party's worker, limited in number and bytes.

They outlive the stream that brought them, so that a coordinator that comes again and again cannot
pile them up.
"""

import threading
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

_MOST = 64

Stream = TypeVar("Stream")


class WaitingRequest(NamedTuple, Generic[Stream]):
    """A request, and the stream that its reply goes to."""

    stream: Stream
    request_id: int
    data: bytes


class WaitingRequests(Generic[Stream]):
    """A queue between the thread that reads and the one that answers."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._counting = threading.Lock()
        self._queue: SimpleQueue[WaitingRequest[Stream] | None] = SimpleQueue()

    def put(self, stream: Stream, request_id: int, data: bytes) -> bool:
        """Add a request; False if too many wait, or too large ones."""
        with self._counting:
            if self._queue.qsize() >= _MOST or self._n_bytes + len(data) > self._max_bytes:
                return False
            self._n_bytes += len(data)
        self._queue.put(WaitingRequest(stream, request_id, data))
        return True

    def get(self) -> WaitingRequest[Stream] | None:
        """Wait for the next request; None when there will be no more."""
        request = self._queue.get()
        if request is not None:
            with self._counting:
                self._n_bytes -= len(request.data)
        return request

    def close(self) -> None:
        """Let the thread that answers end."""
        self._queue.put(None)
