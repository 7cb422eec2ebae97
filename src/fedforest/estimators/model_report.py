"""The report of a fitted estimator, as one HTML file: the model card of a forest."""

import platform
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedforest.errors import ConfigurationError
from fedforest.release import __version__
from fedforest.reports.charts import Bar, ScoreInterval
from fedforest.reports.facts import ConfusionTable, ScoreCell, ScoreTable
from fedforest.reports.formats import format_bytes, format_score
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import (
    Tile,
    confusion_markup,
    curve_section,
    details,
    importance_section,
    parameter_section,
    provenance_section,
    score_section,
    section,
    tree_section,
    wilson_interval,
    write_page,
)
from fedforest.reports.trees import read_tree
from fedforest.runtime.disclosure.leakage import LeakageReport
from fedforest.tree.files.forests import StoredForest
from fedforest.tree.forest.metrics import (
    CLASS_SCORES,
    NUMBER_SCORES,
    Judgement,
    score_classes,
    score_numbers,
)

_N_TREES = 3
_MOST_CLASSES = 10


class OwnedForest(NamedTuple):
    """A complete forest, its parties, and how many columns each of them owns, in order."""

    stored: StoredForest
    parties: Sequence[str]
    columns_per_party: Sequence[int]


class WritesReports:
    """For estimators: `report` writes what a committee reads before it approves a model."""

    @abstractmethod
    def _owned_forest(self) -> OwnedForest | None:
        """Return the complete forest; None where its splits are with their owners."""

    def report(self, path: str | Path, X: Any = None, y: Any = None) -> None:
        """Write a self-contained HTML file about the trained model.

        It has scores with intervals, importances, a few trees, parameters, the privacy spent and
        who learned what; light and dark, without any script or request.

        Parameters
        ----------
        path : str or Path
            The file to write.
        X, y : tables and targets as in `predict` and `fit`, optional
            Rows that training did not see, to score the model on. Without them, the report has the
            out-of-bag score if there is one.
        """
        check_is_fitted(self, "_model")
        if (X is None) != (y is None):
            raise ConfigurationError("rows to score on need their targets: pass X and y, or none")
        judged = None if X is None else _judge(self, X, y)
        Path(path).write_text(_write(self, self._owned_forest(), judged), "utf-8")


def _judge(estimator: Any, X: Any, y: Any) -> Judgement:
    targets = np.asarray(y)
    if not hasattr(estimator, "classes_"):
        return score_numbers(targets.astype(np.float64), estimator.predict(X))
    known = {label: code for code, label in enumerate(estimator.classes_.tolist())}
    codes = np.array([known.get(label, -1) for label in targets.tolist()], np.int64)
    return score_classes(codes, estimator.predict_proba(X))


def _write(estimator: Any, owned: OwnedForest | None, judged: Judgement | None) -> str:
    name = type(estimator).__name__
    task = "classes" if hasattr(estimator, "classes_") else "numbers"
    parties = list(estimator.parties_)
    told = f": {', '.join(parties)}" if parties else ""
    lead = f"A federated forest for {task}, trained by {len(parties)} parties{told}."
    return write_page(name, lead, _tiles(estimator, judged), _sections(estimator, owned, judged))


def _tiles(estimator: Any, judged: Judgement | None) -> list[Tile]:
    tiles = []
    if judged is not None:
        names = [name for name in ("accuracy", "auc", "r2", "rmse") if name in judged.values]
        tiles += [Tile(format_score(judged.values[name]), f"{name}, on new rows") for name in names]
    if hasattr(estimator, "oob_score_"):
        tiles.append(Tile(format_score(float(estimator.oob_score_)), "out-of-bag score"))
    tiles.append(Tile(f"{estimator.n_trees_:,}", "trees"))
    tiles.append(Tile(f"{estimator.n_features_in_:,}", "columns"))
    return tiles


