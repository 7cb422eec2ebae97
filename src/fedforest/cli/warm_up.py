"""`fedforest warm-up`: compile all kernels now, so that no training waits for it."""

from __future__ import annotations

import time

from fedforest.cli.terminal import AsJson, Quiet, Terminal, format_seconds


def warm_up(as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Compile all kernels, once per installation, so that no training waits for it.

    Example: fedforest warm-up
    """
    terminal = Terminal(as_json, quiet)
    from fedforest.estimators.warm_up import compile_kernels
    from fedforest.kernels.compilation import hear_of_compilation

    started, was_compiled = time.perf_counter(), False

    def note() -> None:
        nonlocal was_compiled
        was_compiled = True
        terminal.say("    compiling kernels, once per installation: this takes minutes in all")

    with hear_of_compilation(note):
        compile_kernels(lambda what: terminal.say(f"  {what}"))
    seconds = time.perf_counter() - started
    if as_json:
        terminal.show_json({"compiled": was_compiled, "seconds": round(seconds, 3)})
    else:
        done = "Compiled" if was_compiled else "Everything was compiled before; looked"
        terminal.say(f"{done} in {format_seconds(seconds)}.")
