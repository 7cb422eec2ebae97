"""The progress line of compilation.

Lines go to the standard error stream, unless a service or a progress bar takes them.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_REPEAT_SECONDS = 10.0  # where lines cannot be rewritten

_tell: Callable[[str], None] | None = None  # None: the standard error stream
_silent = False
_noted: set[str] = set()
_n_unforeseen = 0
_last_noted = float("-inf")


@contextmanager
def telling(tell: Callable[[str], None]) -> Iterator[None]:
    """Pass the lines to `tell` instead, which is called on the waiting thread."""
    global _tell  # noqa: PLW0603 - kernels are compiled from anywhere, and have one process to tell
    before, _tell = _tell, tell
    try:
        yield
    finally:
        _tell = before


@contextmanager
def silence() -> Iterator[None]:
    """Say nothing about single kernels: the caller says how far all of them are."""
    global _silent  # noqa: PLW0603 - see `telling`
    before, _silent = _silent, True
    try:
        yield
    finally:
        _silent = before


def note_once(text: str) -> None:
    """Say that kernels must be compiled again in the next process, and why."""
    if text not in _noted:
        _noted.add(text)
        _say(f"{text}; every process compiles its own")


def note_compilation(kernel: str) -> None:
    """Say that a kernel is compiled that nothing has prepared, at most every ten seconds."""
    global _n_unforeseen, _last_noted  # noqa: PLW0603 - see `telling`
    _n_unforeseen += 1
    if not _silent and time.monotonic() >= _last_noted + _REPEAT_SECONDS:
        _last_noted = time.monotonic()
        count = f"{_n_unforeseen} so far, now {kernel}"
        _say(f"compiling kernels for a kind of table or training seen the first time: {count}")


class Countdown:
    """One line about work of known parts: how many are done, and how long the others will take.

    A terminal or a notebook sees one line that changes, a log a line every ten seconds.
    """

    def __init__(self, what: str, seconds_by_part: dict[int, float]) -> None:
        self._what = what
        self._waiting = dict(seconds_by_part)
        self._n_parts = len(seconds_by_part)
        self._total = sum(seconds_by_part.values())
        self._started = self._shown = time.monotonic()
        self._show("")

    def finish(self, part: int) -> None:
        """Count a part as done."""
        del self._waiting[part]
        left = sum(self._waiting.values())
        elapsed = time.monotonic() - self._started
        seconds = elapsed * left / max(self._total - left, 1e-9)
        if self._rewrites or time.monotonic() >= self._shown + _REPEAT_SECONDS:
            self._show(f", about {seconds:.0f} s left")

    def end(self) -> None:
        """Say how long it took."""
        seconds = time.monotonic() - self._started
        done = self._n_parts - len(self._waiting)
        self._write(f"{self._what}: {done} of {self._n_parts} in {seconds:.0f} s", "\n")

    @property
    def _rewrites(self) -> bool:
        if _tell is not None or sys.stderr is None:
            return False
        return sys.stderr.isatty() or "ipykernel" in type(sys.stderr).__module__

    def _show(self, rest: str) -> None:
        self._shown = time.monotonic()
        done = self._n_parts - len(self._waiting)
        text = f"{self._what}: {done} of {self._n_parts}{rest}"
        self._write(text, "" if self._rewrites else "\n")

    def _write(self, text: str, end: str) -> None:
        _say(f"{text:<78}" if self._rewrites else text, "\r" if self._rewrites else "", end)


def _say(text: str, start: str = "", end: str = "\n") -> None:
    if _tell is not None:
        _tell(text)
    elif sys.stderr is not None:  # a service without a console has none
        sys.stderr.write(f"{start}fedforest: {text}{end}")
        sys.stderr.flush()
