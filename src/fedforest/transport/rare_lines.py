"""Warnings about others that are logged once in a while: a flood of them is no flood of lines."""

import logging
import time
from dataclasses import dataclass, field

LINE_SECONDS = 5.0


@dataclass(slots=True)
class RareLine:
    """A warning that says how often it was due in all; `at_once` of them may follow each other."""

    logger: logging.Logger
    at_once: int = 1
    _n_due: int = 0
    _n_free: float = field(init=False)
    _since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._n_free = self.at_once

    def warn(self, text: str, *values: object) -> None:
        """Log it, unless it was logged often a moment ago."""
        now = time.monotonic()
        self._n_free = min(self.at_once, self._n_free + (now - self._since) / LINE_SECONDS)
        self._since = now
        self._n_due += 1
        if self._n_free >= 1:
            self._n_free -= 1
            self.logger.warning(f"{text} (%d in all)", *values, self._n_due)
