"""What `pooled.json` says: every ratio, every target and whether it was reached.

The only place where targets are judged; the terminal, the page and the figure all read it.
"""

from typing import Any, NamedTuple

from benchmarks.contestants import OURS, OURS_EXTRA, SKLEARN, SKLEARN_EXTRA
from fedforest.experiments.findings import (
    NOTHING,
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

RIVALS = ("XGBoost", "LightGBM")
SCORE_TOLERANCE = 0.01
PREDICTION_TARGET = 2.0
MEMORY_TARGETS = {"binary-1m-depth-10": 1.5}
WARM_START_SECONDS = 3.0


class Ratio(NamedTuple):
    """How many times faster than scikit-learn one contestant trained on one task."""

    task: str
    title: str
    contestant: str
    value: float
    target: float


def find(result: dict[str, Any]) -> list[Finding]:
    """All findings of a pooled run, in the order a reader wants them."""
    findings = []
    if result["speed"]:
        findings = [training(result), processor(result), scores(result), prediction(result)]
        findings.append(memory(result))
    if any(OURS_EXTRA in task["fits"] for task in result["speed"]):
        findings.append(extra_trees(result))
    if result["start_up"]:
        findings.append(start_up(result))
    if result["real"]:
        findings.append(real_tables(result))
    findings.append(settings(result))
    return [unjudged(finding) for finding in findings] if is_quick(result) else findings


def is_quick(result: dict[str, Any]) -> bool:
    """Whether the tasks were shrunk, so that no target applies."""
    return bool(result["settings"]["quick"])


def speed_ratios(result: dict[str, Any]) -> list[Ratio]:
    """Ratios of the best wall time of scikit-learn's random forest to that of each other one."""
    found = []
    for task in result["speed"]:
        theirs = _best(task, SKLEARN, "wall")
        for name in (OURS, *RIVALS):
            own = _best(task, name, "wall")
            if theirs and own:
                found.append(Ratio(task["name"], task["title"], name, theirs / own, task["target"]))
    return found


def _best(task: dict[str, Any], name: str, quantity: str) -> float | None:
    fits = task["fits"].get(name)
    return min(fits[quantity]) if fits else None


def _ratio(task: dict[str, Any], quantity: str, pair: tuple[str, str]) -> float | None:
    """Theirs over ours: above one, ours is the quicker."""
    ours, theirs = (_best(task, name, quantity) for name in pair)
    return theirs / ours if ours and theirs else None


def training(result: dict[str, Any]) -> Finding:
    rows = []
    slow = f"{result['settings']['slow_seconds']:.0f}"
    for task in result["speed"]:
        ratio = _ratio(task, "wall", (OURS, SKLEARN))
        judged = verdict(reached=ratio >= task["target"]) if ratio else NOTHING
        columns = [seconds(_best(task, name, "wall")) for name in (OURS, SKLEARN, *RIVALS)]
        repeats = str(len(task["fits"][OURS]["wall"]))
        rows.append([task["title"], times(ratio), times(task["target"]), judged, *columns, repeats])
    return Finding(
        "Training: times faster than scikit-learn",
        ["task", "faster", "target", "verdict", OURS, SKLEARN, *RIVALS, "repeats"],
        rows,
        "Seconds on the clock, best of the repeats, in rotating order in one process. One repeat "
        f"of XGBoost or LightGBM suffices where they need over {slow} s.",
    )


def processor(result: dict[str, Any]) -> Finding:
    rows = [
        [
            task["title"],
            times(_ratio(task, "cpu", (OURS, SKLEARN))),
            *(seconds(_best(task, name, "cpu")) for name in (OURS, SKLEARN, *RIVALS)),
        ]
        for task in result["speed"]
    ]
    return Finding(
        "Training: processor time",
        ["task", "less than scikit-learn", OURS, SKLEARN, *RIVALS],
        rows,
        "Seconds of processor over all threads, best of the repeats.",
    )


def scores(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["speed"]:
        measure = "R²" if task["kind"] == "regression" else "accuracy"
        rivals = [_mean_score(task, name) for name in RIVALS]
        rows.append([task["title"], measure, *_compare_scores(task, (OURS, SKLEARN)), *rivals])
    return Finding(
        f"Score: at most {SCORE_TOLERANCE} below scikit-learn",
        ["task", "measure", OURS, SKLEARN, "difference", "verdict", *RIVALS],
        rows,
        "On the fifth of the rows that was held out; mean over the repeats, each with its own "
        "seed, and the standard error of the difference over seeds.",
    )


def _mean_score(task: dict[str, Any], name: str) -> str:
    fits = task["fits"].get(name)
    return f"{mean(fits['score']):.4f}" if fits else NOTHING


def _compare_scores(task: dict[str, Any], pair: tuple[str, str]) -> list[str]:
    """Ours, theirs, the difference, and whether it is small enough."""
    ours, theirs = (task["fits"][name]["score"] for name in pair)
    judged = verdict(reached=mean(ours) - mean(theirs) >= -SCORE_TOLERANCE)
    return [*(_mean_score(task, name) for name in pair), difference(ours, theirs), judged]


def prediction(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["speed"]:
        ratio = _ratio(task, "predict", (OURS, SKLEARN))
        judged = verdict(reached=ratio >= PREDICTION_TARGET) if ratio else NOTHING
        columns = [milliseconds(_best(task, name, "predict")) for name in (OURS, SKLEARN, *RIVALS)]
        rows.append([task["title"], times(ratio), times(PREDICTION_TARGET), judged, *columns])
    n_rows = result["settings"]["prediction_rows"]
    return Finding(
        f"Prediction of {n_rows:,} rows: times faster than scikit-learn",
        ["task", "faster", "target", "verdict", OURS, SKLEARN, *RIVALS],
        rows,
        "From float32 rows to answers, binning included; a shorter test set is repeated.",
    )


def memory(result: dict[str, Any]) -> Finding:
    rows, methods = [], set()
    for task in result["speed"]:
        peaks = {name: entry.get("peak_bytes") for name, entry in task["memory"].items()}
        methods |= {entry.get("method", entry.get("reason")) for entry in task["memory"].values()}
        share = peaks[OURS] / task["table_bytes"] if peaks.get(OURS) is not None else None
        target = MEMORY_TARGETS.get(task["name"])
        judged = verdict(reached=share <= target) if share is not None and target else NOTHING
        columns = [megabytes(peaks.get(name)) for name in (OURS, SKLEARN, *RIVALS)]
        table = megabytes(task["table_bytes"])
        rows.append([task["title"], table, times(share), times(target), judged, *columns])
    return Finding(
        "Peak memory of training, above the level at its start",
        ["task", "table", "ours / table", "target, at most", "verdict", OURS, SKLEARN, *RIVALS],
        rows,
        f"One fit in a process of its own, after a small one; {', '.join(sorted(methods))}. The "
        "table is the float32 training rows, which are there before.",
    )


def extra_trees(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["speed"]:
        pair = (OURS_EXTRA, SKLEARN_EXTRA)
        ratio = times(_ratio(task, "wall", pair))
        columns = [seconds(_best(task, name, "wall")) for name in pair]
        peaks = [megabytes(task["memory"].get(name, {}).get("peak_bytes")) for name in pair]
        rows.append([task["title"], ratio, *columns, *_compare_scores(task, pair), *peaks])
    return Finding(
        "Extremely randomized trees",
        [
            *("task", "faster", OURS, SKLEARN, "score", "score there", "difference", "verdict"),
            *("memory", "memory there"),
        ],
        rows,
        "Measured as above; no target is set for their speed.",
    )


def start_up(result: dict[str, Any]) -> Finding:
    rows = []
    for kind, runs in result["start_up"].items():
        cold, warm = runs["cold"], runs["warm"]
        start = warm["import"] + warm["first_fit"]
        judged = verdict(reached=start < WARM_START_SECONDS)
        compiling = seconds(cold["first_fit"] - cold["second_fit"])
        parts = [seconds(warm["import"]), seconds(warm["first_fit"]), seconds(warm["second_fit"])]
        rows.append([kind, compiling, *parts, seconds(start), judged])
    return Finding(
        f"Start: first small fit of a process in under {WARM_START_SECONDS:.0f} s",
        [
            "kind",
            "compiling, once",
            "import",
            "first fit",
            "second fit",
            "import + first",
            "verdict",
        ],
        rows,
        "Compiling is the first fit with an empty kernel cache less the second fit; the other "
        "columns are of another process that finds the cache filled.",
    )


def real_tables(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["real"]:
        ours, theirs = (mean(task["fits"][name]["score"]) for name in (OURS, SKLEARN))
        is_error = task["measure"] == "RMSE"
        behind = ours / theirs - 1.0 if is_error else theirs - ours
        form = "{:.3f}" if is_error else "{:.4f}"
        limit = f"{task['tolerance']:.0%}" if is_error else f"{task['tolerance']}"
        rows.append(
            [
                f"{task['name']} ({task['n_rows']:,} × {task['n_columns']})",
                task["measure"],
                form.format(ours),
                form.format(theirs),
                f"{behind:+.2%}" if is_error else f"{-behind:+.4f}",
                limit,
                verdict(reached=behind <= task["tolerance"]),
                times(_ratio(task, "wall", (OURS, SKLEARN))),
                f"{task['setting']}, {len(task['fits'][OURS]['score'])} seeds",
            ]
        )
    header = [
        "table",
        "measure",
        OURS,
        SKLEARN,
        "difference",
        "allowed",
        "verdict",
        "faster",
        "setting",
    ]
    return Finding(
        "Real tables",
        header,
        rows,
        "Mean over seeds on one division of the rows. We read text as it is; scikit-learn gets "
        "codes, made before the clock starts.",
    )


def settings(result: dict[str, Any]) -> Finding:
    rows = [[name, note] for name, note in result["contestants"].items()]
    rows += [[name, f"left out: {reason}"] for name, reason in result["absent"].items()]
    rows += [[name, f"not run: {reason}"] for name, reason in result["skipped"].items()]
    note = (
        f"Everybody: {result['settings']['threads']} threads, the same trees and depth, sqrt of "
        "the 40 columns (20 informative) at every node unless a setting says otherwise, four "
        "fifths of the rows to train on."
    )
    return Finding("Who took part, and how", ["who", "setting"], rows, note)
