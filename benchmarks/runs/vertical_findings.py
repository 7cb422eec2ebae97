"""What `vertical.json` says: every ratio, every target and whether it was reached.

The only place where targets are judged; the terminal and the page both read it.
"""

from statistics import median
from typing import Any

from benchmarks.contestants import FEDERATED, OURS, SKLEARN
from benchmarks.runs.vertical_growth import MODES, scaled
from benchmarks.runs.xgboost_finding import compare
from fedforest.experiments.findings import (
    Finding,
    difference,
    mean,
    megabytes,
    milliseconds,
    seconds,
    times,
    unjudged,
    verdict,
)

MOST_OVER_POOLED = 1.4
MOST_OVER_POOLED_PREDICTION = 2.0
LEAST_OVER_XGBOOST = 20.0
MOST_OVER_LEAST_BYTES = 1.2
SMALL_LEVEL = 0.01  # of the bytes of a training
QUANTITIES = {
    "n_rows": "rows",
    "n_columns": "columns",
    "n_parties": "parties",
    "n_trees": "trees",
    "max_depth": "depth",
    "prediction_rows": "rows",
}


def find(result: dict[str, Any]) -> list[Finding]:
    """All findings of a vertical run, in the order a reader wants them."""
    findings = []
    if result["speed"]:
        findings = [beside_pooled(result), beside_sklearn(result), prediction(result)]
    if result["xgboost"]:
        findings.append(beside_xgboost(result))
    if result["traffic"]:
        findings.append(traffic(result))
    if result["growth"]:
        findings.append(training_growth(result))
    if result["prediction"]:
        findings.append(prediction_growth(result))
    findings.append(settings(result))
    is_quick = result["settings"]["quick"]
    return [unjudged(finding) for finding in findings] if is_quick else findings


def pair_ratio(task: dict[str, Any], quantity: str) -> float:
    """Median over the pairs: two parties over one table."""
    federated, pooled = (task["pairs"][name][quantity] for name in (FEDERATED, OURS))
    return median(float(ours / theirs) for ours, theirs in zip(federated, pooled, strict=True))


