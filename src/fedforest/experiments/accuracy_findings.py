"""The findings in `accuracy.json`: means, tests, intervals and verdicts, and their page.

The only place where the experiment is judged; terminal, page and figure all read it.
"""

from pathlib import Path
from typing import Any

from fedforest.experiments.accuracy_record import DataSetRecord
from fedforest.experiments.findings import NOTHING, Finding, to_markdown, verdict
from fedforest.experiments.result_file import tell_runs
from fedforest.experiments.statistics import Interval, paired_interval, z_test

# Method -> its name in the papers, in the order of their tables.
METHODS = {
    "party_1": "RF1",
    "party_2": "RF2",
    "linear": "F-LR",
    "pooled": "NonFF",
    "federated": "FF",
}
LEAST_P = 0.01


def read_records(result: dict[str, Any]) -> list[DataSetRecord]:
    """Return the data sets on which both forests were scored often enough to compare."""
    records = [DataSetRecord(**entry) for entry in result["data_sets"].values()]
    return [record for record in records if len(record.paired("federated", "pooled")[0]) >= 2]


def find(result: dict[str, Any]) -> list[Finding]:
    """Return all findings, in the order a reader wants them."""
    records = read_records(result)
    return [lossless(records), scores(records), together(records), settings(result)]


def tell_number(record: DataSetRecord, value: float) -> str:
    return f"{value:.3f}" if record.task == "regression" else f"{value:.4f}"


def loss_interval(record: DataSetRecord) -> Interval:
    """Federated less pooled: accuracy, or a share of the pooled RMSE."""
    federated, pooled = record.paired("federated", "pooled")
    interval = paired_interval(federated, pooled)
    return interval.scaled(1.0 / pooled.mean()) if record.task == "regression" else interval


def gain_interval(record: DataSetRecord, method: str) -> Interval | None:
    """By how much the federated forest is the better one, in the measure of the data set."""
    federated, other = record.paired("federated", method)
    if len(federated) < 2:
        return None
    if record.task == "regression":
        federated, other = other, federated  # of errors the smaller is the better
    return paired_interval(federated, other)


def lossless(records: list[DataSetRecord]) -> Finding:
    """Federated against pooled: the papers' test, and the interval."""
    rows = []
    for record in records:
        federated, pooled = record.paired("federated", "pooled")
        p, interval = z_test(federated, pooled), loss_interval(record)
        unit = 100.0 if record.task == "regression" else 1.0
        form = "{:+.2f}%" if record.task == "regression" else "{:+.4f}"
        told = [form.format(unit * value) for value in interval]
        rows.append(
            [
                record.name,
                record.measure,
                f"{p:.3f}",
                verdict(reached=p >= LEAST_P),
                told[0],
                f"{told[1]} to {told[2]}",
                form.format(unit * record.tolerance).replace("+", "±"),
                verdict(reached=interval.lies_within(record.tolerance)),
                str(len(federated)),
            ]
        )
    return Finding(
        "Federated beside pooled",
        [
            *("data set", "measure", "z-test p", f"p ≥ {LEAST_P}", "FF less NonFF"),
            *("95% interval", "allowed", "inside", "repetitions"),
        ],
        rows,
        "Two-sided z-test of equal means, as in the papers; Student's interval of the difference, "
        "repetition by repetition on the same rows. Differences of RMSE are shares of the pooled "
        "one's mean.",
    )


def scores(records: list[DataSetRecord]) -> Finding:
    """Return the papers' Tables 3 and 4."""
    rows = [
        [
            f"{record.name} ({record.n_rows:,} × {record.n_columns})",
            record.measure,
            *(_mean_and_spread(record, method) for method in METHODS),
        ]
        for record in records
    ]
    return Finding(
        "Scores on rows held out",
        ["data set", "measure", *METHODS.values()],
        rows,
        "Mean ± standard deviation over the repetitions. RF1 and RF2: scikit-learn's forest on the "
        "columns of one party; F-LR: federated logistic or linear regression; NonFF: "
        "scikit-learn's forest on all columns; FF: ours over both parties.",
    )


def _mean_and_spread(record: DataSetRecord, method: str) -> str:
    (values,) = record.paired(method)
    if len(values) < 2:
        return NOTHING
    mean, spread = values.mean(), values.std(ddof=1)
    return f"{tell_number(record, mean)} ± {tell_number(record, spread)}"


def together(records: list[DataSetRecord]) -> Finding:
    """Is it worth joining? Federated against each party alone and against linear models."""
    rows = []
    for record in records:
        cells = []
        for method in ("party_1", "party_2", "linear"):
            gain = gain_interval(record, method)
            if gain is None:
                cells.append([NOTHING, NOTHING])
                continue
            mean, low, high = (tell_number(record, value) for value in gain)
            cells.append([f"{mean} ({low} to {high})", _tell_gain(gain)])
        rows.append([record.name, record.measure, *(cell for pair in cells for cell in pair)])
    return Finding(
        "What joining gains",
        [
            *("data set", "measure", "over RF1", "better"),
            *("over RF2", "better", "over F-LR", "better"),
        ],
        rows,
        "By how much the federated forest is better on average (accuracy higher, RMSE lower), with "
        'the 95% interval of the paired difference; "yes" where all of it is above zero.',
    )


def _tell_gain(gain: Interval) -> str:
    if gain.mean <= 0.0:
        return "no"
    return "yes" if gain.low > 0.0 else "on average"


def settings(result: dict[str, Any]) -> Finding:
    """Return the parameters of all forests."""
    chosen = result["settings"]
    rows = [
        ["trees", f"{chosen['n_trees']}, grown out, bootstrap of as many draws as rows"],
        [
            "columns tried at a node",
            ", ".join(f"{r.name}: {_tell_features(r.max_features)}" for r in read_records(result)),
        ],
        ["rows held out", f"{chosen['test_share']:.0%}, at random, not stratified"],
        ["columns", "halves at random, anew for every repetition; all methods get the same"],
        ["parkinson", "rows of one subject may be on both sides, as in the papers; no `id` column"],
        ["ours", "at most 255 bins per column; soft votes, as scikit-learn's"],
        ["F-LR", "the estimators' defaults; two classes or a number, as in the papers"],
        ["seed", f"{chosen['seed']}; each repetition derives its own"],
    ]
    return Finding("Settings", ["what", "setting"], rows)


def _tell_features(max_features: str | float) -> str:
    if isinstance(max_features, str):
        return max_features
    return f"{max_features:.2f} of them"


def write_page(result: dict[str, Any], page: Path) -> None:
    """The page, from the result alone; the figure is expected beside it."""
    parts = [
        "# Accuracy: federated beside pooled",
        "Generated by `python -m fedforest.experiments.accuracy` from `accuracy.json`; do not "
        "edit. Repeats Tables 3 and 4 of the Federated Forest paper: two parties, one forest.",
        "![Differences and scores](accuracy.png)",
        *(to_markdown(finding) for finding in find(result)),
        tell_runs(result, _tell_added),
    ]
    page.write_text("\n\n".join(parts) + "\n")


def _tell_added(added: dict[str, Any]) -> str:
    methods = {name: ", ".join(METHODS[method] for method in added[name]) for name in added}
    return "Added " + "; ".join(f"{name}: {told}" for name, told in methods.items())
