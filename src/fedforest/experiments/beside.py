"""Our figures beside a paper's: means with spread, differences, and one verdict for all tables."""

import math
from typing import NamedTuple

from fedforest.experiments.findings import NOTHING
from fedforest.experiments.record import Key, Record
from fedforest.experiments.statistics import Interval, paired_interval

SAME, HIGHER, LOWER, NOT_MEASURED = "same", "higher", "lower", "not measured"
LEAST_SPREAD = 0.005  # of a printed value, where the paper gives none: its last digits


class Printed(NamedTuple):
    """A value as a paper prints it, with its standard deviation where it has one."""

    mean: float
    spread: float | None = None

    def tell(self) -> str:
        return f"{self.mean:g}" if self.spread is None else f"{self.mean:g} ± {self.spread:g}"


def tell_mean(record: Record, key: Key, quantity: str = "score", digits: int = 4) -> str:
    """Tell the mean and its spread between repetitions."""
    values = record.values(*key, quantity=quantity)
    if len(values) == 0:
        return NOTHING
    spread = f" ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"


def apart(record: Record, one: Key, other: Key, quantity: str = "score") -> Interval | None:
    """Return one less the other by repetition; None without two common repetitions."""
    first, second = record.paired(one, other, quantity=quantity)
    return paired_interval(first, second) if len(first) >= 2 else None


def tell_interval(interval: Interval | None, digits: int = 4) -> str:
    if interval is None:
        return NOTHING
    mean, low, high = (f"{value:+.{digits}f}" for value in interval)
    return f"{mean} ({low} to {high})"


def compare(
    record: Record, key: Key, printed: Printed | None, quantity: str = "score"
) -> list[str]:
    """Return cells: printed, ours, its repetitions, ours less printed, and the verdict.

    The same: within twice the spread of both, which a single run of either would have.
    """
    values = record.values(*key, quantity=quantity)
    told = printed.tell() if printed else NOTHING
    ours = tell_mean(record, key, quantity)
    if len(values) == 0:
        return [told, NOTHING, "0", NOTHING, NOT_MEASURED]
    n = str(len(values))
    if printed is None:
        return [told, ours, n, NOTHING, NOTHING]
    difference = float(values.mean()) - printed.mean
    our_spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    their_spread = LEAST_SPREAD if printed.spread is None else printed.spread
    allowed = 2 * math.hypot(our_spread, their_spread)
    verdict = SAME if abs(difference) <= allowed else HIGHER if difference > 0 else LOWER
    return [told, ours, n, f"{difference:+.4f}", verdict]


COMPARED = ("printed", "ours", "repetitions", "difference", "verdict")
COMPARED_NOTE = (
    "Ours: mean ± standard deviation over the repetitions. Verdict *same*: the difference is "
    "within twice the combined standard deviation of both."
)
