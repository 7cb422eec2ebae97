"""Frames on their way to a stream, few at a time: a slow stream slows whoever writes to it."""

import threading
from collections import deque

_MAX_FRAMES = 4


class Outbox:
    """A short queue between threads that ends when it is closed; iterating takes frames out."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def put(self, frame: bytes) -> bool:
        """Add a frame as soon as there is room; False if the stream has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or len(self._frames) < _MAX_FRAMES)
            if self._is_closed:
                return False
            self._frames.append(frame)
            self._changed.notify_all()
            return True

    def close(self) -> None:
        """Let everybody go who waits here; what was not taken out is dropped."""
        with self._changed:
            self._is_closed = True
            self._frames.clear()
            self._changed.notify_all()

    def __iter__(self) -> "Outbox":
        return self

    def __next__(self) -> bytes:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or bool(self._frames))
            if self._is_closed:
                raise StopIteration
            frame = self._frames.popleft()
            self._changed.notify_all()
            return frame
