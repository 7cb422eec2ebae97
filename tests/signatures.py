"""`make signatures`: record which kernels are called, and with which types, in `signatures.json`.

Every kind of training runs twice, in processes of its own. The first fills an empty cache and
measures how long each call takes to compile. In the second nothing is compiled, so numba looks for
a kernel's machine code exactly when Python calls the kernel: calls by other kernels are part of
their code. `make signatures KIND="linear"` records one kind anew and leaves the others as they are.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numba.core import event

from fedforest.kernels.compiled import preparation
from fedforest.kernels.compiled.cache import KernelCache
from fedforest.kernels.compiled.signatures import (
    Call,
    describe_arguments,
    listed_calls,
    write_calls,
)
from tests.trainings import KINDS

Record = tuple[str, str, str, float]  # module, kernel, types of arguments, seconds


class CompilationTimes(event.Listener):
    """Processor time of compiling each kernel, with those it calls, if Python called it."""

    def __init__(self) -> None:
        self._started: list[float] = []
        self.records: list[Record] = []

    def on_start(self, _: Any) -> None:
        self._started.append(time.process_time())

    def on_end(self, ended: Any) -> None:
        seconds = time.process_time() - self._started.pop()
        if not self._started:
            self.records.append(describe(ended.data["dispatcher"], ended.data["args"], seconds))


def describe(kernel: Any, arguments: Any, seconds: float = 0.0) -> Record:
    function = kernel.py_func
    return function.__module__, function.__name__, describe_arguments(arguments), seconds


def watch_loads() -> list[Record]:
    """What is looked for from now on."""
    records: list[Record] = []
    load = KernelCache.load_overload

    def record(cache: KernelCache, sig: Any, target_context: Any) -> Any:
        records.append(describe(cache._kernel, sig))
        return load(cache, sig, target_context)

    KernelCache.load_overload = record  # type: ignore[method-assign,assignment] # a recording process
    return records


def record_here(kind: str, *, compiles: bool) -> list[Record]:
    warnings.simplefilter("ignore")
    preparation.find_missing = lambda *_: {}  # children would compile what is to be measured here
    if not compiles:
        records = watch_loads()
        KINDS[kind]()
        return records
    times = CompilationTimes()
    with event.install_listener("numba:compile", times):
        KINDS[kind]()
    return times.records


def record_apart(kind: str, cache: str, *, compiles: bool) -> list[Record]:
    step = "compile" if compiles else "load"
    outcome = subprocess.run(
        [sys.executable, "-m", "tests.signatures", kind, step],
        env={**os.environ, "FEDFOREST_CACHE": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=900,
    )
    return [(*names, seconds) for *names, seconds in json.loads(outcome.stdout)]


def record_calls(cache: str, recorded: Iterable[str] = KINDS) -> Iterator[Call]:
    seconds: dict[tuple[str, str, str], float] = {}
    kinds: dict[tuple[str, str, str], list[str]] = {}
    for kind in recorded:
        started = time.perf_counter()
        for module, kernel, arguments, needed in record_apart(kind, cache, compiles=True):
            seconds[module, kernel, arguments] = needed
        for module, kernel, arguments, _ in record_apart(kind, cache, compiles=False):
            kinds.setdefault((module, kernel, arguments), []).append(kind)
        sys.stderr.write(f"{kind}: {time.perf_counter() - started:.0f} s, {len(kinds)} calls\n")
    for call, used in kinds.items():
        yield Call(*call, tuple(dict.fromkeys(used)), seconds.get(call, 0.0))


def with_kind(known: Sequence[Call], kind: str, found: Iterable[Call]) -> list[Call]:
    """The list with what one kind calls now in place of what it called."""
    calls = {
        call[:3]: call._replace(kinds=tuple(other for other in call.kinds if other != kind))
        for call in known
    }
    for call in found:
        same = calls.get(call[:3], call._replace(kinds=()))
        calls[call[:3]] = same._replace(kinds=(*same.kinds, kind))
    return [call for call in calls.values() if call.kinds]


def main() -> None:
    if len(sys.argv) == 3:
        kind, step = sys.argv[1:]
        sys.stdout.write(json.dumps(record_here(kind, compiles=step == "compile")))
        return
    with tempfile.TemporaryDirectory() as cache:
        if len(sys.argv) == 2:
            kind = sys.argv[1]
            write_calls(with_kind(listed_calls(), kind, record_calls(cache, [kind])))
        else:
            write_calls(list(record_calls(cache)))


if __name__ == "__main__":
    main()
