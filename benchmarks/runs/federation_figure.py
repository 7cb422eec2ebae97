"""The figure of a federation run: where the time of a training goes, and how processes grow."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a benchmark has no screen

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.growth_axes import tidy
from benchmarks.runs.federation_findings import divide

PART_COLOURS = {
    "kernels": "#1f5f8b",
    "network": "#8d7aa8",
    "journals": "#d8cfae",
    "everything else": "#c0392b",
}
ROLE_COLOURS = ("#1f5f8b", "#7a6a3a", "#c0392b")


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw what the result has; nothing where it has neither."""
    panels = [
        (panel, result[key])
        for key, panel in (("speed", _draw_parts), ("soak", _draw_soak))
        if result[key]
    ]
    if not panels:
        return
    figure, axes = plt.subplots(
        1,
        len(panels),
        figsize=(5.6 * len(panels), 3.6),
        dpi=150,
        layout="constrained",
        squeeze=False,
    )
    for axis, (panel, measured) in zip(axes[0], panels, strict=True):
        panel(axis, measured)
        tidy(axis)
    figure.savefig(path)
    plt.close(figure)


def _draw_parts(axes: Axes, tasks: list[dict[str, Any]]) -> None:
    names = [task["name"] for task in tasks]
    left = [0.0] * len(tasks)
    for part, colour in PART_COLOURS.items():
        widths = [1000 * divide(task["phases"])[part] for task in tasks]
        axes.barh(names, widths, left=left, color=colour, label=part, height=0.6)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds of the best training")
    axes.set_title("Where the time goes", loc="left", fontweight="bold")
    axes.legend(frameon=False, fontsize=8.5)


def _draw_soak(axes: Axes, looks: list[dict[str, Any]]) -> None:
    runs = [look["runs"] for look in looks]
    for role, colour in zip(looks[0]["files"], ROLE_COLOURS, strict=True):
        heights = [look["resident_bytes"][role] / 1e6 for look in looks]
        axes.plot(runs, heights, marker=".", color=colour, label=role)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("trainings")
    axes.set_ylabel("MB of memory")
    axes.set_title("Many trainings", loc="left", fontweight="bold")
    axes.legend(frameon=False, fontsize=8.5)
