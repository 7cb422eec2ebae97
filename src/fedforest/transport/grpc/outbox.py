"""Frames on their way to a stream, few at a time: a slow stream slows whoever writes to it.

Both ways between the threads are queues that wait without Python's own locks: a reply changes
threads here, and with a condition that took a few times as long.
"""

from queue import SimpleQueue

_MAX_FRAMES = 4


class Outbox:
    """A short queue between threads that ends when it is closed; iterating takes frames out."""

    def __init__(self) -> None:
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()  # None: it is closed
        self._room: SimpleQueue[None] = SimpleQueue()  # one for each frame that can be added
        self._is_closed = False
        for _ in range(_MAX_FRAMES):
            self._room.put(None)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def put(self, frame: bytes) -> bool:
        """Add a frame as soon as there is room; False if the stream has ended."""
        self._room.get()
        if self._is_closed:
            self._room.put(None)  # for the next who waits
            return False
        self._frames.put(frame)
        return True

    def close(self) -> None:
        """Wake all waiting threads; frames not taken out yet are dropped."""
        self._is_closed = True
        self._room.put(None)
        self._frames.put(None)

    def __iter__(self) -> "Outbox":
        return self

    def __next__(self) -> bytes:
        frame = self._frames.get()
        if frame is None or self._is_closed:
            self._frames.put(None)  # whoever asks again hears the same
            raise StopIteration
        self._room.put(None)
        return frame
