"""The figures of a vertical run: how training grows; how prediction grows, and bytes per level."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a benchmark has no screen

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.growth_axes import scale, tidy
from benchmarks.runs.vertical_findings import QUANTITIES
from benchmarks.runs.vertical_growth import MODES, scaled

MODE_STYLES = {
    "classical": ("#c0392b", "s", "classical"),
    "one_round": ("#8d7aa8", "^", "one round"),
    "auto": ("#1f5f8b", "o", "auto"),
}
SECONDS_COLOUR, BYTES_COLOUR = "#1f5f8b", "#7a6a3a"
LINEAR = ("n_parties", "max_depth")  # few steps of equal size; the others double


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw what the result has: the growth of training, and beside it a figure of messages."""
    if result["growth"]:
        _draw_training(result["growth"], path)
    if result["prediction"] or result["traffic"]:
        _draw_messages(result, path.with_stem(f"{path.stem}-messages"))


def _draw_training(growth: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(
        2,
        len(growth),
        figsize=(2.9 * len(growth), 5.6),
        dpi=150,
        layout="constrained",
        sharex="col",
        sharey="row",
        squeeze=False,
    )
    for column, (name, series) in enumerate(growth.items()):
        points, quantity = series["points"], series["quantity"]
        values = [point[quantity] for point in points]
        times = [min(point["wall"]) for point in points]
        megabytes = [point["level_bytes"] / 1e6 for point in points]
        top, bottom = axes[:, column]
        top.plot(values, times, marker="o", color=SECONDS_COLOUR)
        bottom.plot(values, megabytes, marker="o", color=BYTES_COLOUR)
        top.set_title(f"by {name}", loc="left", fontweight="bold")
        bottom.set_xlabel(QUANTITIES[quantity])
        scale(top, values, linear=quantity in LINEAR)
        scale(bottom, values, linear=quantity in LINEAR)
    axes[0, 0].set_ylabel("seconds")
    axes[1, 0].set_ylabel("MB, all levels")
    figure.suptitle("Training over several parties", x=0.01, ha="left", fontweight="bold")
    figure.savefig(path)
    plt.close(figure)


def _draw_messages(result: dict[str, Any], path: Path) -> None:
    n_series, n_traffic = len(result["prediction"]), int(bool(result["traffic"]))
    n_panels = n_series + n_traffic
    figure, axes = plt.subplots(
        1, n_panels, figsize=(3.9 * n_panels, 3.8), dpi=150, layout="constrained", squeeze=False
    )
    for panel, (name, series) in zip(axes[0], result["prediction"].items(), strict=False):
        _draw_modes(panel, series)
        panel.set_title(f"Prediction by {name}", loc="left", fontweight="bold")
    if n_series:
        axes[0, 0].set_ylabel("seconds for all rows")
        axes[0, 0].legend(frameon=False, fontsize=8.5)
    if n_traffic:
        _draw_traffic(axes[0, -1], result["traffic"])
    figure.savefig(path)
    plt.close(figure)


def _draw_modes(axes: Axes, series: dict[str, Any]) -> None:
    points, quantity = series["points"], series["quantity"]
    values = [point[quantity] for point in points]
    for mode in MODES:
        colour, marker, label = MODE_STYLES[mode]
        heights = [scaled(point, mode, lambda cost: min(cost["wall"])) for point in points]
        few = points[-1]["modes"][mode]["measured_rows"]
        is_scaled = few < points[-1]["prediction_rows"]
        axes.plot(
            values,
            heights,
            marker=marker,
            color=colour,
            linestyle="--" if is_scaled else "-",
            label=f"{label}, from {few} rows" if is_scaled else label,
        )
    axes.set_xlabel(QUANTITIES[quantity])
    scale(axes, values, linear=quantity in LINEAR)


def _draw_traffic(axes: Axes, tasks: list[dict[str, Any]]) -> None:
    task = max(tasks, key=lambda some: len(some["measured_bytes"]))
    levels = range(len(task["measured_bytes"]))
    measured = [n_bytes / 1e3 for n_bytes in task["measured_bytes"]]
    least = [n_bytes / 1e3 for n_bytes in task["least_bytes"]]
    axes.bar(levels, measured, color="#d8cfae", label="measured")
    axes.plot(levels, least, color=BYTES_COLOUR, marker=".", label="formula")
    axes.set_xlabel(f"level\n({task['title']})")
    axes.set_ylabel("KB of the level")
    axes.set_title("Bytes per level", loc="left", fontweight="bold")
    axes.legend(frameon=False, fontsize=8.5)
    tidy(axes)
