"""What `horizontal.json` says: every ratio, every target and whether it was reached.

The only place where targets are judged; the terminal and the page both read it.
"""

from typing import Any

from benchmarks.contestants import (
    ROWS_LOCAL,
    ROWS_MASKED,
    ROWS_PLAIN,
    ROWS_RING,
    ROWS_SHAMIR,
    SKLEARN_EXTRA,
)
from benchmarks.runs.xgboost_finding import compare
from fedforest.experiments.findings import (
    NOTHING,
    Finding,
    difference,
    mean,
    megabytes,
    seconds,
    times,
    unjudged,
    verdict,
)

MOST_BELOW = 0.01  # in accuracy, two parties may be below scikit-learn
LEAST_OVER_XGBOOST = 10.0
MOST_OVER_PLAIN = {ROWS_MASKED: 1.3, ROWS_LOCAL: 5.0}
SAME_FOREST = (ROWS_MASKED, ROWS_RING, ROWS_SHAMIR)  # they give exactly the plain sums
QUANTITIES = {
    "n_rows": "rows",
    "n_parties": "parties",
    "max_depth": "depth",
    "k": "peers of a mask (k)",
}


def find(result: dict[str, Any]) -> list[Finding]:
    """All findings of a horizontal run, in the order a reader wants them."""
    findings = [beside_sklearn(result)] if result["speed"] else []
    if result["protected"]:
        findings.append(beside_plain(result))
    if result["xgboost"]:
        findings.append(beside_xgboost(result))
    if result["growth"]:
        findings.append(training_growth(result))
    findings.append(settings(result))
    is_quick = result["settings"]["quick"]
    return [unjudged(finding) for finding in findings] if is_quick else findings


def best(costs: dict[str, Any], quantity: str, repeats: int | None = None) -> float:
    """The least of a quantity; of the first repeats where more were made for the score's sake."""
    return float(min(costs[quantity][:repeats]))


def beside_sklearn(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["speed"]:
        ours, theirs = (task["fits"][name] for name in (ROWS_PLAIN, SKLEARN_EXTRA))
        timed = task["timed_repeats"]
        ratio = best(theirs, "wall", timed) / best(ours, "wall", timed)
        below = mean(theirs["score"]) - mean(ours["score"])
        rows.append(
            [
                task["title"],
                times(ratio),
                times(task["target"]),
                verdict(reached=ratio >= task["target"]),
                times(best(theirs, "cpu", timed) / best(ours, "cpu", timed)),
                *(seconds(best(fits, "wall", timed)) for fits in (ours, theirs)),
                *(seconds(best(fits, "cpu", timed)) for fits in (ours, theirs)),
                f"{mean(ours['score']):.4f}",
                difference(ours["score"], theirs["score"]),
                verdict(reached=below <= MOST_BELOW),
            ]
        )
    header = [
        *("task", "faster", "target", "verdict", "less processor time", ROWS_PLAIN, SKLEARN_EXTRA),
        *(
            "processor time",
            "theirs",
            "accuracy",
            "less scikit-learn's",
            f"at most {MOST_BELOW} below",
        ),
    ]
    first = result["speed"][0]
    note = (
        f"scikit-learn's trees have all rows. Seconds: best of {first['timed_repeats']} repeats in "
        f"turns. Accuracy: mean over {_n_repeats(first)} repeats, each with its own seed, and the "
        "standard error of the difference. Thresholds between the points of two parties lie more "
        "often in the middle of a range than scikit-learn's, which suits shallow trees."
    )
    return Finding("Two parties beside scikit-learn", header, rows, note)


def _n_repeats(task: dict[str, Any]) -> int:
    return len(task["fits"][ROWS_PLAIN]["wall"])


def beside_plain(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["protected"]:
        plain = task["fits"][ROWS_PLAIN]
        for name, costs in task["fits"].items():
            ratio, most = best(costs, "wall") / best(plain, "wall"), MOST_OVER_PLAIN.get(name)
            rows.append(
                [
                    task["title"],
                    name,
                    f"{ratio:.2f}×",
                    NOTHING if most is None else f"{most}×",
                    NOTHING if most is None else verdict(reached=ratio <= most),
                    f"{best(costs, 'cpu') / best(plain, 'cpu'):.2f}×",
                    seconds(best(costs, "wall")),
                    seconds(best(costs, "cpu")),
                    f"{mean(costs['score']):.4f}",
                    _compare_scores(name, costs, plain),
                    megabytes(task["traffic"][name]["level_bytes"]),
                    str(task["traffic"][name]["exchanges"]),
                ]
            )
    header = [
        *("task", "protection", "over plain", "target, at most", "verdict"),
        *("processor time over plain", "seconds", "processor time", "accuracy", "forest"),
        *("sent and received", "exchanges"),
    ]
    note = (
        f"Best of {_n_repeats(result['protected'][0])} repeats, in turns. Equal scores on every "
        "repeat: masks, ring and shares give the plain sums, so it is the same forest. With noise "
        "accuracy falls; the accuracy experiment shows how far."
    )
    return Finding("What protection costs", header, rows, note)


def _compare_scores(name: str, costs: dict[str, Any], plain: dict[str, Any]) -> str:
    if name not in SAME_FOREST:
        return NOTHING
    return "equal" if costs["score"] == plain["score"] else "DIFFERENT"


def beside_xgboost(result: dict[str, Any]) -> Finding:
    note = (
        "XGBoost's horizontal federation, plaintext: 20 parallel trees with the best of all "
        "thresholds, 6 of 40 columns at a node, subsample 0.63, 255 bins; from connected to "
        "trained, the slower of its two parties, one thread each. Its server and parties are "
        "processes that talk over loopback, ours live in one process and exchange encoded "
        "messages. Its processor time is that of its parties."
    )
    return compare(result["xgboost"], ROWS_PLAIN, LEAST_OVER_XGBOOST, note)


def training_growth(result: dict[str, Any]) -> Finding:
    rows = []
    for series in result["growth"].values():
        for point in series["points"]:
            plain, masked = (point["modes"][mode] for mode in ("plain", "masked"))
            rows.append(
                [
                    QUANTITIES[series["quantity"]],
                    f"{point[series['quantity']]:,}",
                    *(seconds(best(costs, "wall")) for costs in (plain, masked)),
                    *(seconds(best(costs, "cpu")) for costs in (plain, masked)),
                    *(megabytes(costs["level_bytes"]) for costs in (plain, masked)),
                    *(str(costs["exchanges"]) for costs in (plain, masked)),
                ]
            )
    header = [
        *("varied", "value", "seconds", "masked", "processor time", "masked"),
        *("sent and received", "masked", "exchanges", "masked"),
    ]
    note = (
        "One quantity varies; the others are 100,000 rows, of which four fifths are trained on, "
        "2 parties (20 while k varies), 20 trees, depth 8, k all other parties. Best of the "
        "repeats; all parties share two cores; bytes of all levels, both directions."
    )
    return Finding("How training grows", header, rows, note)


def settings(result: dict[str, Any]) -> Finding:
    rows = [[name, note] for name, note in result["contestants"].items()]
    rows += [[name, f"not run: {reason}"] for name, reason in result["skipped"].items()]
    note = (
        f"Everybody: {result['settings']['threads']} threads, sqrt of the columns at every node; "
        "extra-trees without bootstrap; 40 columns, 20 of them informative."
    )
    return Finding("Who took part, and how", ["who", "setting"], rows, note)
