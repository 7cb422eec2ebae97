"""The shared look of all figures; matplotlib is imported when one is drawn."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedforest.experiments.record import Record
from fedforest.extras import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1f5f8b", "#c0392b", "#7a6a3a", "#8d7aa8", "#4f7f52", "#444444")
PAPER_COLOUR = "#c77f1a"
LINES = ("-", "--", ":", "-.")
DOTS_PER_INCH = 80


def check_matplotlib() -> None:
    """Raise `ConfigurationError` where figures cannot be drawn; call it before measuring."""
    import_extra("matplotlib", "a figure of the results")


def new_figure(n_panels: int, n_rows: int = 1, width: float = 4.2) -> "tuple[Figure, list[Axes]]":
    """Return a figure with panels side by side, row by row."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra that only figures need

    n_columns = -(-n_panels // n_rows)
    figure = Figure(figsize=(width * n_columns, 3.6 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for panel in axes:
        panel.grid(color="#e6e6e6", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in axes[n_panels:]:
        panel.set_visible(False)
    return figure, list(axes[:n_panels])


def save(figure: "Figure", path: Path) -> None:
    figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None})


def name_panel(axes: "Axes", title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def draw_curve(
    axes: "Axes", record: Record, where: tuple[str, str], quantity: str, **style: object
) -> None:
    """Draw a method's means along the points of its curve, which are numbers, with their spread."""
    points = [point for point in record.points(*where) if point]
    measured = [record.values(*where, point, quantity) for point in points]
    drawn = [(float(p), v) for p, v in zip(points, measured, strict=True) if len(v)]
    if not drawn:
        return
    xs = [x for x, _ in sorted(drawn, key=lambda each: each[0])]
    values = [v for _, v in sorted(drawn, key=lambda each: each[0])]
    spread = [v.std(ddof=1) if len(v) > 1 else 0.0 for v in values]
    axes.errorbar(xs, [v.mean() for v in values], spread, capsize=2, **style)  # type: ignore[arg-type] # matplotlib's own keywords


def draw_groups(
    axes: "Axes",
    names: Sequence[str],
    series: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    printed: Sequence[Sequence[float | None]] | None,
) -> None:
    """Draw each series' value and spread by name, and the paper's printed values, if it has any."""
    width = 0.8 / len(series)
    for number, (label, values, spreads) in enumerate(series):
        at = np.arange(len(names)) + (number - (len(series) - 1) / 2) * width
        colour = COLOURS[number % len(COLOURS)]
        axes.errorbar(at, values, spreads, fmt="o", color=colour, capsize=2, label=label)
        if printed is not None:
            theirs = [np.nan if value is None else value for value in printed[number]]
            axes.plot(at, theirs, "_", color=PAPER_COLOUR, markersize=9, markeredgewidth=2)
    if printed is not None:
        axes.plot([], [], "_", color=PAPER_COLOUR, markersize=9, markeredgewidth=2, label="printed")
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
