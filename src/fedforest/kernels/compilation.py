"""When kernels are compiled: at their first use after an installation, for a minute or more.

Compiled kernels are kept on the disk, so it happens once; whoever waits for it should hear why.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from fedforest.kernels.partition import move_rows

COMPILING = "compiling kernels, once per installation"


def cache_path() -> str | None:
    """The folder that compiled kernels are kept in; None where compiling is switched off."""
    return move_rows.stats.cache_path if hasattr(move_rows, "stats") else None


@contextmanager
def hear_of_compilation(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` when the first kernel is compiled in here; those read from the disk do not count.

    It is called on the thread that compiles.
    """
    with event.install_listener("numba:compile", _Once(tell)):
        yield


class _Once(event.Listener):
    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell: Callable[[], None] | None = tell

    def on_start(self, _: Any) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()

    def on_end(self, _: Any) -> None:
        """Others may follow."""
