"""What `real_tables.json` says: ratios at default settings, and which targets are reached."""

from statistics import median
from typing import Any, NamedTuple

from fedforest.experiments.findings import (
    NOTHING,
    Finding,
    mean,
    milliseconds,
    seconds,
    times,
    unjudged,
    verdict,
)

VERTICAL_ONE = "vertical, 1 party"
VERTICAL_TWO = "vertical, 2 parties"
NATIVE = "vertical, 2 parties, native categories"
TLS = "vertical, 2 parties over TLS"
SKLEARN = "scikit-learn random forest"
INTELEX = "scikit-learn-intelex random forest"
ROWS_ONE = "horizontal, 1 party"
ROWS_FOUR = "horizontal, 4 parties"
ROWS_MASKED = "horizontal, 4 parties, masked"
ROWS_NATIVE = "horizontal, 4 parties, masked, native categories"
SKLEARN_EXTRA = "scikit-learn extra-trees"


class Target(NamedTuple):
    """What a way of training is to reach beside a rival, over all tables."""

    ours: str
    theirs: str
    median: float
    least: float


TARGETS = (
    Target(VERTICAL_TWO, SKLEARN, 4.0, 2.0),
    Target(VERTICAL_TWO, INTELEX, 1.0, 1.0),
    Target(TLS, SKLEARN, 2.5, 0.0),
    Target(ROWS_MASKED, SKLEARN_EXTRA, 1.3, 0.8),
)
NATIVE_FIT, NATIVE_PREDICTION = 1.3, 1.5  # times that of the same columns as numbers


def find(result: dict[str, Any]) -> list[Finding]:
    """All findings of a run, in the order a reader wants them."""
    if not result["tables"]:
        return [who(result)]
    found = [targets(result), vertical(result), horizontal(result), processor(result)]
    if any(NATIVE in table["fits"] for table in result["tables"]):
        found.append(categories(result))
    found += [scores(result), who(result)]
    return [unjudged(finding) for finding in found] if result["settings"]["quick"] else found


def best(table: dict[str, Any], name: str, quantity: str = "wall") -> float | None:
    """The best of the repeats; None where this one did not run."""
    measured = table["fits"].get(name, {}).get(quantity)
    return min(measured) if measured else None


def ratio(table: dict[str, Any], ours: str, theirs: str, quantity: str = "wall") -> float | None:
    """How many times faster ours is than theirs; None where one of them did not run."""
    own, other = best(table, ours, quantity), best(table, theirs, quantity)
    return other / own if own and other else None


def _title(table: dict[str, Any]) -> str:
    classes = f", {table['n_classes']} classes" if table["n_classes"] else ", a number"
    return f"{table['name']}, {table['n_rows']:,} × {table['n_columns']}{classes}"


def is_judged_by_processor(result: dict[str, Any]) -> bool:
    """Whether others kept the cores busy, so that seconds on the clock mean little."""
    environment = result["environment"]
    return bool(environment["load_at_start"] > environment["cores"])


def targets(result: dict[str, Any]) -> Finding:
    judging = "cpu" if is_judged_by_processor(result) else "wall"
    rows = []
    for target in TARGETS:
        cells: list[str] = []
        reached = True
        for quantity in ("wall", "cpu"):
            named = [
                (value, table["name"])
                for table in result["tables"]
                if (value := ratio(table, target.ours, target.theirs, quantity)) is not None
            ]
            if not named:
                break
            middle, (lowest, where) = median(value for value, _ in named), min(named)
            cells += [times(middle), f"{times(lowest)} ({where})"]
            if quantity == judging:
                reached = middle >= target.median and lowest >= target.least
        else:
            least = times(target.least) if target.least else NOTHING
            wanted = [times(target.median), least]
            rows.append([target.ours, target.theirs, *cells, *wanted, verdict(reached=reached)])
    judged = "processor time, for the machine was busy" if judging == "cpu" else "the clock"
    return Finding(
        "Times faster over all tables",
        [
            *("ours", "beside", "median, clock", "lowest, clock", "median, processor"),
            *("lowest, processor", "target, median", "target, lowest", "verdict"),
        ],
        rows,
        "Default settings: 100 trees, grown out, two threads. Best of the repeats, in rotating "
        "order in one process; over TLS every role is a process, timed after the others. Judged "
        f"by {judged}.",
    )


def vertical(result: dict[str, Any]) -> Finding:
    names = (VERTICAL_ONE, VERTICAL_TWO, NATIVE, TLS, INTELEX)
    return _beside(result, "Vertical: times faster than scikit-learn's forest", SKLEARN, names)


