"""The figure of a horizontal run: how training grows, with plain and with masked sums."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a benchmark has no screen

from matplotlib import pyplot as plt

from benchmarks.growth_axes import scale
from benchmarks.runs.horizontal_findings import QUANTITIES, best
from benchmarks.runs.horizontal_growth import MODES

STYLES = {"plain": ("#1f5f8b", "o"), "masked": ("#c0392b", "s")}
LINEAR = ("max_depth",)  # steps of equal size; the others multiply


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw seconds above and bytes below, one column for each quantity that varied."""
    growth = result["growth"]
    if not growth:
        return
    figure, axes = plt.subplots(
        2,
        len(growth),
        figsize=(3.2 * len(growth), 5.6),
        dpi=150,
        layout="constrained",
        sharex="col",
        squeeze=False,
    )
    for column, (name, series) in enumerate(growth.items()):
        points, quantity = series["points"], series["quantity"]
        values = [point[quantity] for point in points]
        top, bottom = axes[:, column]
        for mode in MODES:
            costs = [point["modes"][mode] for point in points]
            colour, marker = STYLES[mode]
            style: dict[str, Any] = {"color": colour, "marker": marker, "label": mode}
            top.plot(values, [best(cost, "wall") for cost in costs], **style)
            bottom.plot(values, [cost["level_bytes"] / 1e6 for cost in costs], **style)
        top.set_title(f"by {name}", loc="left", fontweight="bold")
        bottom.set_xlabel(QUANTITIES[quantity])
        for panel in (top, bottom):
            scale(panel, values, linear=quantity in LINEAR)
    axes[0, 0].set_ylabel("seconds")
    axes[1, 0].set_ylabel("MB, all levels")
    axes[0, 0].legend(frameon=False, fontsize=8.5)
    figure.suptitle("Training over several parties' rows", x=0.01, ha="left", fontweight="bold")
    figure.savefig(path)
    plt.close(figure)
