"""The findings in `horizontal_accuracy.json`: means, intervals and verdicts, and their page.

The only place where the experiments are judged; terminal, page and figures all read it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedforest.experiments.findings import (
    NOTHING,
    Finding,
    digits,
    to_markdown,
    verdict,
)
from fedforest.experiments.horizontal_cells import apart, mean_of, tell_interval, tell_mean
from fedforest.experiments.horizontal_methods import FULL, LOCAL, METHODS, QUERY, TOTAL, Noise
from fedforest.experiments.horizontal_record import EXPERIMENT, HorizontalDataSetRecord, read_groups
from fedforest.experiments.horizontal_tasks import TASKS
from fedforest.experiments.participation_findings import falling, participation
from fedforest.experiments.result_file import tell_runs
from fedforest.experiments.statistics import paired_interval

MOST_APART = 0.01  # FET and ET
MOST_LOST_LOCALLY = 0.03  # FET and FET-LDP
JUDGED_LOCALLY = ("spambase", "waveform")
SUMS = ("query", "composed")
NOISY = (
    *("accuracy", "without noise", "less that", "less FET", "95% interval of that"),
    "repetitions",
)


def find(result: dict[str, Any]) -> list[Finding]:
    """Return all findings, in the order a reader wants them."""
    compared, partial = choose_records(result)
    findings = []
    if compared:
        findings += [beside_pooled(compared), scores(compared)]
        findings += [local_noise(compared), *(global_noise(compared, n) for n in (QUERY, TOTAL))]
        findings = [finding for finding in findings if finding.rows]
    if partial:
        findings += [participation(partial), falling(partial)]
    return [*findings, settings(result)]


def choose_records(result: dict[str, Any]) -> tuple[list[HorizontalDataSetRecord], ...]:
    """Return the data sets of two and of ten parties on which enough was measured to compare."""
    groups = read_groups(result)
    two, ten = (list(groups[group].values()) for group in ("two_parties", "ten_parties"))
    return (
        [record for record in two if record.n_repetitions("federated", "pooled") >= 2],
        [record for record in ten if record.n_repetitions(FULL) >= 2],
    )


def beside_pooled(records: list[HorizontalDataSetRecord]) -> Finding:
    """FET against scikit-learn's extra-trees on all rows."""
    rows = []
    for record in records:
        federated, pooled = record.paired("federated", "pooled")
        interval = paired_interval(federated, pooled)
        rows.append(
            [
                record.name,
                *tell_interval(interval),
                f"±{MOST_APART}",
                verdict(reached=interval.lies_within(MOST_APART)),
                str(len(federated)),
            ]
        )
    return Finding(
        "Two parties beside pooled rows",
        ["data set", "FET less ET", "95% interval", "allowed", "inside", "repetitions"],
        rows,
        "Accuracy on rows held out. ET: scikit-learn's extra-trees on the rows of both parties; "
        "FET: ours over two parties. Student's interval of the difference, repetition by "
        "repetition on the same rows.",
    )


def scores(records: list[HorizontalDataSetRecord]) -> Finding:
    """Table 2 of Federated Extra-Trees."""
    rows = []
    for record in records:
        size = f"{record.n_rows:,} × {record.n_columns}, {record.n_classes} classes"
        gained, interval = tell_interval(apart(record, "federated", "alone"))
        paper = TASKS[record.name].paper if record.name in TASKS else None
        rows.append(
            [
                f"{record.name} ({size})",
                *(tell_mean(record, method) for method in METHODS),
                f"{gained} ({interval})",
                *([f"{value:.3f}" for value in paper] if paper else [NOTHING] * 4),
            ]
        )
    header = ["data set", *METHODS.values(), "FET less one party"]
    return Finding(
        "Accuracy on rows held out",
        [*header, "paper: ET", "FET", "FET-LDP", "FET-GDP"],
        rows,
        "Mean ± standard deviation over the repetitions; one party has half of the rows. The last "
        "four columns are the paper's, which does not give its parameters and used all of KDD Cup "
        "99, of which ours is the official tenth.",
    )


def local_noise(records: list[HorizontalDataSetRecord]) -> Finding:
    """FET-LDP along the cap, and whether it is close enough to FET."""
    rows = []
    for record, cap in _measured(records, LOCAL):
        method = LOCAL.method(cap)
        loss = apart(record, method, "federated")
        judged = NOTHING
        if loss is not None and record.name in JUDGED_LOCALLY:
            judged = verdict(reached=loss.low >= -MOST_LOST_LOCALLY)
        spent = [digits(mean_of(record, method, f"epsilon_{kind}")) for kind in SUMS]
        rows.append([record.name, f"{cap:g}", *spent, *_noisy_cells(record, LOCAL, cap), judged])
    return Finding(
        "FET-LDP: local differential privacy",
        [
            "data set",
            "cap of ε",
            "ε of a query",
            "ε composed",
            *NOISY,
            f"within {MOST_LOST_LOCALLY}",
        ],
        rows,
        "The cap is what the permanent responses can ever tell about a label, however often it is "
        "asked about; composed is the sum over candidates, levels and trees; the guarantee is the "
        "smaller one. FET is the forest of the first table.",
    )


