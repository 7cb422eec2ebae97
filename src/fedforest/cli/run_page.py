"""The result of a run on one page: scores beside those of parties alone, rows, cost, the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedforest.reports.facts import describe, list_facts, tabulate_confusion, tabulate_scores
from fedforest.reports.leakage_text import explain, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from fedforest.cli.terminal import Terminal
    from fedforest.runtime.messages.results import RunDetails, Scores, ValidationReport


def show_details(terminal: Terminal, details: RunDetails, *, with_leakage: bool = False) -> None:
    """Print a run; who learned what in a few lines, or all of it."""
    if terminal.as_json:
        terminal.show_json(describe(details))
        return
    from rich.markup import escape

    for name, text in list_facts(details):
        terminal.out.print(f"[bold]{name:<12}[/bold] {escape(text)}")
    if details.validation is not None:
        terminal.out.print(make_score_table(details.validation))
        confusion = make_confusion_table(details.validation.federated, details.classes)
        if confusion is not None:
            terminal.out.print(confusion)
    if details.leakage is not None:
        show_leakage(terminal, details.leakage, in_full=with_leakage)


def show_leakage(terminal: Terminal, leakage: Mapping[str, Any], *, in_full: bool) -> None:
    """Print who learned what: in full, or a few lines and the table of risks."""
    for line in (explain if in_full else summarise)(leakage):
        terminal.out.print(line, markup=False)
    if not in_full and leakage["attacks"]:
        terminal.out.print(make_risk_table(leakage))


def show_end(terminal: Terminal, details: RunDetails) -> None:
    """Print what a run came to that was watched; in JSON it is the last event."""
    if terminal.as_json:
        terminal.show_json({"event": "ended", **describe(details)})
    else:
        show_details(terminal, details)


def make_score_table(report: ValidationReport) -> Table:
    """Federated beside alone; the best figure of each score is bold."""
    from rich.markup import escape
    from rich.table import Table

    scores = tabulate_scores(report)
    table = Table("model", "rows", *map(escape, scores.names))
    for model, n_rows, cells in scores.rows:
        texts = [f"[bold]{cell.text}[/bold]" if cell.is_best else cell.text for cell in cells]
        table.add_row(escape(model), f"{n_rows:,}", *texts)
    return table


def make_confusion_table(scores: Scores, classes: Sequence[Any] | None) -> Table | None:
    """Count rows by true and predicted class; return None where there are too many classes."""
    from rich.markup import escape
    from rich.table import Table

    confusion = tabulate_confusion(scores, classes)
    if confusion is None:
        return None
    names = [escape(name) for name in confusion.classes]
    table = Table("true class", *(f"predicted {name}" for name in names))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, row in zip(names, confusion.counts, strict=True):
        table.add_row(name, *(f"{count:,}" for count in row))
    return table


def make_risk_table(leakage: Mapping[str, Any], title: str = "What could be worked out") -> Table:
    """Return every known attack on what this run revealed: the risk, who could, what helps."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("Risk", "Who could", "What helps", title=title, title_justify="left")
    for attack in leakage["attacks"]:
        table.add_row(*(escape(attack[name]) for name in ("risk", "who", "against")))
    return table
