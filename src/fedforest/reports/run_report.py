"""The report of a run of a federation, as one HTML file that can be mailed.

It says what the user who asked may know: scores, importances without the names of other parties'
columns, leakage. Trees are shown where the user has the whole model: a horizontal one.
"""

import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedforest.release import __version__
from fedforest.reports.charts import Bar, ScoreInterval
from fedforest.reports.facts import (
    describe_order,
    list_facts,
    tabulate_confusion,
    tabulate_scores,
)
from fedforest.reports.formats import format_bytes, format_score, format_seconds
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import (
    Tile,
    confusion_markup,
    curve_section,
    fact_list,
    importance_section,
    leakage_section,
    parameter_section,
    provenance_section,
    score_section,
    section,
    tree_section,
    wilson_interval,
    write_page,
)
from fedforest.reports.trees import read_tree
from fedforest.runtime.messages.results import (
    HorizontalResult,
    RunDetails,
    ValidationReport,
    VerticalResult,
)
from fedforest.tree.files.forests import StoredForest, decode_forest

N_TREES = 3
_WORTH = ("accuracy", "r2")  # by which a federated model is compared with those of parties
_BADGES = {"finished": "", "running": "", "queued": "warn", "paused": "warn"}
AnyResult = VerticalResult | HorizontalResult | None


def write_run_report(details: RunDetails, result: AnyResult = None) -> str:
    """Return the page of a run; without its result it has no importances and no trees."""
    state = details.state
    kind = _BADGES.get(state.state, "bad")
    badge = element("span", state.state, class_=f"badge {kind}".strip())
    lead: Child = [badge, " ", describe_order(state.protocol, details.order)]
    title = state.name or f"Run {state.run[:12]}"
    return write_page(title, lead, list_tiles(details), _sections(details, result))


def _sections(details: RunDetails, result: AnyResult) -> list[Markup]:
    parts: list[Markup] = []
    if details.state.doing:
        parts.append(section("What it waits for", element("p", details.state.doing)))
    if details.validation is not None:
        parts += [describe_scores(details), *describe_worth(details.validation)]
    return [*parts, *describe_result(result), *describe_records(details)]


def describe_result(result: AnyResult) -> list[Markup]:
    """Return what a model goes by, as far as its user has it."""
    if isinstance(result, VerticalResult):
        return _describe_vertical(result)
    if isinstance(result, HorizontalResult):
        return describe_forest(decode_forest(result.file), parties=["all parties"])
    return []


def describe_records(details: RunDetails) -> list[Markup]:
    """Return who learned what, parameters, traffic and provenance."""
    parts: list[Markup] = []
    if details.leakage is not None:
        parts.append(leakage_section(details.leakage))
    parameters = details.order.get("parameters")
    if isinstance(parameters, dict):
        others = {name: details.order[name] for name in details.order if name in _OPTIONS}
        parts.append(parameter_section({**parameters, **others}))
    if details.bytes_from:
        parts.append(section("What travelled", _traffic(details)))
    parts.append(provenance_section(_provenance(details)))
    return parts


_OPTIONS = {
    *("label_epsilon", "encrypts_labels", "out_of_bag", "hard_votes", "align", "aggregation"),
    *("privacy", "participation", "participation_scope", "min_participants", "class_weight"),
}


def list_tiles(details: RunDetails) -> list[Tile]:
    """Return the figures that stand in large type."""
    tiles = []
    if details.validation is not None:
        values = details.validation.federated.values
        names = [name for name in ("accuracy", "auc", "r2", "rmse") if name in values]
        tiles += [Tile(format_score(values[name]), name) for name in names]
    if details.n_rows is not None:
        tiles.append(Tile(f"{details.n_rows:,}", "rows trained on"))
    n_trees = details.n_trees or details.order.get("parameters", {}).get("n_estimators")
    if n_trees:
        tiles.append(Tile(f"{n_trees:,}", "trees"))
    tiles.append(Tile(str(len(details.order["data"])), "parties"))
    if details.started is not None and details.state.ended is not None:
        tiles.append(
            Tile(format_seconds(details.state.ended - details.started), "from begin to end")
        )
    return tiles


