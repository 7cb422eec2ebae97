"""Beyond the papers: what a total epsilon costs, and what each protection of sums costs.

Epsilon is that of the whole training, as the `epsilon` of `LocalDP` and `GlobalDP` means it.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fedforest
from fedforest.experiments.beside import apart, tell_interval, tell_mean
from fedforest.experiments.data.catalogue import DATA_SETS
from fedforest.experiments.experiment import Cell, Check, Experiment, Report, Setting, judge
from fedforest.experiments.figures import (
    COLOURS,
    LINES,
    add_legend,
    draw_curve,
    name_panel,
    new_figure,
    tick_points,
)
from fedforest.experiments.findings import NOTHING, Finding, digits
from fedforest.experiments.horizontal.curves import Curve, Series, cells_of
from fedforest.experiments.horizontal.deals import TWO_PARTIES, Dealing
from fedforest.experiments.horizontal.methods import ForestSize, Method, federated, pooled
from fedforest.experiments.record import Key, Record
from fedforest.experiments.statistics import Interval
from fedforest.privacy.noise_strength import LABEL_SENSITIVITY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("spambase", "credit_default")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
QUICK_EPSILONS = (0.5, 8.0)
DEPTHS = (4, 8)
REPETITIONS = 10
TREES, LEAF = 20, 20
FEW_TREES, FEW_DEPTH = 5, 3  # what Laplace noise of a small total can bear
FOUR_PARTIES = Dealing(4, 0.2)
PLUGS = ("LocalDP", "GlobalDP")
_FEW = f"{FEW_TREES} trees of depth {FEW_DEPTH}, 1 column"
FEW, FEW_PLAIN = f"GlobalDP, {_FEW}", f"no noise, {_FEW}"
PRICED = "credit_default"
PRICES = f"{PRICED}, prices"
QUANTITIES = {"auc": "AUC", "score": "accuracy"}
USEFUL = 0.05  # of AUC below no noise


def _size(depth: int) -> ForestSize:
    return ForestSize(TREES, max_depth=depth, min_samples_leaf=LEAF)


def _at(plug: str, depth: int) -> str:
    return f"{plug}, depth {depth}"


def _few(setting: Setting, epsilon: float | None) -> Method:
    size = replace(_size(FEW_DEPTH), n_estimators=FEW_TREES, max_features=1)
    privacy = None if epsilon is None else fedforest.GlobalDP(epsilon=epsilon)
    return federated(size, n_jobs=setting.n_jobs, privacy=privacy)


def _curve(setting: Setting) -> Curve:
    curve: dict[str, dict[str, Method]] = {
        "": {
            _at("no noise", depth): federated(_size(depth), n_jobs=setting.n_jobs)
            for depth in DEPTHS
        }
        | {FEW_PLAIN: _few(setting, None)}
    }
    for epsilon in QUICK_EPSILONS if setting.quick else EPSILONS:
        curve[f"{epsilon:g}"] = {
            _at(plug, depth): federated(
                _size(depth),
                n_jobs=setting.n_jobs,
                privacy=getattr(fedforest, plug)(epsilon=epsilon),
            )
            for plug in PLUGS
            for depth in DEPTHS
        } | {FEW: _few(setting, epsilon)}
    return curve


def _prices() -> Curve:
    """Return forests of one size over four parties, with each protection alone, on one thread."""
    size = _size(max(DEPTHS))
    options: dict[str, dict[str, Any]] = {
        "plain sums": {},
        "Masked()": {"aggregation": fedforest.Masked()},
        "Ring()": {"aggregation": fedforest.Ring()},
        "Shamir(2)": {"aggregation": fedforest.Shamir(2)},
        "LocalDP(epsilon=4)": {"privacy": fedforest.LocalDP(epsilon=4.0)},
        "GlobalDP(epsilon=4)": {"privacy": fedforest.GlobalDP(epsilon=4.0)},
        "LocalDP(epsilon=4), Masked()": {
            "privacy": fedforest.LocalDP(epsilon=4.0),
            "aggregation": fedforest.Masked(),
        },
    }
    methods = {name: federated(size, n_jobs=1, **each) for name, each in options.items()}
    return {"": {"pooled (scikit-learn)": pooled(size, 1), **methods}}


def _cells(setting: Setting) -> Iterator[Cell]:
    repetitions = setting.times(REPETITIONS)
    for name in NAMES:
        series = Series(name, name, TWO_PARTIES)
        yield from cells_of(setting, series, _curve(setting), repetitions)
    series = Series(PRICES, PRICED, FOUR_PARTIES)
    yield from cells_of(setting, series, _prices(), setting.times(REPETITIONS, 1))


def _report(record: Record) -> Report:
    there = [name for name in NAMES if record.points(name, _at("no noise", DEPTHS[0]))]
    checks = [check for name in there for check in _checks(record, name)]
    return Report([_table(record, there), _price_table(record)], checks, _NOTES)


_NOTES = (
    f"{TREES} trees, at least {LEAF} rows in a leaf, √ of the columns at a node, two parties; a "
    "fifth of the rows is held out. Epsilon is the total of the training.",
    "Of LocalDP the total is the cap of the permanent answers: trees and depth cost nothing. Of "
    "GlobalDP it is divided over candidates × levels × trees, so the third setting asks little: "
    f"{FEW}.",
)


def _methods() -> list[str]:
    return [*(_at(plug, depth) for plug in PLUGS for depth in DEPTHS), FEW]


def _table(record: Record, names: list[str]) -> Finding:
    rows = []
    for name in names:
        plain = [*(_at("no noise", depth) for depth in DEPTHS), FEW_PLAIN]
        rows += [_row(record, (name, method, ""), "–") for method in plain]
        rows += [
            _row(record, (name, method, point), point)
            for method in _methods()
            for point in record.points(name, method)
        ]
    header = ["data set", "method", "ε in all", "AUC", "accuracy", "AUC less no noise"]
    return Finding(
        "AUC and accuracy by epsilon",
        [*header, "ε of a query", "repetitions"],
        rows,
        "AUC less that of the forest without noise, at the same depth (of the few trees: the "
        "shallower), with Student's 95% interval.",
    )


def _row(record: Record, key: Key, epsilon: str) -> list[str]:
    query = record.values(*key, "epsilon_query")
    return [
        key[0],
        key[1],
        epsilon,
        tell_mean(record, key, "auc"),
        tell_mean(record, key),
        NOTHING if epsilon == "–" else tell_interval(_lost(record, key)),
        digits(float(query.mean())) if len(query) else NOTHING,
        str(record.n_repetitions(key)),
    ]


def _lost(record: Record, key: Key) -> Interval | None:
    depth = next((d for d in DEPTHS if key[1].endswith(f"depth {d}")), DEPTHS[0])
    return apart(record, key, (key[0], _at("no noise", depth), ""), "auc")


def _price_table(record: Record) -> Finding:
    methods = [method for group, method, _ in record.measured if group == PRICES]
    base = record.values(PRICES, "plain sums", "", "cpu")
    rows = []
    for method in dict.fromkeys(methods):
        key = (PRICES, method, "")
        sent = record.values(*key, "bytes")
        n = record.n_repetitions(key, (PRICES, "plain sums", ""))
        ratio = record.values(*key, "cpu")[:n] / base[:n]
        rows.append(
            [
                method,
                tell_mean(record, key, "auc"),
                f"{float(sorted(ratio)[len(ratio) // 2]):.2f}×" if n else NOTHING,
                f"{sent.mean() / 1e6:.2f} MB" if len(sent) else NOTHING,
                str(record.n_repetitions(key)),
            ]
        )
    return Finding(
        f"Prices of protections ({PRICED}, four parties)",
        ["protection", "AUC", "processor time", "sent", "repetitions"],
        rows,
        "Processor time beside plain sums, taken in turn in one process on one thread (median of "
        "ratios); sent: all parties and the coordinator together.",
    )


def _checks(record: Record, name: str) -> Iterator[Check]:
    for method in _methods():
        points = record.points(name, method)
        lost = {point: _lost(record, (name, method, point)) for point in points}
        useful = [point for point, each in lost.items() if each and each.mean >= -USEFUL]
        smallest = f"from a total of {useful[0]} on" if useful else "at no total up to 8"
        yield judge(
            f"{name}, {method}: a total of {points[-1]} costs at most {USEFUL:g} of AUC",
            holds=None if lost[points[-1]] is None else points[-1] in useful,
            why=f"{tell_interval(lost[points[-1]])}; little {smallest}",
            cause=_cause(record, name, method),
        )


def _cause(record: Record, name: str, method: str) -> str:
    """Say how large the noise of a query is beside the rows of a node, or that it is not noise."""
    point = record.points(name, method)[-1]
    epsilon = record.values(name, method, point, "epsilon_query")
    if not len(epsilon):
        return ""
    n_rows = round(DATA_SETS[name].n_rows * (1 - TWO_PARTIES.test_fraction))
    deviation = math.sqrt(2.0 * TWO_PARTIES.n_parties) * LABEL_SENSITIVITY / float(epsilon.mean())
    depth = next((d for d in DEPTHS if method.endswith(f"depth {d}")), FEW_DEPTH)
    told = (
        f"A total of {point}, divided over candidates × levels × trees, leaves "
        f"{digits(float(epsilon.mean()))} for a query: noise of standard deviation "
        f"{deviation:,.0f} on each count. {n_rows:,} rows are "
        f"{n_rows / 2**depth:,.0f} in a node of level {depth}, if cuts halve them."
    )
    return told if method != FEW else f"{told} {_cause_of_few(record, name)}"


def _cause_of_few(record: Record, name: str) -> str:
    """Say what a forest that asks little loses besides noise."""
    if not len(record.values(name, FEW_PLAIN, "", "auc")):
        return "The same forest without noise was not measured yet."
    points = record.points(name, FEW)
    few, most = (tell_mean(record, (name, FEW, point), "auc") for point in (points[0], points[-1]))
    plain = tell_mean(record, (name, FEW_PLAIN, ""), "auc")
    return (
        f"So it is not the noise: AUC is {few} at a total of {points[0]} and {most} at "
        f"{points[-1]}. A node that pays for its questions asks about one column, and becomes a "
        f"leaf where the cut leaves fewer than {LEAF} rows on a side; without noise it goes on to "
        f"other columns, and AUC is {plain}."
    )


def _draw(record: Record) -> "Figure":
    figure, panels = new_figure(len(QUANTITIES) * len(NAMES), n_rows=len(QUANTITIES))
    for number, (quantity, name) in enumerate((q, name) for q in QUANTITIES for name in NAMES):
        panel = panels[number]
        for plug, colour in zip(PLUGS, COLOURS, strict=False):
            for depth, line in zip(DEPTHS, LINES, strict=False):
                method = _at(plug, depth)
                style = {"color": colour, "linestyle": line, "marker": "o", "markersize": 3}
                draw_curve(panel, record, (name, method), quantity, label=method, **style)
        style = {"color": COLOURS[2], "linestyle": LINES[2], "marker": "s", "markersize": 3}
        draw_curve(panel, record, (name, FEW), quantity, label=FEW, **style)
        for depth, line in zip(DEPTHS, LINES, strict=False):
            values = record.values(name, _at("no noise", depth), "", quantity)
            if len(values):
                label = _at("no noise", depth)
                panel.axhline(values.mean(), color="black", linestyle=line, lw=1, label=label)
        panel.set_xscale("log", base=2)
        tick_points(panel, EPSILONS)
        name_panel(panel, name, "ε of the whole training", QUANTITIES[quantity])
    add_legend(figure, panels)
    return figure


EPSILON_CURVE = Experiment(
    "epsilon-curve",
    "What a total epsilon costs, and what protections cost",
    "Beyond the papers: privacy in numbers",
    NAMES,
    _cells,
    _report,
    _draw,
    "2 minutes",
)
