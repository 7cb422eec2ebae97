"""Figure 4 of Federated Forest told: accuracy, seconds, and the processor time behind them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedforest.experiments.beside import apart, tell_interval, tell_mean
from fedforest.experiments.experiment import Check, Report, judge
from fedforest.experiments.figures import (
    COLOURS,
    add_legend,
    draw_curve,
    name_panel,
    new_figure,
    tick_points,
    use_log_scale,
)
from fedforest.experiments.findings import Finding, milliseconds
from fedforest.experiments.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "parkinson"
SCORE, TRAIN, PREDICT, ROUND = "accuracy", "training", "prediction, auto", "prediction, one round"
COORDINATOR, BUSIEST, ALL = "coordinator", "busiest party", "all processes"
ROLES = (COORDINATOR, BUSIEST, ALL)
SCORES, SECONDS = f"{NAME}, {SCORE}", f"{NAME}, seconds"
LEAST_FIT = 0.8  # R² of a straight line that calls seconds about linear
MOST_RISE = 1.0  # of the seconds of two domains, that calls prediction flat up to eight


_WHO = {ALL: "all processes", COORDINATOR: "the coordinator", BUSIEST: "the busiest party"}


def spent_by(what: str, who: str) -> str:
    """Return the name of a quantity: processor seconds that a process took for something."""
    return f"{what}, {who}"


def _points(record: Record) -> list[str]:
    return record.points(SCORES, SCORE)


def _median(record: Record, point: str, quantity: str) -> float:
    values = record.values(SECONDS, TRAIN, point, quantity)
    return float(np.median(values)) if len(values) else float("nan")


def report_domains(record: Record) -> Report:
    rows = [
        [
            point,
            f"{record.values(SCORES, SCORE, point, 'columns')[0]:.0f}",
            tell_mean(record, (SCORES, SCORE, point)),
            *(f"{_median(record, point, what):.3f} s" for what in (TRAIN, PREDICT, ROUND)),
            f"{record.n_repetitions((SCORES, SCORE, point))}, "
            f"{record.n_repetitions((SECONDS, TRAIN, point))}",
        ]
        for point in _points(record)
    ]
    table = Finding(
        "By the number of domains",
        ["domains", "columns", "accuracy", TRAIN, PREDICT, ROUND, "repetitions"],
        rows,
        "Accuracy: mean ± standard deviation. Seconds: median of the user's wall time. "
        "Repetitions: of accuracy, of seconds.",
    )
    tables = [table, _processor_table(record)]
    return Report([each for each in tables if each.rows], list(_checks(record)), _NOTES)


def _processor_table(record: Record) -> Finding:
    """Tell the processor time of each role, which other programs of the machine change little."""
    rows = [
        [
            point,
            *(
                " / ".join(_milliseconds(record, point, what, who) for who in ROLES)
                for what in (TRAIN, PREDICT, ROUND)
            ),
            str(len(record.values(SECONDS, TRAIN, point, spent_by(TRAIN, ALL)))),
        ]
        for point in _points(record)
        if len(record.values(SECONDS, TRAIN, point, spent_by(TRAIN, ALL)))
    ]
    return Finding(
        "Processor time by process",
        ["domains", TRAIN, PREDICT, ROUND, "repetitions"],
        rows,
        f"Medians of: {' / '.join(ROLES)}. What parties take at the same time on machines of their "
        "own is added up in the last.",
    )


def _milliseconds(record: Record, point: str, what: str, who: str) -> str:
    return milliseconds(_median(record, point, spent_by(what, who)))


_NOTES = (
    "100 trees, grown out, sqrt of the columns at a node. Domains join in the order "
    "baseline (with gender), intensity, formant, bandwidth, vocal fold, MFCC, wavelet, TQWT: the "
    "last one alone has more columns than all others. Rows of a subject may be on both sides, as "
    "in the paper.",
    "Coordinator and parties share the cores of one machine, so that parties that would work at "
    "the same time wait for each other: seconds rise more than they would on nine machines.",
    "Figure 4 prints no numbers: its axes are repeated, there is nothing to subtract.",
)


def _checks(record: Record) -> Iterator[Check]:
    points = _points(record)
    if len(points) < 2:
        return
    first, last = ((SCORES, SCORE, point) for point in (points[0], points[-1]))
    interval = apart(record, last, first)
    yield judge(
        "accuracy rises with the number of domains",
        holds=None if interval is None else interval.low > 0,
        why=f"{points[-1]} domains less one: {tell_interval(interval)}",
    )
    domains = np.array([float(point) for point in points])
    columns = np.array([record.values(SCORES, SCORE, point, "columns")[0] for point in points])
    training = np.array([_median(record, point, TRAIN) for point in points])
    if np.isnan(training).any():
        yield judge("training time is about linear in domains", holds=None, why="not measured")
        return
    yield judge(
        f"training time is about linear in domains (R² of a line ≥ {LEAST_FIT:g})",
        holds=bool(_fit(domains, training) >= LEAST_FIT),
        why=f"R² = {_fit(domains, training):.2f}, of a line in columns "
        f"{_fit(columns, training):.2f}; {training[0]:.2f} s with {points[0]}, "
        f"{training[-1]:.2f} s with {points[-1]} domains",
        cause=_cause_of_training(record, columns),
    )
    spent = np.array([_median(record, point, spent_by(TRAIN, ALL)) for point in points])
    if not np.isnan(spent).any():
        yield judge(
            "processor time of training, of all processes, is about linear in domains (R² of a "
            f"line ≥ {LEAST_FIT:g}; beyond the paper)",
            holds=bool(_fit(domains, spent) >= LEAST_FIT),
            why=f"R² = {_fit(domains, spent):.2f}, of a line in columns {_fit(columns, spent):.2f}",
            cause=_sharing(record, TRAIN, points),
        )
    many = [point for point in points if float(point) >= 2]
    for what in (PREDICT, ROUND):
        few, all_of_them = (_median(record, point, what) for point in (many[0], many[-1]))
        yield judge(
            f"{what} is flat in domains (from {many[0]} to {many[-1]} at most "
            f"{1 + MOST_RISE:g} times)",
            holds=all_of_them <= (1 + MOST_RISE) * few,
            why=f"{few:.3f} s and {all_of_them:.3f} s; training took "
            f"{training[-1] / training[points.index(many[0])]:.1f} times as long",
            cause=_cause_of_prediction(record, what, many),
        )


def _cause_of_training(record: Record, columns: NDArray[np.float64]) -> str:
    points = _points(record)
    spent = np.array([_median(record, point, spent_by(TRAIN, ALL)) for point in points])
    if np.isnan(spent).any():
        return "Processor time was not measured yet."
    domains = np.array([float(point) for point in points])
    return (
        f"By the clock, time follows columns, and of {columns[-1]:.0f} columns the last domain has "
        f"{columns[-1] - columns[-2]:.0f}. Of processor time, which other programs change less, a "
        f"line in domains has R² = {_fit(domains, spent):.2f}, one in columns "
        f"{_fit(columns, spent):.2f}. {_sharing(record, TRAIN, points)}"
    )


def _cause_of_prediction(record: Record, what: str, points: list[str]) -> str:
    if np.isnan(_median(record, points[-1], spent_by(what, ALL))):
        return "Processor time was not measured yet."
    sharing = _sharing(record, what, points)
    return f"Every party works at the same time, here on shared cores. {sharing}"


def _sharing(record: Record, what: str, points: list[str]) -> str:
    """Say how processor time rises in all processes, and in those that a line of machines has."""
    first, last = points[0], points[-1]
    told = [
        f"of {_WHO[who]} {_milliseconds(record, first, what, who)} and "
        f"{_milliseconds(record, last, what, who)}"
        for who in (ALL, COORDINATOR, BUSIEST)
    ]
    return (
        f"With {first} and {last} domains, processor time is {', '.join(told)}: on machines of "
        "their own, parties would take as long as the busiest of them."
    )


def _fit(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return the R² of a straight line."""
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def draw_domains(record: Record) -> "Figure":
    figure, panels = new_figure(3)
    draw_curve(panels[0], record, (SCORES, SCORE), "score", color=COLOURS[0], marker="o")
    name_panel(panels[0], SCORE, "domains", "accuracy")
    for panel, title, quantities in (
        (panels[1], "training", (TRAIN,)),
        (panels[2], "prediction", (PREDICT, ROUND)),
    ):
        for quantity, colour in zip(quantities, COLOURS, strict=False):
            for point in _points(record):
                seconds = record.values(SECONDS, TRAIN, point, quantity)
                xs = [float(point)] * len(seconds)
                panel.plot(xs, seconds, ".", color=colour, alpha=0.3, markersize=4)
            xs = [float(point) for point in _points(record)]
            medians = [_median(record, point, quantity) for point in _points(record)]
            panel.plot(xs, medians, "-o", color=colour, label=quantity, markersize=4)
        name_panel(panel, f"{title}, median and each time", "domains", "seconds")
        use_log_scale(panel)
    for panel in panels:
        tick_points(panel, map(float, _points(record)))
    add_legend(figure, panels[2:])
    return figure
