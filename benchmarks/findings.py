"""What a result file says, before anyone decides how it looks: titled tables and plain verdicts."""

import math
from collections.abc import Sequence
from statistics import variance
from typing import NamedTuple

REACHED = "reached"
MISSED = "missed"
NOT_JUDGED = "not judged"
NOTHING = "–"


class Finding(NamedTuple):
    """One table of text cells with what a reader must know about it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def verdict(*, reached: bool) -> str:
    """The word that stands beside a target."""
    return REACHED if reached else MISSED


def digits(value: float) -> str:
    """Three digits that count: 0.0123, 1.20, 45.6, 789, 1,234."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:#.3g}".rstrip(".")


def seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{digits(value)} s"


def milliseconds(value: float | None) -> str:
    return NOTHING if value is None else f"{digits(value * 1000)} ms"


def megabytes(value: float | None) -> str:
    return NOTHING if value is None else f"{digits(value / 1e6)} MB"


def times(value: float | None) -> str:
    """A ratio, as in 12.5×."""
    return NOTHING if value is None else f"{value:.1f}×"


def difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Difference of two means, with its standard error where there is more than one value each."""
    apart = f"{mean(ours) - mean(theirs):+.4f}"
    if min(len(ours), len(theirs)) < 2:
        return apart
    error = math.sqrt(sum(variance(values) / len(values) for values in (ours, theirs)))
    return f"{apart} ± {error:.4f}"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
