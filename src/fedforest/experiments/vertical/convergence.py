"""Federated Forest, Figure 5: accuracy of one to a hundred trees of depth 6.

Beside the forest of our defaults stand the paper's: columns drawn once for each tree (Algorithm 2)
and hard votes; scikit-learn's; and what our out-of-bag curve says without any row held out.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from fedforest import VerticalForestClassifier
from fedforest.experiments.beside import tell_interval
from fedforest.experiments.experiment import (
    Cell,
    Check,
    Experiment,
    Measured,
    Report,
    Setting,
    judge,
)
from fedforest.experiments.figures import COLOURS, add_legend, name_panel, new_figure
from fedforest.experiments.findings import Finding
from fedforest.experiments.record import Record
from fedforest.experiments.statistics import Interval, paired_interval
from fedforest.experiments.vertical.methods import Division, divide, pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("waveform", "spambase")
REPETITIONS = 20
MAX_DEPTH = 6
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)
QUICK_COUNTS = (1, 5, 20, 50, 100)
FF, PAPERS, RF, OOB = "FF", "FF, per-tree columns, hard votes", "RF", "FF, out-of-bag"
SETTINGS: dict[str, dict[str, Any]] = {
    FF: {},
    PAPERS: {"feature_sampling": "tree", "voting": "hard"},
}
LEVEL = 0.005  # of accuracy: a curve is as good as converged where it stays so near to its end


def _cells(setting: Setting) -> Iterator[Cell]:
    counts = QUICK_COUNTS if setting.quick else COUNTS
    for name in NAMES:
        division = lru_cache(1)(partial(_divide, setting, name))
        for method, measure in (
            (FF, _score_federated),
            (PAPERS, _score_federated),
            (RF, _score_pooled),
            (OOB, _score_left_out),
        ):
            parameters = {"max_depth": MAX_DEPTH, "n_jobs": setting.n_jobs}
            parameters |= SETTINGS.get(method, {})
            run = partial(_measure, division, partial(measure, counts, parameters))
            yield Cell(name, method, "", setting.times(REPETITIONS), run)


def _divide(setting: Setting, name: str, repetition: int) -> Division:
    return divide(setting.read(name), setting.seed, repetition)


def _measure(
    division: Callable[[int], Division], score: Callable[[Division], Measured], repetition: int
) -> Measured:
    return score(division(repetition))


def _score_federated(
    counts: tuple[int, ...], parameters: dict[str, Any], division: Division
) -> Measured:
    """Train a forest of each size; the smaller one is the beginning of the larger one."""
    scores = {}
    for count in counts:
        forest = VerticalForestClassifier(count, random_state=division.seed, **parameters)
        forest.fit(division.train, division.y_train)
        scores[str(count)] = division.score(forest.predict(division.test))
    return scores


def _score_pooled(
    counts: tuple[int, ...], parameters: dict[str, Any], division: Division
) -> Measured:
    forest = RandomForestClassifier(counts[-1], random_state=division.seed, **parameters)
    forest.fit(pool(division.train), division.y_train)
    X = pool(division.test)
    votes = np.cumsum([tree.predict_proba(X) for tree in forest.estimators_], axis=0)
    return {
        str(count): division.score(forest.classes_[votes[count - 1].argmax(axis=1)])
        for count in counts
    }


def _score_left_out(
    counts: tuple[int, ...], parameters: dict[str, Any], division: Division
) -> Measured:
    forest = VerticalForestClassifier(
        counts[-1], oob_score=True, random_state=division.seed, **parameters
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few trees leave out few of the rows
        forest.fit(division.train, division.y_train)
    return {str(count): float(forest.oob_curve_[count - 1]) for count in counts}


def curve(record: Record, name: str, method: str) -> dict[int, NDArray[np.float64]]:
    """Return the scores by number of trees."""
    measured = record.measured.get((name, method, ""), [])
    counts = sorted(map(int, measured[0])) if measured else []
    return {count: record.values(name, method, "", str(count)) for count in counts}


def settles_at(means: dict[int, float]) -> int:
    """Return the number of trees from which on the curve stays within `LEVEL` of its end."""
    last = list(means)[-1]
    far = [count for count, mean in means.items() if abs(mean - means[last]) > LEVEL]
    return next(count for count in means if count > max(far, default=0))


def _means(record: Record, name: str, method: str) -> dict[int, float]:
    return {count: float(scores.mean()) for count, scores in curve(record, name, method).items()}


def _there(record: Record) -> list[tuple[str, str]]:
    return [
        (name, method)
        for name in NAMES
        for method in (FF, PAPERS, RF, OOB)
        if curve(record, name, method)
    ]


def _report(record: Record) -> Report:
    there = _there(record)
    counts = list(curve(record, *there[0])) if there else []
    shown = [count for count in counts if count in (1, 5, 10, 20, 50, 100)]
    rows = []
    for name, method in there:
        means = _means(record, name, method)
        told = [f"{means[count]:.4f}" for count in shown]
        n = str(record.n_repetitions((name, method, "")))
        rows.append([name, method, *told, str(settles_at(means)), n])
    header = ["data set", "curve", *(f"{count} trees" for count in shown)]
    table = Finding(
        "Accuracy by the number of trees",
        [*header, "settles at", "repetitions"],
        rows,
        f"Means. A curve settles where it stays within {LEVEL:g} of its value at {counts[-1]} "
        "trees."
        if counts
        else "",
    )
    names = dict.fromkeys(name for name, _ in there)
    return Report([table], [check for name in names for check in _checks(record, name)], _NOTES)


_NOTES = (
    f"Two parties, depth {MAX_DEPTH}, a fifth of the rows held out. Figure 5 prints no numbers: "
    "its axes and curves are repeated, there is nothing to subtract.",
    "Trees of the paper see the sqrt of all columns that was drawn for them and no other; at a "
    "depth of 6 most of them lack what tells classes apart, and many trees must make up for it.",
)


def _checks(record: Record, name: str) -> Iterator[Check]:
    ends = {method: _means(record, name, method) for method in (FF, PAPERS, RF, OOB)}
    if not all(ends.values()):
        yield judge(f"{name}: the federated forest converges", holds=None, why="not measured")
        return
    settled = {method: settles_at(means) for method, means in ends.items()}
    last = max(ends[FF])
    for method in (FF, PAPERS):
        yield judge(
            f"{name}: {method} converges as trees are added",
            holds=settled[method] < last,
            why=f"within {LEVEL:g} of its end from {settled[method]} trees on",
        )
    yield judge(
        f"{name}: the paper's federated forest needs more trees than the pooled one",
        holds=settled[PAPERS] > settled[RF],
        why=f"{settled[PAPERS]} against {settled[RF]} trees: columns drawn per tree, not the "
        f"federation, for with columns drawn per node ours needs {settled[FF]}",
    )
    apart = _apart(record, name, RF, last)
    yield judge(
        f"{name}: at {last} trees federated and pooled are equal within 0.01 (beyond the paper)",
        holds=None if apart is None else apart.lies_within(0.01),
        why="too few repetitions" if apart is None else f"FF less RF: {tell_interval(apart)}",
    )
    told = _apart(record, name, OOB, last)
    yield judge(
        f"{name}: the out-of-bag curve tells the accuracy within 0.015 without rows held out "
        "(beyond the paper)",
        holds=None if told is None else abs(told.mean) <= 0.015,
        why="too few repetitions" if told is None else f"held-out less OOB: {tell_interval(told)}",
    )


def _apart(record: Record, name: str, other: str, count: int) -> Interval | None:
    ours, theirs = record.paired((name, FF, ""), (name, other, ""), quantity=str(count))
    return paired_interval(ours, theirs) if len(ours) >= 2 else None


def _draw(record: Record) -> "Figure":
    figure, panels = new_figure(len(NAMES))
    styles = {FF: "-", PAPERS: "-", RF: "--", OOB: ":"}
    for panel, name in zip(panels, NAMES, strict=True):
        for (method, line), colour in zip(styles.items(), COLOURS, strict=False):
            measured = curve(record, name, method)
            means = [float(scores.mean()) for scores in measured.values()]
            panel.plot(list(measured), means, line, color=colour, label=method)
            if measured and line == "-":
                spread = [scores.std() for scores in measured.values()]
                low, high = np.subtract(means, spread), np.add(means, spread)
                panel.fill_between(list(measured), low, high, color=colour, alpha=0.15, lw=0)
        name_panel(panel, name, "number of trees", "accuracy")
    add_legend(figure, panels)
    return figure


FIGURE_5 = Experiment(
    "ff-fig-5",
    "Convergence, forests of depth 6",
    "Federated Forest, Figure 5",
    NAMES,
    _cells,
    _report,
    _draw,
    "10 minutes",
)