def describe_scores(details: RunDetails) -> Markup:
    """Return the scores of a run that held rows out."""
    report = details.validation
    assert report is not None
    confusion = tabulate_confusion(report.federated, details.classes)
    return score_section(tabulate_scores(report), _intervals(report), confusion_markup(confusion))


def describe_worth(report: ValidationReport) -> list[Markup]:
    """Return what the federated model adds to what each party reaches alone, if that is known."""
    measure = next((name for name in _WORTH if name in report.federated.values), None)
    if measure is None or not report.alone:
        return []
    rows: list[list[Child]] = []
    for party, alone in report.alone.items():
        together = report.by_party.get(party, report.federated).values.get(measure)
        by_itself = alone.values.get(measure)
        if together is not None and by_itself is not None:
            gain = f"{together - by_itself:+.4f}"
            rows.append([party, format_score(by_itself), format_score(together), gain])
    headings = ["Party", f"{measure} alone", f"{measure} federated", "gain"]
    return [section("What it is worth to each party", table(headings, rows))]


def _intervals(report: ValidationReport) -> list[ScoreInterval]:
    scores = {"federated": report.federated} | {
        f"{party} alone": score for party, score in report.alone.items()
    }
    return [
        ScoreInterval(name, value, *wilson_interval(value, score.n_rows), owner=int(number > 0))
        for number, (name, score) in enumerate(scores.items())
        if (value := score.values.get("accuracy")) is not None
    ]


def _describe_vertical(result: VerticalResult) -> list[Markup]:
    parts = []
    bars, withheld = list_importances(result)
    if bars:
        parties = list(result.columns_per_party)
        note = "Columns of parties have numbers here: their names stay with their owners."
        if withheld:
            note += f" Importances are withheld by {', '.join(withheld)}."
        parts.append(importance_section(bars, parties, note))
    if result.out_of_bag_curve is not None:
        parts.append(curve_section(np.frombuffer(result.out_of_bag_curve, "<f8").tolist()))
    return parts


def list_importances(result: VerticalResult) -> tuple[list[Bar], list[str]]:
    """Return the importance of every column that is told, and the parties that withhold theirs."""
    bars, withheld = [], []
    for number, (party, told) in enumerate(result.importances.items()):
        if told is None:
            withheld.append(party)
            continue
        for column, value in enumerate(np.frombuffer(told, "<f8").tolist(), 1):
            bars.append(Bar(f"{party}, column {column}", value, number))
    return bars, withheld


def describe_forest(stored: StoredForest, parties: Sequence[str]) -> list[Markup]:
    """Return importances and a few trees of a forest whose columns are known."""
    values = stored.forest.importances().tolist()
    bars = [Bar(name, value) for name, value in zip(stored.bins.names, values, strict=True)]
    trees = range(min(N_TREES, stored.forest.shape.n_trees))
    drawn = {tree + 1: read_tree(stored, tree, {}) for tree in trees}
    return [importance_section(bars, parties), tree_section(drawn, parties)]


def _traffic(details: RunDetails) -> Markup:
    sent = [(party, format_bytes(n)) for party, n in details.bytes_from.items()]
    got = [(f"{party} received", format_bytes(n)) for party, n in details.bytes_to.items()]
    exchanges = ("exchanges", f"{details.state.n_exchanges:,}")
    return fact_list([exchanges, *((f"{party} sent", told) for party, told in sent), *got])


def _provenance(details: RunDetails) -> list[tuple[str, Any]]:
    told = [fact for fact in list_facts(details) if fact[0] not in ("Order", "Sent", "Received")]
    return [
        *told,
        ("Report by", f"fedforest {__version__}, Python {platform.python_version()}"),
    ]
