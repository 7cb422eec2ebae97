"""The figure of a pooled run: speed beside scikit-learn's, task by task, with the targets."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a benchmark has no screen

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.contestants import OURS
from benchmarks.runs.pooled_findings import RIVALS, Ratio, is_quick, speed_ratios
from fedforest.experiments.findings import digits

COLOURS = {OURS: "#1f5f8b", "XGBoost": "#c9b49a", "LightGBM": "#a9b8a4"}
TARGET_COLOUR = "#c0392b"
BAR_HEIGHT = 0.26
ROOM_FOR_TEXT = 2.0
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw the speed ratios of the result into a PNG file."""
    ratios = speed_ratios(result)
    names = [name for name in (OURS, *RIVALS) if any(r.contestant == name for r in ratios)]
    places = {task: place for place, task in enumerate(dict.fromkeys(r.task for r in ratios))}
    n_tasks = len(places)
    height = 1.3 + n_tasks * (0.28 + 0.2 * len(names))
    figure, axes = plt.subplots(figsize=(9.5, height), dpi=150, layout="constrained")
    for position, name in enumerate(names):
        bars = [ratio for ratio in ratios if ratio.contestant == name]
        offset = BAR_HEIGHT * (position - (len(names) - 1) / 2)
        heights = [places[bar.task] + offset for bar in bars]  # not everybody runs every task
        _draw_bars(axes, bars, heights)
        if name == OURS and not is_quick(result):
            _draw_targets(axes, bars, heights)
    _lay_out(axes, ratios)
    figure.savefig(path)
    plt.close(figure)


def _draw_bars(axes: Axes, ratios: list[Ratio], heights: list[float]) -> None:
    name = ratios[0].contestant
    # Bars start at scikit-learn's own speed, so that a slower one points to the left.
    lengths = [ratio.value - 1.0 for ratio in ratios]
    axes.barh(heights, lengths, BAR_HEIGHT * 0.92, left=1.0, color=COLOURS[name], label=name)
    for height, ratio in zip(heights, ratios, strict=True):
        # Ours stands at the foot of its bar, where no target mark can cross it.
        is_inside = name == OURS and ratio.value > ROOM_FOR_TEXT
        is_slower = ratio.value < 1.0
        axes.annotate(
            f"{digits(ratio.value)}×",
            (1.0 if is_inside else ratio.value, height),
            xytext=(-4 if is_slower else 5, 0),
            textcoords="offset points",
            va="center_baseline",
            ha="right" if is_slower else "left",
            fontsize=8.5 if name == OURS else 7,
            fontweight="bold" if name == OURS else "normal",
            color="white" if is_inside else "#444444",
        )


def _draw_targets(axes: Axes, ratios: list[Ratio], heights: list[float]) -> None:
    targets = [ratio.target for ratio in ratios]
    reach = BAR_HEIGHT * 0.6
    low, high = ([height + side for height in heights] for side in (-reach, reach))
    axes.vlines(targets, low, high, color=TARGET_COLOUR, linewidth=2.4, label="target")
    for height, ratio in zip(heights, ratios, strict=True):
        axes.annotate(
            f"target {ratio.target:g}×",
            (max(ratio.target, ratio.value), height),
            xytext=(5, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=7.5,
            color=TARGET_COLOUR,
        )


def _lay_out(axes: Axes, ratios: list[Ratio]) -> None:
    values = [value for ratio in ratios for value in (ratio.value, ratio.target)]
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, min(values) / 1.6), max(values) * 1.9)
    axes.xaxis.set_major_locator(FixedLocator(TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    titles = {ratio.task: ratio.title.replace(" rows, ", " rows\n") for ratio in ratios}
    axes.set_yticks(range(len(titles)), list(titles.values()))
    axes.set_ylim(len(titles) - 0.5, -0.6)
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.axvline(1.0, color="#222222", linewidth=1.0)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("training speed, scikit-learn = 1× (logarithmic)")
    axes.set_title("Training beside scikit-learn", loc="left", fontweight="bold")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, frameon=False, fontsize=8.5)
