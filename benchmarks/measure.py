"""How a benchmark measures: seconds and peak memory.

Rivals are timed one after the other in rotating order, so that a slow minute of the machine does
not fall on one of them alone. What a process can show only once, its peak memory and its first
fit, is measured in a fresh process. Nothing here knows what is being measured.
"""

import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parents[1]
KIB = 1024
SAMPLE_SECONDS = 0.002

Result = TypeVar("Result")


class Cost(NamedTuple):
    """Seconds on the clock, and seconds of processor over all threads and ended children."""

    wall: float
    cpu: float


class Peak(NamedTuple):
    """Highest resident memory above the level at the start, and how it was seen."""

    n_bytes: int
    method: str


def timed(work: Callable[[], Result]) -> tuple[Result, Cost]:
    """Do the work once; garbage of earlier work is collected before the clock starts."""
    gc.collect()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    result = work()
    return result, Cost(time.perf_counter() - wall, _cpu_seconds() - cpu)


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def interleave(names: Sequence[str], repeats: int) -> Iterator[tuple[int, str]]:
    """(repeat, name): every name once per repeat, each repeat starting with the next name."""
    for repeat in range(repeats):
        first = repeat % len(names)
        for name in (*names[first:], *names[:first]):
            yield repeat, name


def peak_growth(work: Callable[[], object]) -> Peak | None:
    """Peak resident memory of the work above the level at its start; None where nobody can tell.

    Linux records the highest level itself and lets it be reset, so no peak is missed. Elsewhere
    psutil samples, which a short peak can escape.
    """
    gc.collect()
    try:
        # Documented in proc(5): 5 resets the recorded peak to the present level.
        Path("/proc/self/clear_refs").write_text("5")
        before = _status_bytes("VmRSS")
    except OSError:
        return _sampled_growth(work)
    work()
    return Peak(max(0, _status_bytes("VmHWM") - before), "highest level recorded by the kernel")


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * KIB
    raise OSError(f"the kernel reports no {field}")


def _sampled_growth(work: Callable[[], object]) -> Peak | None:
    try:
        import psutil  # noqa: PLC0415  an extra that most machines never need
    except ImportError:
        return None
    process = psutil.Process()
    before = highest = process.memory_info().rss
    done = Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(SAMPLE_SECONDS):
            highest = max(highest, process.memory_info().rss)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return Peak(highest - before, f"sampled every {SAMPLE_SECONDS * 1000:.0f} ms")


def run_fresh(
    module: str, request: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run `python -m module` with the request as JSON on its input; its last line is the answer."""
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    outcome = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(request),
        env={**os.environ, "PYTHONPATH": python_path, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        raise RuntimeError(f"{module} failed in its own process:\n{outcome.stderr}")
    answer: dict[str, Any] = json.loads(outcome.stdout.splitlines()[-1])
    return answer
