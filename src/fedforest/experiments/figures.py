"""The shared look of all figures; matplotlib is imported when one is drawn."""

from collections.abc import Iterable, Sequence
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
DOTS_PER_INCH = 100
_MOST_LEVEL_NAMES = 3  # beside each other on the axis of a panel
_PRINTED = {"color": PAPER_COLOUR, "markersize": 11, "markeredgewidth": 2}


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
    """Write the figure; a panel without data says that it was not measured yet."""
    for axes in figure.axes:
        if axes.get_visible() and not axes.has_data():
            axes.text(0.5, 0.5, "not measured yet", ha="center", transform=axes.transAxes)
            axes.set(xticks=[], yticks=[])
    figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None})


def name_panel(axes: "Axes", title: str, x: str, y: str) -> None:
    axes.set_title(_readable(title), loc="left", fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _readable(name: str) -> str:
    """Return the name of a data set as it is said."""
    return name.replace("_", " ")


def add_legend(figure: "Figure", panels: "Sequence[Axes]") -> None:
    """Name every curve once, below all panels, where no curve can run through the names."""
    curves = {
        label: handle
        for panel in panels
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    if curves:
        widths = np.cumsum(sorted((len(label) + 9 for label in curves), reverse=True))
        n_columns = max(1, int((widths <= 13 * figure.get_figwidth()).sum()))  # letters to an inch
        figure.legend(
            curves.values(),
            curves.keys(),
            loc="outside lower center",
            ncols=n_columns,
            frameon=False,
            fontsize=9,
        )


def use_log_scale(axes: "Axes") -> None:
    """Make the vertical axis logarithmic, with plain numbers; call it when all is drawn."""
    from matplotlib.ticker import (  # noqa: PLC0415 - an extra that only figures need
        FuncFormatter,
        LogLocator,
        NullFormatter,
    )

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def tick_points(axes: "Axes", points: Iterable[float]) -> None:
    """Name the measured points on the horizontal axis, and no others."""
    chosen = sorted(points)
    axes.set_xticks(chosen, [f"{point:g}" for point in chosen])


def draw_printed(axes: "Axes", x: object, y: object) -> None:
    """Draw values that the paper prints, in the same way in all figures."""
    axes.plot(x, y, "_", label="printed", **_PRINTED)  # type: ignore[arg-type] # matplotlib's own


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
    """Draw each series' value and spread by name, and the paper's printed values, if it has any.

    With one name alone the series stand along the axis.
    """
    width = 0.8 / len(series)
    places = [(number - (len(series) - 1) / 2) * width for number in range(len(series))]
    for number, (label, values, spreads) in enumerate(series):
        at = np.arange(len(names)) + places[number]
        colour = COLOURS[number % len(COLOURS)]
        axes.errorbar(at, values, spreads, fmt="o", color=colour, capsize=2, label=label)
        if printed is not None:
            theirs = [np.nan if value is None else value for value in printed[number]]
            draw_printed(axes, at, theirs)
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.5, len(names) - 0.5)
    if len(names) == 1:
        axes.set_title(_readable(names[0]), loc="left", fontweight="bold")
        axes.set_xticks(places, [label for label, _, _ in series])
        return
    for edge in range(1, len(names)):
        axes.axvline(edge - 0.5, color="#e6e6e6", linewidth=0.8)
    is_long = len(names) > _MOST_LEVEL_NAMES
    axes.set_xticks(
        range(len(names)),
        list(map(_readable, names)),
        rotation=30 if is_long else 0,
        ha="right" if is_long else "center",
    )
