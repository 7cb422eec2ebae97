"""The findings in a result file: titled tables and plain verdicts, for a page and the terminal.

Judging is done by whoever measured; this only says how a verdict, a number and a table look.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import variance
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

NUMBER_STARTS = "+-–0123456789"
REACHED = "reached"
MISSED = "missed"
NOT_JUDGED = "not judged"
NOTHING = "–"
STYLES = {REACHED: "green", MISSED: "bold red"}


class Finding(NamedTuple):
    """One table of text cells with what a reader must know about it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def verdict(*, reached: bool) -> str:
    """Return the word that stands beside a target."""
    return REACHED if reached else MISSED


def unjudged(finding: Finding) -> Finding:
    """Return the finding without its verdicts, for a run whose tasks were shrunk."""
    words = {REACHED: NOT_JUDGED, MISSED: NOT_JUDGED}
    rows = [[words.get(cell, cell) for cell in row] for row in finding.rows]
    return finding._replace(rows=rows)


def digits(value: float) -> str:
    """Three digits that count: 0.0123, 1.20, 45.6, 789, 1,234."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:#.3g}".rstrip(".")


def seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{digits(value)} s"


def milliseconds(value: float | None) -> str:
    return NOTHING if value is None else f"{digits(value * 1000)} ms"


def megabytes(value: float | None) -> str:
    return NOTHING if value is None else f"{digits(value / 1e6)} MB"


def times(value: float | None) -> str:
    """Return a ratio, as in 12.5×."""
    return NOTHING if value is None else f"{value:.1f}×"


def difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Difference of two means, with its standard error where there is more than one value each."""
    apart = f"{mean(ours) - mean(theirs):+.4f}"
    if min(len(ours), len(theirs)) < 2:
        return apart
    error = math.sqrt(sum(variance(values) / len(values) for values in (ours, theirs)))
    return f"{apart} ± {error:.4f}"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def to_markdown(finding: Finding) -> str:
    """Return the finding as a section of the page."""
    table = [finding.header, ["---"] * len(finding.header), *map(list, finding.rows)]
    lines = ["| " + " | ".join(_markdown_cell(cell) for cell in row) + " |" for row in table]
    return f"### {finding.title}\n\n" + "\n".join(lines) + f"\n\n{finding.note}".rstrip()


def _markdown_cell(cell: str) -> str:
    return f"**{cell}**" if cell in (REACHED, MISSED) else cell


def to_rich(finding: Finding) -> Table:
    """Return the finding as a table for the terminal."""
    table = Table(title=finding.title, caption=finding.note or None, title_justify="left")
    table.caption_justify = "left"
    for name, cells in zip(finding.header, zip(*finding.rows, strict=True), strict=True):
        is_number = all(cell[:1] in NUMBER_STARTS for cell in cells)
        table.add_column(name, justify="right" if is_number else "left")
    for row in finding.rows:
        table.add_row(*_styled(row))
    return table


def _styled(row: Iterable[str]) -> list[Text]:
    return [Text(cell, style=STYLES.get(cell, "")) for cell in row]
