"""The figure of a run with encrypted labels: how a tree grows in time and bytes."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a benchmark has no screen

from matplotlib import pyplot as plt

from benchmarks.growth_axes import scale
from benchmarks.runs.encrypted_findings import per_tree

STYLES = {"encrypted": ("#c0392b", "s"), "encoded": ("#1f5f8b", "o")}


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw processor seconds above and bytes below, a column for each quantity that varied."""
    growth = result["growth"]
    if not growth:
        return
    figure, axes = plt.subplots(
        2,
        len(growth),
        figsize=(3.0 * len(growth), 5.6),
        dpi=150,
        layout="constrained",
        sharex="col",
        squeeze=False,
    )
    for column, (quantity, points) in enumerate(growth.items()):
        values = [point[quantity] for point in points]
        top, bottom = axes[:, column]
        for how, (colour, marker) in STYLES.items():
            style: dict[str, Any] = {"color": colour, "marker": marker, "label": how}
            spent = [per_tree(point, how, "processor_seconds") for point in points]
            sent = [sum(point[how]["bytes_by_level"]) / point["trees"] / 1e6 for point in points]
            top.plot(values, spent, **style)
            bottom.plot(values, sent, **style)
        top.set_title(f"by {quantity}", loc="left", fontweight="bold")
        bottom.set_xlabel(quantity)
        for panel in (top, bottom):
            scale(panel, values, linear=False)
    axes[0, 0].set_ylabel("processor seconds, one tree")
    axes[1, 0].set_ylabel("MB, one tree")
    axes[0, 0].legend(frameon=False, fontsize=8.5)
    figure.suptitle("Encrypted labels, two parties", x=0.01, ha="left", fontweight="bold")
    figure.savefig(path)
    plt.close(figure)
