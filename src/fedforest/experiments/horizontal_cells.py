"""Comparison of two methods of the horizontal experiments, as cells of a table."""

from fedforest.experiments.findings import NOTHING
from fedforest.experiments.horizontal_record import HorizontalDataSetRecord
from fedforest.experiments.statistics import Interval, paired_interval


def apart(record: HorizontalDataSetRecord, one: str, other: str) -> Interval | None:
    """The score of one method less that of the other; None without two common repetitions."""
    if record.n_repetitions(one, other) < 2:
        return None
    first, second = record.paired(one, other)
    return paired_interval(first, second)


def mean_of(record: HorizontalDataSetRecord, method: str, quantity: str = "score") -> float:
    """Return the mean of a quantity over a method's repetitions."""
    (values,) = record.paired(method, quantity=quantity)
    return float(values.mean())


def tell_interval(interval: Interval | None) -> list[str]:
    """Two cells: its mean, and its ends."""
    if interval is None:
        return [NOTHING, NOTHING]
    return [f"{interval.mean:+.4f}", f"{interval.low:+.4f} to {interval.high:+.4f}"]


def tell_mean(record: HorizontalDataSetRecord, method: str) -> str:
    """Mean score and its spread between repetitions."""
    if record.n_repetitions(method) < 2:
        return NOTHING
    (values,) = record.paired(method)
    return f"{values.mean():.4f} ± {values.std(ddof=1):.4f}"
