"""Federated Forest's Tables 3 and 4 told: beside the printed values, judged, and drawn."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fedforest.experiments.beside import (
    COMPARED,
    COMPARED_NOTE,
    apart,
    compare,
    tell_interval,
)
from fedforest.experiments.data.catalogue import DATA_SETS
from fedforest.experiments.experiment import Check, Report, judge
from fedforest.experiments.figures import add_legend, draw_groups, new_figure
from fedforest.experiments.findings import NOTHING, Finding
from fedforest.experiments.record import Record
from fedforest.experiments.statistics import z_test
from fedforest.experiments.vertical.methods import (
    GRID,
    MANY_ROWS,
    METHODS,
    MOST_LINEAR_ROWS,
    MOST_SEARCHED_ROWS,
    N_FOLDS,
    N_TREES,
    STANDARD_ERROR,
    USUAL,
    Point,
)
from fedforest.experiments.vertical.printed import PRINTED_P, printed
from fedforest.experiments.vertical.trials import table_of_trials, tell_nearest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEARCH = "grid search"
LEAST_P = 0.01  # below it, the paper calls a difference significant
# Paired difference of accuracy, or as a fraction of the pooled RMSE, that calls FF as good.
ALLOWED = {"ionosphere": 0.012, "parkinson": 0.012, "superconduct": 0.01}
ALLOWED_ELSE = {"classification": 0.005, "regression": 0.01}


def chosen_point(record: Record, name: str) -> Point:
    """Return the hyper-parameters that the grid search chooses; without one, the usual ones.

    The usual ones stay where they are within a standard error of the best (Breiman's rule).
    """
    usual = USUAL[DATA_SETS[name].task]
    found = {
        point: values[0]
        for point in GRID
        if len(values := record.values(SEARCH, name, "", point.tell()))
    }
    if not found:
        return usual
    better = -1.0 if DATA_SETS[name].task == "regression" else 1.0
    best = max(found, key=lambda point: better * found[point])
    error = float(record.values(SEARCH, name, "", STANDARD_ERROR)[0])
    return usual if better * (found[best] - found[usual]) <= error else best


def report_tables(names: tuple[str, ...], record: Record) -> Report:
    there = [name for name in names if len(record.values(name, "FF"))]
    tables = [_beside_printed(record, there), _lossless(record, there), _grid(record, there)]
    tables = [table for table in [*tables, *table_of_trials(record, there)] if table.rows]
    checks = [check for name in there for check in _checks(record, name)]
    remarks = [f"{name}: {DATA_SETS[name].remark}." for name in there if DATA_SETS[name].remark]
    return Report(tables, checks, [*_NOTES, *remarks])


_NOTES = (
    f"All forests: {N_TREES} trees, bootstrap, depth and columns at a node as the grid search "
    "chose them for the data set. Ours has at most 255 bins per column and soft votes, as "
    "scikit-learn's. F-LR: our federated logistic or linear regression with its defaults, one "
    "model for each class where there are more than two (one against all others), from at most "
    f"{MOST_LINEAR_ROWS:,} rows. Rows of one parkinson subject may be on "
    "both sides, as in the paper.",
    f"RF1 and RF2 of tables of more than {MANY_ROWS:,} rows are our forest over one party. A set "
    "with few repetitions is costly; the tables name their number.",
)


def _beside_printed(record: Record, names: list[str]) -> Finding:
    rows = []
    for name in names:
        for method in METHODS:
            cells = compare(record, (name, method, ""), printed(name, method))
            rows.append([name, method, *cells, _reason(record, name, method, cells[-1])])
    return Finding(
        "Scores on rows held out",
        ["data set", "method", *COMPARED, "why"],
        rows,
        f"Accuracy; RMSE in Table 4. {COMPARED_NOTE} RF1, RF2: a forest on the columns of one "
        "party; NonFF: scikit-learn's forest on all columns; FF: ours over both parties.",
    )


def _reason(record: Record, name: str, method: str, verdict: str) -> str:
    """Say why a value is apart from the printed one."""
    if verdict not in ("higher", "lower"):
        return ""
    if DATA_SETS[name].is_made:
        return "the table is made"
    nearest = tell_nearest(record, name, method)
    return f"a sample of the rows; {nearest}" if name.endswith("sample") else nearest


def _lossless(record: Record, names: list[str]) -> Finding:
    rows = []
    for name in names:
        federated, pooled = record.paired((name, "FF", ""), (name, "NonFF", ""))
        if len(federated) < 2:
            continue
        interval = apart(record, (name, "FF", ""), (name, "NonFF", ""))
        theirs = PRINTED_P.get(name)
        rows.append(
            [
                name,
                NOTHING if theirs is None else f"{theirs:.3f}",
                f"{z_test(federated, pooled):.3f}",
                tell_interval(interval),
                str(len(federated)),
            ]
        )
    return Finding(
        "Federated beside pooled",
        ["data set", "printed p", "our p", "FF less NonFF (95% interval)", "repetitions"],
        rows,
        "Two-sided z-test of equal means, as in the paper, and Student's interval of the "
        "difference, repetition by repetition on the same rows.",
    )


def _grid(record: Record, names: list[str]) -> Finding:
    rows = []
    for name in names:
        scores = [record.values(SEARCH, name, "", point.tell()) for point in GRID]
        if all(len(values) for values in scores):
            told = [f"{values[0]:.4f}" for values in scores]
            error = f"{record.values(SEARCH, name, '', STANDARD_ERROR)[0]:.4f}"
            rows.append([name, *told, error, chosen_point(record, name).tell()])
    return Finding(
        "Grid search",
        ["data set", *(point.tell() for point in GRID), STANDARD_ERROR, "chosen"],
        rows,
        f"scikit-learn's forest on pooled training rows of the first repetition, at most "
        f"{MOST_SEARCHED_ROWS:,} of them; {N_FOLDS}-fold cross-validation. The usual "
        "ones (grown out; sqrt of the columns, a third in regression) are chosen where they are "
        "within a standard error of the best, and for gene without a search. All forests of a "
        "data set have what was chosen.",
    )


def _checks(record: Record, name: str) -> Iterator[Check]:
    federated, pooled = record.paired((name, "FF", ""), (name, "NonFF", ""))
    claim = f"{name}: lossless (two-sided z-test of FF and NonFF, p ≥ {LEAST_P})"
    if len(federated) < 2:
        why = "bank and shop may not pool" if name == "target_marketing" else "too few repetitions"
        yield judge(claim, holds=None, why=why)
    else:
        p = z_test(federated, pooled)
        yield judge(claim, holds=p >= LEAST_P, why=f"p = {p:.3f} over {len(federated)} repetitions")
        yield _equal_check(record, name)
    better = -1.0 if DATA_SETS[name].task == "regression" else 1.0
    for other in ("RF1", "RF2"):
        interval = apart(record, (name, "FF", ""), (name, other, ""))
        nonff = apart(record, (name, "NonFF", ""), (name, other, ""))
        if interval is None:
            continue
        why = f"FF less {other}: {tell_interval(interval)}"
        if better * interval.mean <= 0 and nonff is not None:
            why += f"; pooled (NonFF less {other}): {tell_interval(nonff)}"
        yield judge(
            f"{name}: federated beats party {other[-1]} alone",
            holds=better * interval.mean > 0,
            why=why,
        )


def _equal_check(record: Record, name: str) -> Check:
    """Stronger than the paper: the paired interval lies within what is allowed."""
    task = DATA_SETS[name].task
    allowed = ALLOWED.get(name, ALLOWED_ELSE[task])
    interval = apart(record, (name, "FF", ""), (name, "NonFF", ""))
    assert interval is not None
    if task == "regression":
        interval = interval.scaled(1.0 / record.values(name, "NonFF").mean())
    unit = "of the pooled RMSE" if task == "regression" else "of accuracy"
    return judge(
        f"{name}: the 95% interval of FF less NonFF is within ±{allowed:g} {unit} (beyond the "
        "paper)",
        holds=interval.lies_within(allowed),
        why=tell_interval(interval),
    )


def draw_tables(names: tuple[str, ...], record: Record) -> "Figure":
    there = [name for name in names if len(record.values(name, "FF"))]
    by_scale = [there] if DATA_SETS[names[0]].task == "classification" else [[n] for n in there]
    is_wide = len(by_scale) == 1 and len(there) > 2
    figure, panels = new_figure(max(1, len(by_scale)), width=9.0 if is_wide else 4.2)
    for panel, shown in zip(panels, by_scale, strict=False):
        series, theirs = [], []
        for method in METHODS:
            values = [record.values(name, method) for name in shown]
            means = [float(v.mean()) if len(v) else np.nan for v in values]
            spreads = [float(v.std(ddof=1)) if len(v) > 1 else 0.0 for v in values]
            series.append((method, means, spreads))
            targets = [printed(name, method) for name in shown]
            theirs.append([None if target is None else target.mean for target in targets])
        draw_groups(panel, shown, series, theirs)
        panel.set_ylabel("accuracy" if DATA_SETS[shown[0]].task == "classification" else "RMSE")
    add_legend(figure, panels)
    return figure
