"""The demo's last page: alone, federated and pooled side by side, what it took, and a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from fedforest.extras import import_extra
from fedforest.reports.formats import format_bytes, format_seconds
from fedforest.runtime.messages.results import RunDetails

_FEDERATED, _POOLED, _ALONE = "#2a7f62", "#8a8a8a", "#d9a441"


class Panel(NamedTuple):
    """Accuracies of forests on the same kind of rows."""

    title: str
    rows: str
    alone: Mapping[str, float]
    federated: float
    pooled: float

    def bars(self) -> list[tuple[str, float, str]]:
        """Name, accuracy and colour of each forest."""
        alone = [(f"{party} alone", accuracy, _ALONE) for party, accuracy in self.alone.items()]
        return [*alone, ("federated", self.federated, _FEDERATED), ("pooled", self.pooled, _POOLED)]


class Comparison(NamedTuple):
    """A run beside the forest of the pooled table, scored on the same rows."""

    title: str
    details: RunDetails
    pooled_accuracy: float

    def panel(self) -> Panel:
        """Return the accuracies of all forests."""
        validation = self.details.validation
        assert validation is not None, "the demo's runs hold rows out"
        alone = {party: scores.values["accuracy"] for party, scores in validation.alone.items()}
        federated = validation.federated.values["accuracy"]
        return Panel(self.title, "held-out letters", alone, federated, self.pooled_accuracy)


def make_table(comparisons: list[Comparison]) -> Table:
    """Accuracies on held-out letters, and what the federated forests took."""
    table = Table("", "accuracy", "seconds", "exchanges", "bytes both ways")
    for comparison in comparisons:
        table.add_row(f"[bold]{comparison.title}[/bold]", "", "", "", "")
        for name, accuracy, _ in comparison.panel().bars():
            cost = _cost(comparison.details) if name == "federated" else ("", "", "")
            style = "bold" if name == "federated" else ""
            table.add_row(f"  {name}", f"{accuracy:.3f}", *cost, style=style)
        table.add_section()
    return table


def _cost(details: RunDetails) -> tuple[str, str, str]:
    state = details.state
    assert state.ended is not None
    assert details.started is not None
    seconds = format_seconds(state.ended - details.started)
    return seconds, str(state.n_exchanges), format_bytes(state.n_bytes)


def draw(panels: list[Panel], path: Path) -> None:
    """Panels side by side; raises `ConfigurationError` where matplotlib is not installed."""
    figure_type = import_extra("matplotlib.figure", "a picture").Figure
    figure = figure_type(figsize=(4.5 * len(panels), 3.2), layout="constrained")
    places = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(places, panels, strict=True):
        names, accuracies, colours = zip(*panel.bars(), strict=True)
        axes.barh(names[::-1], accuracies[::-1], color=colours[::-1])
        axes.bar_label(axes.containers[0], fmt="%.3f", padding=3)
        axes.set_xlim(0.0, 1.12)
        axes.set_title(panel.title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(f"accuracy on {panel.rows}")
    figure.savefig(path, dpi=150)