def beside_pooled(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["speed"]:
        pairs, ratio = task["pairs"], pair_ratio(task, "wall")
        is_same = pairs[FEDERATED]["score"] == pairs[OURS]["score"]
        rows.append(
            [
                task["title"],
                f"{ratio:.2f}×",
                f"{MOST_OVER_POOLED}×",
                verdict(reached=ratio <= MOST_OVER_POOLED),
                f"{pair_ratio(task, 'cpu'):.2f}×",
                *(seconds(median(pairs[name]["wall"])) for name in (FEDERATED, OURS)),
                "equal" if is_same else "DIFFERENT",
                str(len(pairs[OURS]["wall"])),
            ]
        )
    header = [
        *("task", "over pooled", "target, at most", "verdict", "processor time over pooled"),
        *(FEDERATED, "fedforest, pooled", "scores", "pairs"),
    ]
    note = (
        "Training over two parties beside the same engine on one table: medians over pairs in "
        "turns, binning included. Equal scores on every pair: it is the same forest."
    )
    return Finding("Two parties beside one table", header, rows, note)


def beside_sklearn(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["speed"]:
        ours, theirs = (task["fits"][name] for name in (FEDERATED, SKLEARN))
        ratio = min(theirs["wall"]) / min(ours["wall"])
        rows.append(
            [
                task["title"],
                times(ratio),
                times(task["target"]),
                verdict(reached=ratio >= task["target"]),
                times(min(theirs["cpu"]) / min(ours["cpu"])),
                *(seconds(min(fits["wall"])) for fits in (ours, theirs)),
                f"{mean(ours['score']):.4f}",
                difference(ours["score"], theirs["score"]),
                str(len(ours["wall"])),
            ]
        )
    header = [
        *("task", "faster", "target", "verdict", "less processor time", FEDERATED, SKLEARN),
        *("accuracy", "less scikit-learn's", "repeats"),
    ]
    note = "scikit-learn's forest has all columns. Best of the repeats, in turns."
    return Finding("Two parties beside scikit-learn", header, rows, note)


def prediction(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["speed"]:
        ratio = pair_ratio(task, "predict")
        medians = [median(task["pairs"][name]["predict"]) for name in (FEDERATED, OURS)]
        rows.append(
            [
                task["title"],
                f"{ratio:.2f}×",
                f"{MOST_OVER_POOLED_PREDICTION}×",
                verdict(reached=ratio <= MOST_OVER_POOLED_PREDICTION),
                *map(milliseconds, medians),
            ]
        )
    n_rows = result["settings"]["prediction_rows"]
    header = ["task", "over pooled", "target, at most", "verdict", FEDERATED, "fedforest, pooled"]
    note = 'prediction="auto"; medians over the pairs, best of three predictions each.'
    return Finding(f"Prediction of {n_rows:,} rows", header, rows, note)


def beside_xgboost(result: dict[str, Any]) -> Finding:
    note = (
        "XGBoost's vertical federation, plaintext: 20 parallel trees, 6 of 40 columns at a node, "
        "subsample 0.63, 255 bins; from connected to trained, the slower of its two parties, one "
        "thread each. Its server and parties are processes that talk over loopback, ours live in "
        "one process and exchange encoded messages. Its processor time is that of its parties."
    )
    return compare(result["xgboost"], FEDERATED, LEAST_OVER_XGBOOST, note)


def traffic(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["traffic"]:
        measured, least = task["measured_bytes"], task["least_bytes"]
        ratio = sum(measured) / sum(least)
        level, worst = _worst_level(measured, least)
        rows.append(
            [
                task["title"],
                f"{ratio:.3f}×",
                f"{worst:.3f}× (level {level})",
                f"{MOST_OVER_LEAST_BYTES}×",
                verdict(reached=max(ratio, worst) <= MOST_OVER_LEAST_BYTES),
                megabytes(sum(measured)),
                megabytes(sum(least)),
                str(len(measured)),
            ]
        )
    header = [
        *("training", "over the formula", "worst level", "target, at most", "verdict"),
        *("measured", "formula", "levels"),
    ]
    note = (
        "Bytes of all levels in both directions, encoding included, over: 8 bytes and a bitmap of "
        "the party's columns for each open node and party, and one bit for each party and row "
        "that moves to a child. Two plain classes unless labels are named; of others the formula "
        "has, at the depth limit, a bit for each row that the coordinator is told of, or sums in "
        f"its place. Levels with less than {SMALL_LEVEL:.0%} of the bytes are not "
        "singled out: they are a few hundred bytes of envelope."
    )
    return Finding("Bytes per level", header, rows, note)


def _worst_level(measured: list[int], least: list[float]) -> tuple[int, float]:
    """The level, of those that matter, that is farthest above the formula, and by how much."""
    ratios = {
        level: ours / needed
        for level, (ours, needed) in enumerate(zip(measured, least, strict=True))
        if ours >= SMALL_LEVEL * sum(measured)
    }
    return max(ratios.items(), key=lambda entry: entry[1])


def training_growth(result: dict[str, Any]) -> Finding:
    rows = [
        [
            QUANTITIES[series["quantity"]],
            f"{point[series['quantity']]:,}",
            seconds(min(point["wall"])),
            seconds(min(point["cpu"])),
            megabytes(point["level_bytes"]),
            str(point["exchanges"]),
        ]
        for series in result["growth"].values()
        for point in series["points"]
    ]
    note = (
        "One quantity varies; the others are 100,000 rows, of which four fifths are trained on, "
        "40 columns, 2 parties, 20 trees, depth 10. Best of the repeats; bytes of all levels, "
        "both directions."
    )
    header = ["varied", "value", "seconds", "processor time", "sent and received", "exchanges"]
    return Finding("How training grows", header, rows, note)


def prediction_growth(result: dict[str, Any]) -> Finding:
    rows = []
    for series in result["prediction"].values():
        for point in series["points"]:
            row = [QUANTITIES[series["quantity"]], f"{point[series['quantity']]:,}"]
            for mode in MODES:
                wall = scaled(point, mode, lambda measured: min(measured["wall"]))
                exchanges = scaled(point, mode, lambda measured: measured["exchanges"])
                n_bytes = scaled(point, mode, lambda measured: measured["bytes"])
                row += [seconds(wall), f"{exchanges:,.0f}", megabytes(n_bytes)]
            rows.append(row)
    n_rows = result["settings"]["classical_rows"]
    note = (
        "Trees and depth as in the paper: depth 4 while trees vary, 8 trees while depth varies, "
        "20,000 rows to predict; 20 trees of depth 10 while rows vary. Classical, one message per "
        f"row and node, is measured on {n_rows} rows and multiplied up to the others. No network "
        "delay is part of the seconds: add one for each exchange."
    )
    header = ["varied", "value"]
    for mode in ("classical", "one round", "auto"):
        header += [mode, "exchanges", "bytes"]
    return Finding("How prediction grows", header, rows, note)


def settings(result: dict[str, Any]) -> Finding:
    rows = [[name, note] for name, note in result["contestants"].items()]
    rows += [[name, f"not run: {reason}"] for name, reason in result["skipped"].items()]
    note = (
        f"Everybody: {result['settings']['threads']} threads, sqrt of the columns at every node; "
        "40 columns, 20 of them informative, unless a table says otherwise."
    )
    return Finding("Who took part, and how", ["who", "setting"], rows, note)
