"""The self-contained page: one file with its style sheet, without script and without any request.

Sections of all reports are here; `run_report.py` fills them from a run of a federation,
`estimators/model_report.py` from a fitted estimator.
"""

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from fedforest.reports.charts import (
    Bar,
    ScoreInterval,
    bar_chart,
    heat_table,
    interval_chart,
    line_chart,
)
from fedforest.reports.facts import ConfusionTable, ScoreTable
from fedforest.reports.leakage_text import explain, summarise
from fedforest.reports.markup import Child, Markup, element, join, table, trusted_text
from fedforest.reports.trees import DrawnNode, draw_tree, list_owners

MOST_BARS = 20
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_Z = 1.959964  # of a two-sided interval of 95 %


class Tile(NamedTuple):
    """A figure that stands in large type, and what it is."""

    figure: str
    label: str


def read_style() -> str:
    """Return the style sheet, which pages of the dashboard have as a file."""
    return (files("fedforest.reports") / "style.css").read_text("utf-8")


def write_page(title: str, lead: Child, tiles: Sequence[Tile], sections: Sequence[Markup]) -> str:
    """Return the whole document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title} · fedforest"),
        element("style", trusted_text(read_style())),
    )
    shown = [
        element("li", element("b", tile.figure), element("span", tile.label)) for tile in tiles
    ]
    top = element("header", element("h1", title), element("div", lead, class_="lead"))
    body = element("main", top, element("ul", shown, class_="tiles"), sections)
    return f"<!doctype html>\n{element('html', head, element('body', body), lang='en')}\n"


def section(heading: str, *children: Child) -> Markup:
    """Return a part of the page under its heading."""
    return element("section", element("h2", heading), join(children))


def fact_list(facts: Sequence[tuple[str, Child]]) -> Markup:
    """Return names and what they stand for."""
    pairs = [[element("dt", name), element("dd", told)] for name, told in facts]
    return element("dl", pairs, class_="facts")


def wilson_interval(fraction: float, n_rows: int) -> tuple[float, float]:
    """Return the 95 % interval of a fraction of rows by Wilson's score."""
    if n_rows < 1:
        return 0.0, 1.0
    square = _Z * _Z / n_rows
    middle = (fraction + square / 2.0) / (1.0 + square)
    spread = fraction * (1.0 - fraction) / n_rows + square / (4.0 * n_rows)
    half = _Z * math.sqrt(spread) / (1.0 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def score_section(
    scores: ScoreTable, intervals: Sequence[ScoreInterval], confusion: Markup | None
) -> Markup:
    """Return scores by model, one of them with intervals, and the confusion table."""
    rows: list[list[Child]] = [
        [model, f"{n_rows:,}", *(_score(cell.text, is_best=cell.is_best) for cell in cells)]
        for model, n_rows, cells in scores.rows
    ]
    parts: list[Child] = [_scores(["model", "rows", *scores.names], rows)]
    if intervals:
        parts += [
            element("h3", "Accuracy, with 95 % intervals"),
            chart(interval_chart("Accuracy of each model with its 95 % interval", intervals)),
            element(
                "p",
                "Intervals are Wilson's, of the rows that each model was scored on.",
                class_="quiet",
            ),
        ]
    if confusion is not None:
        parts += [element("h3", "Which classes are taken for which"), confusion]
    return section("How good it is", parts)


def _score(text: str, *, is_best: bool) -> Markup:
    return element("strong", text) if is_best else element("span", text)


def _scores(headings: list[str], rows: list[list[Child]]) -> Markup:
    return table(headings, rows, caption="Scores on held-out rows; the best of each is bold")


def confusion_markup(confusion: ConfusionTable | None) -> Markup | None:
    """Return the confusion table; None where there is none."""
    return None if confusion is None else heat_table(confusion.classes, confusion.counts)


def chart(drawn: Markup) -> Markup:
    """Return a chart that scrolls on a narrow page."""
    return element("div", drawn, class_="charts")


def curve_section(curve: Sequence[float]) -> Markup:
    """Return the out-of-bag score by the number of trees."""
    return section(
        "As trees were added",
        element("p", "The out-of-bag score: each row is scored by the trees that did not draw it."),
        chart(line_chart("Out-of-bag score by number of trees", curve, across="trees")),
    )


def importance_section(bars: Sequence[Bar], parties: Sequence[str], note: str = "") -> Markup:
    """Return the columns that the forest goes by, the most important first."""
    ordered = sorted(bars, key=lambda bar: -bar.value)
    rest = ordered[MOST_BARS:]
    more = (
        f"{len(rest)} further columns have {sum(bar.value for bar in rest):.3f} together."
        if rest
        else ""
    )
    total = [
        sum(bar.value for bar in bars if bar.owner == number) for number in range(len(parties))
    ]
    by_party = ", ".join(
        f"{party} {share:.0%}" for party, share in zip(parties, total, strict=True)
    )
    shares = f"By party: {by_party}." if len(parties) > 1 else ""
    return section(
        "What it goes by",
        list_owners(parties),
        chart(bar_chart("Importance of columns", ordered[:MOST_BARS])),
        element("p", " ".join(part for part in (shares, more, note) if part), class_="quiet"),
    )


def tree_section(trees: Mapping[int, DrawnNode], parties: Sequence[str]) -> Markup:
    """Return the upper levels of some trees."""
    drawn = [
        [
            element("h3", f"Tree {number}"),
            draw_tree(f"Tree {number}, its upper levels", root),
        ]
        for number, root in trees.items()
    ]
    intro = element("p", "Their upper levels; a forest decides by the mean of all its trees.")
    return section("A few trees", intro, list_owners(parties), drawn)


def leakage_section(leakage: Mapping[str, Any]) -> Markup:
    """Return who learned what in a live run: in short, the risks, and the details on demand."""
    parts: list[Child] = [
        element("ul", [element("li", line) for line in summarise(leakage)], class_="plain")
    ]
    if leakage["attacks"]:
        rows = [[attack["risk"], attack["who"], attack["against"]] for attack in leakage["attacks"]]
        parts.append(
            table(["Risk", "Who could", "What helps"], rows, caption="What could be worked out")
        )
    lines = [element("li", line.strip(" -")) for line in explain(leakage)]
    parts.append(
        details(
            f"Everything that was learned ({len(lines)} lines)",
            element("ul", lines, class_="plain"),
        )
    )
    return section("Who learned what", parts)


def details(summary: str, *children: Child) -> Markup:
    """Return what is shown on demand."""
    return element("details", element("summary", summary), join(children))


def parameter_section(parameters: Mapping[str, Any]) -> Markup:
    """Return the parameters of the training."""
    rows = [[name, _tell(value)] for name, value in sorted(parameters.items())]
    return section("Parameters", details(f"All {len(rows)}", table(["Parameter", "Value"], rows)))


def _tell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_tell(each)}" for name, each in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(_tell, value)) or "-"
    return "-" if value is None else str(value)


def provenance_section(facts: Sequence[tuple[str, Child]]) -> Markup:
    """Return where the model came from."""
    note = element(
        "p",
        "Made by fedforest from the run's own records. It holds no row of any party.",
        class_="quiet",
    )
    return section("Where it came from", fact_list(facts), note)
