"""Writes down which functions of fedforest are called, in order, on all threads of a process.

A recorder sees Python functions, and compiled kernels where Python calls them: on Python 3.11 numba
tells the profiler of its dispatch (`SEES_KERNELS`; later versions have `sys.monitoring` instead).
Kernels that kernels call are part of the machine code and are not seen.
Modules, class bodies and comprehensions are no functions, and functions that a module calls while
it is imported are left out. Only the standard library is used, because `walks.py` starts a recorder
in the processes of a federation before anything else runs.
"""

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

SEES_KERNELS = sys.version_info < (3, 12)
_COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
_IS_FUNCTION = 0x0002  # CO_NEWLOCALS: neither a module nor a class body


class Call(NamedTuple):
    """A function that was called or resumed; the file is relative to the package."""

    seconds: float  # on the system's monotonic clock, which all processes share
    file: str
    function: str


class Question(NamedTuple):
    """A coordinator yielded a question to parties after so many calls."""

    request: str
    n_calls: int


class Recorder:
    """A profile function that keeps calls and questions; one for all threads."""

    def __init__(self) -> None:
        found = find_spec("fedforest")
        assert found is not None
        assert found.origin is not None
        self._package = Path(found.origin).resolve().parent
        self._place_of: dict[CodeType, tuple[str, str] | None] = {}
        self._last_ask: object = None
        self._imports = threading.local()
        self.calls: list[Call] = []
        self.questions: list[Question] = []

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if code not in self._place_of:
            self._place_of[code] = self._find_place(code)
        place = self._place_of[code]
        if place is None:
            self._note_import(frame, event)
            return
        if getattr(self._imports, "depth", 0) > 0:
            return
        if event == "call":
            self.calls.append(Call(time.monotonic(), *place))
        elif event == "return" and type(value).__name__ == "Ask" and value is not self._last_ask:
            self._last_ask = value  # generators around this one yield it again
            for request in list(value.requests.values())[:1]:
                self.questions.append(Question(type(request).__name__, len(self.calls)))

    def _note_import(self, frame: FrameType, event: str) -> None:
        """Count the modules that this thread is importing: functions they call are set-up."""
        is_module = (
            frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__"
        )
        if is_module and event in ("call", "return"):
            depth = getattr(self._imports, "depth", 0)
            self._imports.depth = max(0, depth + (1 if event == "call" else -1))

    def _find_place(self, code: CodeType) -> tuple[str, str] | None:
        path = Path(code.co_filename)
        is_function = bool(code.co_flags & _IS_FUNCTION) and code.co_name not in _COMPREHENSIONS
        if not is_function or not path.is_relative_to(self._package):
            return None
        return path.relative_to(self._package).as_posix(), code.co_qualname

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record this thread, and threads that begin in here."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def record_process(folder: Path) -> None:
    """Record this process from now on; a file of its number is written when it ends."""
    recorder = Recorder()

    def write() -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        calls = {"arguments": sys.argv[1:], "calls": list(recorder.calls)}
        (folder / f"{os.getpid()}.json").write_text(json.dumps(calls))

    atexit.register(write)
    threading.setprofile(recorder)
    sys.setprofile(recorder)
