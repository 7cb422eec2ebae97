"""Beyond the papers: the same rows dealt among 1 to 10 parties.

A threshold is drawn between the smallest and the largest of the parties' points. With several
parties it varies less than the uniform one of extra-trees on one table, so federated trees differ
from pooled ones for a reason that is not the federation. One party is the honest yardstick.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fedforest.experiments.beside import apart, tell_interval, tell_mean
from fedforest.experiments.experiment import Cell, Experiment, Report, Setting, judge
from fedforest.experiments.figures import (
    COLOURS,
    add_legend,
    draw_curve,
    name_panel,
    new_figure,
    tick_points,
)
from fedforest.experiments.findings import Finding
from fedforest.experiments.horizontal.curves import Series, cells_of, dealt_anew
from fedforest.experiments.horizontal.deals import TWO_PARTIES
from fedforest.experiments.horizontal.methods import ForestSize, federated, pooled
from fedforest.experiments.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("spambase", "waveform", "letter", "credit_default")
PARTIES = (1, 2, 3, 4, 5, 7, 10)
QUICK_PARTIES = (1, 3)
REPETITIONS = 10
SIZE = ForestSize(50)
FET, ET = "FET", "ET"
CLOSE = 0.005  # of one party and scikit-learn


def variance_of_threshold(n_parties: int) -> float:
    """Return the variance of a uniform number between the extremes of uniform points on [0, 1].

    E[T²] = (E[m²] + E[mM] + E[M²]) / 3 with the smallest m and the largest M of k points; one
    point is the threshold itself.
    """
    k = n_parties
    return (2 / (k + 1) + 1 + k) / (3 * (k + 2)) - 0.25


def _cells(setting: Setting) -> Iterator[Cell]:
    jobs = setting.n_jobs
    train = federated(SIZE, n_jobs=jobs)
    curve = {
        str(k): {FET: dealt_anew(k, train)} for k in (QUICK_PARTIES if setting.quick else PARTIES)
    }
    curve["1"][ET] = pooled(SIZE, jobs)
    for name in NAMES:
        series = Series(name, name, TWO_PARTIES)
        yield from cells_of(setting, series, curve, setting.times(REPETITIONS))


def _report(record: Record) -> Report:
    there = [name for name in NAMES if record.points(name, FET)]
    rows, checks = [], []
    for name in there:
        pooled_, one = (name, ET, "1"), (name, FET, "1")
        for point in record.points(name, FET):
            key = (name, FET, point)
            rows.append(
                [
                    name,
                    point,
                    f"{variance_of_threshold(int(point)):.4f}",
                    tell_mean(record, key),
                    tell_interval(apart(record, key, pooled_)),
                    tell_interval(apart(record, key, one)),
                    str(record.n_repetitions(key)),
                ]
            )
        interval = apart(record, one, pooled_)
        checks.append(
            judge(
                f"{name}: one party equals scikit-learn's extra-trees (within {CLOSE:g})",
                holds=None if interval is None else abs(interval.mean) <= CLOSE,
                why=f"accuracy less ET: {tell_interval(interval)}",
            )
        )
        several = [apart(record, (name, FET, p), one) for p in record.points(name, FET)[1:]]
        best = max((i for i in several if i), key=lambda i: i.mean, default=None)
        checks.append(
            judge(
                f"{name}: several parties beat one on the same rows",
                holds=None if best is None or best.low <= 0 <= best.high else best.low > 0,
                why=f"at best: {tell_interval(best)}, over {record.n_repetitions(one)} repetitions",
            )
        )
    header = ["data set", "parties", "variance", "accuracy", "less ET", "less one party"]
    return Report(
        [Finding("The same rows, dealt anew", [*header, "repetitions"], rows, _NOTE)],
        checks,
        _NOTES,
    )


_NOTE = (
    "Variance: of a threshold on a column that is uniform on [0, 1] at every party; 0.0833 for one "
    "party, least (0.0500) for three and four."
)
_NOTES = (
    f"{SIZE.tell().capitalize()}. No protection; ET is scikit-learn's, on the same rows.",
    "Where several parties do better than one, thresholds nearer to the middle of a node do it; a "
    "pooled forest could have them, too. So figures that compare FET with ET on one table, the "
    "papers' among them, must not be read as a gain by federating.",
)


def _draw(record: Record) -> "Figure":
    figure, panels = new_figure(len(NAMES) + 1, n_rows=2)
    for panel, name in zip(panels, NAMES, strict=False):
        style = {"color": COLOURS[0], "marker": "o", "markersize": 3, "label": FET}
        draw_curve(panel, record, (name, FET), "score", **style)
        values = record.values(name, ET, "1")
        if len(values):
            panel.axhline(values.mean(), color=COLOURS[1], linestyle="--", label="ET, pooled")
        name_panel(panel, name, "parties that hold the same rows", "accuracy")
    ks = np.arange(1, max(PARTIES) + 1)
    panels[-1].plot(ks, [variance_of_threshold(int(k)) for k in ks], "o-", color=COLOURS[2])
    panels[-1].set_ylim(0, None)
    for panel in panels:
        tick_points(panel, PARTIES)
    add_legend(figure, panels)
    name_panel(panels[-1], "variance of a threshold", "parties", "variance on [0, 1]")
    return figure


THRESHOLD_VARIANCE = Experiment(
    "fet-thresholds",
    "The same rows dealt among 1 to 10 parties",
    "Beyond Federated Extra-Trees: thresholds of several parties",
    NAMES,
    _cells,
    _report,
    _draw,
    "5 minutes",
)