def global_noise(records: list[HorizontalDataSetRecord], noise: Noise) -> Finding:
    """FET-GDP along the epsilon of a query, or of the whole training."""
    rows = []
    for record, epsilon in _measured(records, noise):
        spent = [digits(mean_of(record, noise.method(epsilon), f"epsilon_{kind}")) for kind in SUMS]
        rows.append([record.name, *spent, *_noisy_cells(record, noise, epsilon)])
    chosen = "of a query" if noise is QUERY else "of a training"
    return Finding(
        f"FET-GDP: Laplace noise at each party, by the ε {chosen}",
        ["data set", "ε of a query", "ε of a training", *NOISY],
        rows,
        "A training is the sum over candidates, levels and trees; the paper's composition leaves "
        "the candidates out. The forest has other limits than FET: see below.",
    )


def _measured(
    records: list[HorizontalDataSetRecord], noise: Noise
) -> Iterator[tuple[HorizontalDataSetRecord, float]]:
    """Data sets and epsilons with enough repetitions to tell a spread."""
    for record in records:
        for epsilon in noise.epsilons:
            if record.n_repetitions(noise.method(epsilon), noise.reference) >= 2:
                yield record, epsilon


def _noisy_cells(record: HorizontalDataSetRecord, noise: Noise, epsilon: float) -> list[str]:
    method = noise.method(epsilon)
    return [
        tell_mean(record, method),
        tell_mean(record, noise.reference),
        tell_interval(apart(record, method, noise.reference))[0],
        *tell_interval(apart(record, method, "federated")),
        str(record.n_repetitions(method)),
    ]


def settings(result: dict[str, Any]) -> Finding:
    """Return the parameters of all forests, and how rows were dealt."""
    chosen = result["settings"]
    rows = [
        ["ET, FET", _tell_forest(chosen["exact_forest"])],
        ["FET-LDP", _tell_forest(chosen["local_forest"])],
        ["FET-GDP by the ε of a query", _tell_forest(chosen["query_forest"])],
        ["FET-GDP by the ε of a training", _tell_forest(chosen["total_forest"])],
        ["FET-LDP and the former on KDD Cup 99", _tell_forest(chosen["large_forest"])],
        ["a share of the parties", _tell_forest(chosen["participation_forest"])],
        ["rows", f"two parties: {_tell_dealing(chosen['two_parties'])}"],
        ["", f"participation: {_tell_dealing(chosen['ten_parties'])}"],
        ["texts", "categories for us; for scikit-learn places in the alphabet"],
        ["local noise", "one hash, one bit per class, p = 0.9, q = 0.1, keep as the cap demands"],
        ["participation", "masked sums, k all other participants, one thread"],
        ["seed", f"{chosen['seed']}; each repetition derives its own"],
    ]
    return Finding("Settings", ["what", "setting"], rows)


def _tell_forest(forest: dict[str, Any]) -> str:
    depth = forest["max_depth"]
    return (
        f"{forest['n_estimators']} trees, {'grown out' if depth is None else f'depth {depth}'}, at "
        f"least {forest['min_samples_leaf']} row(s) in a leaf, {forest['max_features']} of the "
        f"columns at a node, {forest['criterion']}, no bootstrap, soft votes"
    )


def _tell_dealing(dealing: dict[str, Any]) -> str:
    return (
        f"{dealing['test_share']:.0%} held out, the others in equal shares to "
        f"{dealing['n_parties']} parties, at random and anew for every repetition"
    )


def write_page(result: dict[str, Any], page: Path) -> None:
    """The page, from the result alone; the figures are expected beside it."""
    compared, partial = choose_records(result)
    figures = []
    if compared:
        figures.append(f"![Accuracy along epsilon]({EXPERIMENT}.png)")
    if partial:
        figures.append("![A share of the parties](horizontal_participation.png)")
    parts = [
        "# Accuracy of horizontal training",
        f"Generated by `python -m fedforest.experiments.{EXPERIMENT}` from `{EXPERIMENT}.json`; do "
        "not edit. Repeats Table 2 of Federated Extra-Trees and Figure 2 of k-PPD-ERT.",
        *figures,
        *(to_markdown(finding) for finding in find(result)),
        tell_runs(result, _tell_added),
    ]
    page.write_text("\n\n".join(parts) + "\n")


def _tell_added(added: dict[str, Any]) -> str:
    return "Measured: " + ", ".join(f"{count:,} on {name}" for name, count in added.items())
