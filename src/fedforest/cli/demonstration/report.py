"""The demo's last page: alone, federated and pooled side by side, what it took, and a picture."""

from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from fedforest.cli.terminal import format_bytes, format_seconds
from fedforest.errors import ConfigurationError
from fedforest.runtime.results import RunDetails

_FEDERATED, _POOLED, _ALONE = "#2a7f62", "#8a8a8a", "#d9a441"


class Comparison(NamedTuple):
    """A run beside what nobody has, the forest of the pooled table."""

    title: str
    details: RunDetails
    pooled_accuracy: float

    def bars(self) -> list[tuple[str, float, str]]:
        """Name, accuracy and colour of each forest."""
        validation = self.details.validation
        assert validation is not None, "the demo's runs hold rows out"
        alone = [
            (f"{party} alone", scores.values["accuracy"], _ALONE)
            for party, scores in validation.alone.items()
        ]
        federated = ("federated", validation.federated.values["accuracy"], _FEDERATED)
        return [*alone, federated, ("pooled", self.pooled_accuracy, _POOLED)]


def make_table(comparisons: list[Comparison]) -> Table:
    """Accuracies on held-out letters, and what the federated forests took."""
    table = Table("", "accuracy", "seconds", "exchanges", "bytes")
    for comparison in comparisons:
        table.add_row(f"[bold]{comparison.title}[/bold]", "", "", "", "")
        for name, accuracy, _ in comparison.bars():
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


def draw(comparisons: list[Comparison], path: Path) -> None:
    """One panel for each run; raises `ConfigurationError` where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ConfigurationError("a picture needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    for axes, comparison in zip(figure.subplots(1, len(comparisons)), comparisons, strict=True):
        bars = comparison.bars()
        names, accuracies, colours = zip(*bars, strict=True)
        axes.barh(names[::-1], accuracies[::-1], color=colours[::-1])
        axes.bar_label(axes.containers[0], fmt="%.3f", padding=3)
        axes.set_xlim(0.0, 1.12)
        axes.set_title(comparison.title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("accuracy on held-out letters")
    figure.savefig(path, dpi=150)
