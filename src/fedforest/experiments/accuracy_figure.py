"""The figure of the accuracy experiment: differences within what is allowed, and the scores."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedforest.errors import ConfigurationError
from fedforest.experiments.accuracy_findings import METHODS, loss_interval, read_records
from fedforest.experiments.accuracy_record import DataSetRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "party_1": "#c9b49a",
    "party_2": "#a9b8a4",
    "linear": "#8d7aa8",
    "pooled": "#444444",
    "federated": "#1f5f8b",
}
ALLOWED_COLOUR = "#dfe9f1"
STEP = 0.15  # between the methods of one data set


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw intervals and scores into a PNG file; raises where matplotlib is missing."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra that only figures need
    except ImportError as error:
        raise ConfigurationError(
            "Drawing the figure needs matplotlib, which is not installed."
        ) from error
    mpl.use("Agg")  # no screen is needed
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of back end

    records = read_records(result)
    by_task = {
        measure: [record for record in records if record.measure == measure]
        for measure in ("accuracy", "RMSE")
    }
    panels = [(measure, some) for measure, some in by_task.items() if some]
    widths = [1.5, *(0.7 + 0.55 * len(some) for _, some in panels)]
    figure, axes = plt.subplots(
        1,
        1 + len(panels),
        figsize=(2.6 * sum(widths), 4.6),
        dpi=150,
        layout="constrained",
        width_ratios=widths,
        squeeze=False,
    )
    _draw_intervals(axes[0, 0], records)
    for place, (measure, some) in enumerate(panels, start=1):
        _draw_scores(axes[0, place], some, measure)
    axes[0, 1].legend(frameon=False, fontsize=8.5, ncols=5, loc="lower left", columnspacing=1.2)
    figure.savefig(path)
    plt.close(figure)


def _draw_intervals(axes: "Axes", records: list[DataSetRecord]) -> None:
    reach = 0.0
    for height, record in enumerate(records):
        mean, low, high = loss_interval(record).scaled(100.0)
        allowed = 100.0 * record.tolerance
        reach = max(reach, allowed, -low, high)
        axes.barh(height, 2 * allowed, 0.62, left=-allowed, color=ALLOWED_COLOUR)
        axes.errorbar(
            mean,
            height,
            xerr=[[mean - low], [high - mean]],
            fmt="o",
            color=COLOURS["federated"],
            capsize=4,
        )
    names = [f"{record.name}\n({record.measure})" for record in records]
    axes.set_yticks(range(len(records)), names)
    axes.set_ylim(len(records) - 0.4, -0.6)
    axes.set_xlim(-1.1 * reach, 1.1 * reach)
    axes.axvline(0.0, color="#222222", linewidth=0.8)
    axes.set_xlabel("points of accuracy, % of RMSE\n(mean and 95% interval; shaded: allowed)")
    axes.set_title("Federated less pooled", loc="left", fontweight="bold")
    _tidy(axes, "x")


def _draw_scores(axes: "Axes", records: list[DataSetRecord], measure: str) -> None:
    for position, (method, title) in enumerate(METHODS.items()):
        places, means, spreads = [], [], []
        for place, record in enumerate(records):
            (values,) = record.paired(method)
            if len(values) >= 2:
                places.append(place + STEP * (position - (len(METHODS) - 1) / 2))
                means.append(values.mean())
                spreads.append(values.std(ddof=1))
        if places:
            axes.errorbar(
                places, means, spreads, fmt="o", color=COLOURS[method], label=title, capsize=3
            )
    axes.set_xticks(range(len(records)), [record.name for record in records])
    axes.set_xlim(-0.5, len(records) - 0.5)
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.12 * (high - low), high)  # room for the legend
    axes.set_title(measure, loc="left", fontweight="bold")
    axes.set_ylabel("mean ± standard deviation")
    _tidy(axes, "y")


def _tidy(axes: "Axes", values: str) -> None:
    axes.grid(axis=values, color="#e6e6e6", linewidth=0.8)  # type: ignore[arg-type] # "x" or "y"
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