def horizontal(result: dict[str, Any]) -> Finding:
    names = (ROWS_ONE, ROWS_FOUR, ROWS_MASKED, ROWS_NATIVE)
    title = "Horizontal: times faster than scikit-learn's extra-trees"
    return _beside(result, title, SKLEARN_EXTRA, names)


def _beside(
    result: dict[str, Any], title: str, rival: str, names: tuple[str, ...], quantity: str = "wall"
) -> Finding:
    rows = [
        [
            _title(table),
            *(times(ratio(table, name, rival, quantity)) for name in names),
            seconds(best(table, rival, quantity)),
        ]
        for table in result["tables"]
    ]
    return Finding(title, ["table", *names, rival], rows)


def processor(result: dict[str, Any]) -> Finding:
    pairs = (
        (VERTICAL_ONE, SKLEARN),
        (VERTICAL_TWO, SKLEARN),
        (VERTICAL_TWO, INTELEX),
        (ROWS_ONE, SKLEARN_EXTRA),
        (ROWS_FOUR, SKLEARN_EXTRA),
        (ROWS_MASKED, SKLEARN_EXTRA),
    )
    rows = [
        [
            _title(table),
            *(times(ratio(table, *pair, "cpu")) for pair in pairs),
            seconds(best(table, VERTICAL_TWO, "cpu")),
            seconds(best(table, ROWS_MASKED, "cpu")),
        ]
        for table in result["tables"]
    ]
    header = [f"{ours} beside {theirs}" for ours, theirs in pairs]
    return Finding(
        "Processor time: times less",
        ["table", *header, VERTICAL_TWO, ROWS_MASKED],
        rows,
        "Over all threads, best of the repeats; steadier than the clock on a busy machine.",
    )


def categories(result: dict[str, Any]) -> Finding:
    rows = []
    is_busy = is_judged_by_processor(result)
    quantities = ("cpu", "predict_cpu") if is_busy else ("wall", "predict")
    for table in result["tables"]:
        for native, coded in ((NATIVE, VERTICAL_TWO), (ROWS_NATIVE, ROWS_MASKED)):
            fit, answer = (ratio(table, coded, native, quantity) for quantity in quantities)
            if fit is None or answer is None:
                continue
            reached = fit <= NATIVE_FIT and answer <= NATIVE_PREDICTION
            walls = [seconds(best(table, name)) for name in (native, coded)]
            answers = [milliseconds(best(table, name, "predict")) for name in (native, coded)]
            costs = [times(fit), times(NATIVE_FIT), times(answer), times(NATIVE_PREDICTION)]
            judged = verdict(reached=reached)
            rows.append([_title(table), coded, *costs, judged, *walls, *answers])
    return Finding(
        "Text columns as native categories beside the same columns as numbers",
        [
            *("table", "way", "training", "target, at most", "prediction", "target, at most"),
            *("verdict", "training, native", "as numbers", "prediction, native", "as numbers"),
        ],
        rows,
        "Codes are made before the clock starts. Native prediction reads text. Ratios are of "
        + ("processor time." if is_busy else "the clock."),
    )


def scores(result: dict[str, Any]) -> Finding:
    names = (VERTICAL_TWO, NATIVE, SKLEARN, INTELEX, ROWS_MASKED, SKLEARN_EXTRA)
    rows = [
        [
            _title(table),
            "accuracy" if table["n_classes"] else "R²",
            *(_mean_score(table, name) for name in names),
        ]
        for table in result["tables"]
    ]
    return Finding("Score", ["table", "measure", *names], rows, "Mean over the repeats.")


def _mean_score(table: dict[str, Any], name: str) -> str:
    fits = table["fits"].get(name)
    return f"{mean(fits['score']):.4f}" if fits else NOTHING


def who(result: dict[str, Any]) -> Finding:
    notes = {
        "defaults": "every library's own, with two threads; extra-trees draw no bootstrap",
        "tables": "four fifths of the rows to train on; (made) tables are drawn from a seed in "
        "the shape of known ones; text as codes unless native categories are named",
        VERTICAL_TWO: "each with half of the columns, in one process; messages are encoded, "
        "carried and decoded as on a network; binning is part of its time",
        ROWS_MASKED: "each with a quarter of the rows; masks that cancel in the sum, key "
        "agreement included",
    }
    rows = [[name, note] for name, note in notes.items()]
    rows += [[name, f"left out: {reason}"] for name, reason in result["absent"].items()]
    rows += [[name, f"not run: {reason}"] for name, reason in result["skipped"].items()]
    return Finding("Who took part, and how", ["who", "setting"], rows)