def _sections(estimator: Any, owned: OwnedForest | None, judged: Judgement | None) -> list[Markup]:
    parts: list[Markup] = []
    if judged is not None:
        parts.append(_score_section(estimator, judged))
    curve = getattr(estimator, "oob_curve_", None)
    if curve is not None:
        parts.append(curve_section(np.asarray(curve, float).tolist()))
    if owned is not None:
        parts += _describe_forest(owned)
    spent, leakage = (
        getattr(estimator, "privacy_spent_", None),
        getattr(estimator, "leakage_", None),
    )
    if spent is not None:
        parts.append(_privacy_section(spent))
    if leakage is not None:
        parts.append(_leakage_section(leakage))
    parts.append(parameter_section(_plain_parameters(estimator)))
    parts.append(provenance_section(_provenance(estimator)))
    return parts


def _score_section(estimator: Any, judged: Judgement) -> Markup:
    names = [name for name in (*CLASS_SCORES, *NUMBER_SCORES) if name in judged.values]
    cells = [ScoreCell(format_score(judged.values[name])) for name in names]
    rows = [("federated", judged.n_rows, cells)]
    intervals = []
    if "accuracy" in judged.values:
        value = judged.values["accuracy"]
        intervals.append(ScoreInterval("federated", value, *wilson_interval(value, judged.n_rows)))
    confusion = None
    if judged.confusion is not None and len(judged.confusion) <= _MOST_CLASSES:
        classes = [*map(str, estimator.classes_.tolist()), "(not in training)"]
        confusion = ConfusionTable(classes[: len(judged.confusion)], judged.confusion.tolist())
    told = ScoreTable([name.replace("_", " ") for name in names], rows)
    return score_section(told, intervals, confusion_markup(confusion))


def _describe_forest(owned: OwnedForest) -> list[Markup]:
    owner_of = dict(
        enumerate(np.repeat(np.arange(len(owned.parties)), owned.columns_per_party).tolist())
    )
    stored = owned.stored
    values = stored.forest.importances().tolist()
    bars = [
        Bar(name, value, owner_of.get(feature, 0))
        for feature, (name, value) in enumerate(zip(stored.bins.names, values, strict=True))
    ]
    trees = range(min(_N_TREES, stored.forest.shape.n_trees))
    drawn = {tree + 1: read_tree(stored, tree, owner_of) for tree in trees}
    return [importance_section(bars, owned.parties), tree_section(drawn, owned.parties)]


def _privacy_section(spent: Any) -> Markup:
    lines: list[Child] = [element("p", element("strong", spent.summary))]
    lines.append(element("p", f"Protected: {spent['protected']}."))
    items = [element("li", each) for each in spent["not_protected"]]
    return section("Privacy", lines, details("Not protected", element("ul", items, class_="plain")))


def _leakage_section(leakage: LeakageReport) -> Markup:
    rows: list[list[Child]] = [
        [each.subject, element("strong", each.grade), each.why] for each in leakage.grades
    ]
    by_role: dict[str, list[Markup]] = {}
    for entry in leakage:
        by_role.setdefault(entry.who, []).append(element("li", entry.what))
    said = [
        details(f"{who} ({len(items)})", element("ul", items, class_="plain"))
        for who, items in by_role.items()
    ]
    graded = table(["What", "Grade", "Why"], rows) if rows else None
    return section("Who learned what", graded, said)


def _plain_parameters(estimator: Any) -> dict[str, Any]:
    """Parameters without mappings, which may name columns and classes by the thousand."""
    parameters = estimator.get_params(deep=False)
    return {
        name: value if not isinstance(value, dict) else f"{len(value)} entries"
        for name, value in parameters.items()
    }


def _provenance(estimator: Any) -> list[tuple[str, Child]]:
    facts: list[tuple[str, Child]] = []
    if hasattr(estimator, "n_exchanges_"):
        facts.append(("Exchanges", f"{estimator.n_exchanges_:,}"))
    if hasattr(estimator, "bytes_sent_"):
        sent = ", ".join(f"{party} {format_bytes(n)}" for party, n in estimator.bytes_sent_.items())
        facts.append(("Bytes sent", sent))
    where = "in this process" if estimator.transport is None else "in a federation"
    versions = (
        f"fedforest {__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    )
    return [("Trained", where), *facts, ("Versions", versions)]
