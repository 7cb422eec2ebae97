"""`fedforest warm-up`: compile all kernels now, so that no training waits for it."""

from __future__ import annotations

import time
from contextlib import ExitStack

from fedforest.cli.terminal import AsJson, Quiet, Terminal
from fedforest.reports.formats import format_seconds


def warm_up(as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Compile all kernels, once per machine, so that no training waits for it.

    Example: fedforest warm-up
    """
    terminal = Terminal(as_json, quiet)
    from fedforest.kernels.compiled.preparation import prepare
    from fedforest.kernels.compiled.progress import telling

    started = time.perf_counter()
    with ExitStack() as stack:
        if quiet:
            stack.enter_context(telling(lambda _: None))
        n_compiled = prepare()
    seconds = time.perf_counter() - started
    if as_json:
        terminal.show_json({"compiled": n_compiled, "seconds": round(seconds, 3)})
    elif n_compiled:
        terminal.say(f"Compiled {n_compiled} kernels in {format_seconds(seconds)}.")
    else:
        terminal.say(f"All kernels were compiled before; looked in {format_seconds(seconds)}.")
