"""Figures 6, 7 and 8 of Federated Forest told: seconds, slopes, and what the paper concludes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedforest.experiments.experiment import Check, Report, judge
from fedforest.experiments.figures import (
    COLOURS,
    add_legend,
    name_panel,
    new_figure,
    tick_points,
    use_log_scale,
)
from fedforest.experiments.findings import NOTHING, Finding, milliseconds
from fedforest.experiments.live.prediction_parties import (
    AUTO,
    CLASSICAL,
    MANNERS,
    ONE_ROUND_NAME,
)
from fedforest.experiments.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("target_marketing", "spambase", "waveform")
DIRECT, SLOW, ALL_ROWS = "loopback", "20 ms more", "whole test set"
LEAST_RATIO = 5.0  # of slopes, that calls one far smaller


class TimeFigure(NamedTuple):
    """What a figure varies, and what it holds."""

    axis: str
    held: str


def report_times(what: TimeFigure, record: Record) -> Report:
    groups = [group for group in record.groups() if not group.endswith(ALL_ROWS)]
    whole = [group for group in record.groups() if group.endswith(ALL_ROWS)]
    tables = [_table(what, record, groups, MANNERS)]
    if whole:
        tables.append(_table(what, record, whole, (ONE_ROUND_NAME, AUTO)))
    checks = [check for group in groups for check in _checks(what, record, group)]
    return Report(tables, checks, [_NOTE.format(held=what.held)])


_NOTE = (
    "Held: {held}. Two parties, processes of their own over mutual TLS on one machine; seconds of "
    "the coordinator from the first request to the last leaf. The share is taken of 250 rows, on "
    "the slow line of 50, so that the classical walk ends: it is run, not multiplied up. All ways "
    "reach the same leaves, which each repetition checks. *auto* chooses how many levels an "
    "exchange settles by the measured line. The paper prints no numbers. Its figures' own axis is "
    "repeated; seconds are logarithmic, or one round would lie on the axis. "
    "Where other programs share the machine, seconds scatter; exchanges do not."
)


def _median(record: Record, key: tuple[str, str, str], quantity: str = "wall") -> float:
    values = record.values(*key, quantity=quantity)
    return float(np.median(values)) if len(values) else float("nan")


def _table(
    what: TimeFigure, record: Record, groups: list[str], manners: tuple[str, ...]
) -> Finding:
    rows = []
    for group in groups:
        for point in record.points(group, manners[-1]):
            told, messages = [], []
            for manner in manners:
                key = (group, manner, point)
                seconds = _median(record, key)
                told.append(NOTHING if np.isnan(seconds) else milliseconds(seconds))
                messages.append(f"{_median(record, key, 'exchanges'):,.0f}")
            n_rows = f"{_median(record, (group, manners[-1], point), 'rows'):,.0f}"
            n = str(record.n_repetitions((group, manners[-1], point)))
            rows.append([group, point, n_rows, *told, " / ".join(messages), n])
    return Finding(
        "Median seconds" if CLASSICAL in manners else "Whole test sets",
        ["data set, line", what.axis, "rows", *manners, "exchanges", "repetitions"],
        rows,
        "An exchange is a request with its reply, to one party in the classical walk, to both in "
        "one round.",
    )


def _complete_points(record: Record, group: str) -> list[str]:
    """Return the points at which rows were predicted in all manners."""
    return [
        point
        for point in record.points(group, CLASSICAL)
        if all(len(record.values(group, manner, point, "wall")) for manner in MANNERS)
    ]


def _rise(record: Record, group: str, manner: str) -> float:
    """Return how many seconds more the last point takes than the first."""
    points = _complete_points(record, group)
    first, last = (_median(record, (group, manner, point)) for point in (points[0], points[-1]))
    return last - first


def _checks(what: TimeFigure, record: Record, group: str) -> Iterator[Check]:
    points = _complete_points(record, group)
    if len(points) < 2:
        why = "not enough points are measured"
        yield judge(f"{group}: one round is faster and rises less", holds=None, why=why)
        return
    ratios = [
        _median(record, (group, CLASSICAL, point)) / _median(record, (group, ONE_ROUND_NAME, point))
        for point in points
    ]
    yield judge(
        f"{group}: one round is faster than the classical walk at every {what.axis}",
        holds=min(ratios) > 1.0,
        why=f"{min(ratios):.1f} to {max(ratios):.1f} times as fast",
        cause=_cause(record, group, points),
    )
    classical, one_round = (_rise(record, group, manner) for manner in (CLASSICAL, ONE_ROUND_NAME))
    is_far = classical > LEAST_RATIO * abs(one_round)
    yield judge(
        f"{group}: seconds of one round rise far less with the {what.axis} (at most 1/"
        f"{LEAST_RATIO:g} of the classical rise)",
        holds=is_far,
        why=f"from {points[0]} to {points[-1]}: {1000 * classical:+,.0f} ms classically, "
        f"{1000 * one_round:+,.2f} ms in one round",
        cause=_cause(record, group, points),
    )
    n_asked = [_median(record, (group, ONE_ROUND_NAME, point), "exchanges") for point in points]
    yield judge(
        f"{group}: one exchange for the whole forest, whatever the {what.axis}",
        holds=set(n_asked) == {1.0},
        why=f"exchanges of one round: {', '.join(f'{n:g}' for n in sorted(set(n_asked)))}",
    )


def _cause(record: Record, group: str, points: list[str]) -> str:
    """Say how far the clock of a shared machine is to be believed, beside what is counted."""
    scatter = max(
        float(values.max() / values.min())
        for point in points
        for values in [record.values(group, CLASSICAL, point, "wall")]
    )
    n_asked = [
        [_median(record, (group, manner, point), "exchanges") for point in (points[0], points[-1])]
        for manner in (CLASSICAL, ONE_ROUND_NAME)
    ]
    (few, many), (one, still_one) = n_asked
    n = record.n_repetitions(*((group, CLASSICAL, point) for point in points))
    return (
        f"Seconds on a machine with other work: over {n} repetitions, the walk took up to "
        f"{scatter:.1f} times as long as at another time at the same point. Exchanges, which do "
        f"not scatter, rise from {few:,.0f} to {many:,.0f} classically and from {one:,.0f} to "
        f"{still_one:,.0f} in one round."
    )


def draw_times(what: TimeFigure, record: Record) -> "Figure":
    there = [name for name in NAMES if record.points(f"{name}, {DIRECT}", CLASSICAL)]
    figure, panels = new_figure(max(2, 2 * len(there)), n_rows=2)
    places = [(name, line) for line in (DIRECT, SLOW) for name in there]
    for panel, (name, line) in zip(panels, places, strict=False):
        group = f"{name}, {line}"
        styles = ((CLASSICAL, "-", "o"), (ONE_ROUND_NAME, "--", "x"), (AUTO, ":", "s"))
        for (manner, stroke, marker), colour in zip(styles, COLOURS, strict=False):
            points = record.points(group, manner)
            seconds = [_median(record, (group, manner, point)) for point in points]
            xs = [float(point) for point in points]
            if xs:
                panel.plot(xs, seconds, stroke + marker, color=colour, label=manner, markersize=4)
                tick_points(panel, xs)
        name_panel(panel, f"{name}, {line}", what.axis, "seconds")
        use_log_scale(panel)
    add_legend(figure, panels)
    return figure
