"""The warning that noise exceeds what it hides, from the coordinator to the caller of `fit`.

It comes with the agreement of the parties, before the first tree, in one process and live alike.
"""

import sys
import warnings

from fedforest.errors import NoiseExceedsSignalWarning
from fedforest.runtime.driver import Exchange

_PACKAGE = __name__.partition(".")[0]


def warn_of_noise(exchange: Exchange) -> None:
    """Warn the caller of `fit` if the coordinator noted that noise exceeds its signal."""
    text = exchange.note.get("warning")
    if text:
        warnings.warn(str(text), NoiseExceedsSignalWarning, stacklevel=_levels_inside())


def _levels_inside() -> int:
    """Count the frames up to the first one outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in (_PACKAGE, "contextlib")
