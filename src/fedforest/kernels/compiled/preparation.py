"""Compile kernels before they are called, on all cores, with one line of progress.

Child processes compile, because numba compiles one kernel at a time per process. They take numbers
of listed calls from one pipe and write those that are done to another; the machine code goes to the
user's folder, from which this process loads it. Where no child can be started, this process
compiles.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from numba import config
from numba.core.errors import NumbaError

from fedforest.kernels.compiled.cache import forget_unused, trusted_user_folder
from fedforest.kernels.compiled.progress import Countdown, silence
from fedforest.kernels.compiled.signatures import Call, listed_calls

try:
    import fcntl
except ImportError:  # Windows: two processes may compile the same, which costs time only
    fcntl = None  # type: ignore[assignment] # checked before use

NO_FILE = "-"
RECORD_BYTES = 8  # of a number in the pipe; reads of one record are never torn
_FEW_SECONDS = 6.0  # of work, which may not be called for, and for which no child is started
_MOST_CHILDREN = 16  # each takes 200 MB
_WAIT_SECONDS = 600.0  # for another process that compiles the same
_prepared: set[tuple[str, ...]] = set()


def prepare(*kinds: str) -> int:
    """Compile what these kinds of work call, or all that is listed; return how many calls it were.

    Costs nothing from the second time on, and milliseconds where everything is on the disk.
    """
    if kinds in _prepared or config.DISABLE_JIT:  # type: ignore[attr-defined] # made at run time
        return 0
    _prepared.add(kinds)
    missing = find_missing(*kinds)
    is_little = sum(call.seconds for call in missing.values()) <= _FEW_SECONDS
    folder = None if not missing or (kinds and is_little) else trusted_user_folder()
    if folder is None:
        return 0
    with _alone(folder):
        missing = find_missing(*kinds)  # another process may have compiled them meanwhile
        if missing:
            compile_calls(missing)
            forget_unused(folder)
    return len(missing)


def find_missing(*kinds: str) -> dict[int, Call]:
    """The listed calls of these kinds, by number, that are neither shipped nor in the folder."""
    return {
        number: call
        for number, call in enumerate(listed_calls())
        if (not kinds or set(kinds) & set(call.kinds)) and not _is_kept(call)
    }


def _is_kept(call: Call) -> bool:
    kernel = call.find_kernel()
    return kernel is None or kernel._cache.find(call.types()) is not None


def compile_calls(calls: Mapping[int, Call], **environment: str) -> list[str]:
    """Compile listed calls in children; return the names of the files that hold them.

    A call whose types the code no longer accepts is left out. So is a call whose child was killed:
    its kernel is compiled when it is called.
    """
    countdown = Countdown("compiling kernels, once", {n: call.seconds for n, call in calls.items()})
    files = []
    for number, file in _run_children(calls, environment) or _compile_here(calls):
        countdown.finish(number)
        files += [file] if file != NO_FILE else []
    countdown.end()
    return files


def _run_children(
    calls: Mapping[int, Call], environment: Mapping[str, str]
) -> Iterator[tuple[int, str]] | None:
    """Iterate over the calls that children compile; None if no child can be started."""
    queue, fill = os.pipe()
    done, tell = os.pipe()
    os.write(fill, b"".join(b"%*d" % (RECORD_BYTES, number) for number in calls))
    os.close(fill)
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable or "python", "-P", "-m", "fedforest.kernels.compiled"]
    children: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(min(_count_cores(), len(calls), _MOST_CHILDREN)):
            # of their own session: Ctrl-C is for this process, which then ends them
            child = subprocess.Popen(
                command,
                stdin=queue,
                stdout=tell,
                env={**os.environ, "PYTHONPATH": paths, **environment},
                start_new_session=True,
            )
            children.append(child)
    except OSError:
        if not children:
            os.close(done)
            return None
    finally:
        os.close(queue)
        os.close(tell)
    return _read_done(children, done)


def _read_done(children: list[subprocess.Popen[bytes]], done: int) -> Iterator[tuple[int, str]]:
    try:
        with os.fdopen(done) as lines:
            for line in lines:
                number, file = line.split()
                yield int(number), file
    finally:
        for child in children:
            child.kill()
            child.wait()


def _compile_here(calls: Mapping[int, Call]) -> Iterator[tuple[int, str]]:
    with silence():
        for number, call in calls.items():
            yield number, compile_call(call)


def compile_call(call: Call) -> str:
    """Compile one call, or find it on the disk; return its file's name, or `NO_FILE`."""
    kernel, types = call.find_kernel(), call.types()
    try:
        kernel.compile(types)
    except (NumbaError, TypeError):  # the list is older than the code, which takes other types
        return NO_FILE
    file: Path | None = kernel._cache.find(types)
    return NO_FILE if file is None else file.name


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process prepares kernels in this folder."""
    if fcntl is None:
        yield
        return
    with (folder / ".lock").open("w") as lock:
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.1)
        yield
