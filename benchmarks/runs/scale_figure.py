"""The figure of a scale run: time and peak memory by rows, vertical and horizontal."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a benchmark has no screen

from matplotlib import pyplot as plt

from benchmarks.growth_axes import scale

KINDS = {
    "rows_vertical": ("vertical, two parties", "#1f5f8b", "o"),
    "rows_horizontal": ("horizontal, ten parties", "#c0392b", "s"),
}


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw what the result has of time and memory by rows."""
    if not any(result[kind] for kind in KINDS):
        return
    figure, (time, memory) = plt.subplots(1, 2, figsize=(8.6, 3.4), dpi=150, layout="constrained")
    rows: set[int] = set()
    for kind, (label, colour, marker) in KINDS.items():
        points = result[kind]
        if not points:
            continue
        sizes = [point["rows"] for point in points]
        rows.update(sizes)
        style = {"marker": marker, "color": colour, "label": label}
        time.plot(sizes, [point["wall"] for point in points], **style)
        peaks = [_peak(point) / 2**20 for point in points]
        memory.plot(sizes, peaks, **style)
    for axes, title in ((time, "seconds"), (memory, "peak MiB of the largest party")):
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("rows")
        scale(axes, sorted(rows), linear=False)
    time.legend(frameon=False)
    figure.suptitle("Ten trees of depth 8, every role a process", x=0.01, ha="left")
    figure.savefig(path)


def _peak(point: dict[str, Any]) -> float:
    return float(max(n for name, n in point["peak_bytes"].items() if name != "coordinator"))
