"""Figures of the horizontal experiments: accuracy along epsilon, and with a share of parties."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedforest.errors import ConfigurationError
from fedforest.experiments.horizontal_cells import apart, mean_of
from fedforest.experiments.horizontal_findings import MOST_APART, choose_records
from fedforest.experiments.horizontal_methods import (
    LOCAL,
    QUERY,
    SCOPES,
    SHARES,
    TOTAL,
    Noise,
    share_name,
)
from fedforest.experiments.horizontal_record import EXPERIMENT, HorizontalDataSetRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1f5f8b", "#c0392b", "#7a6a3a", "#8d7aa8", "#4f7f52")
ALLOWED_COLOUR = "#dfe9f1"
SCOPE_STYLES = {"tree": "-", "step": "--"}


def draw(result: dict[str, Any], folder: Path) -> None:
    """Draw what was measured into PNG files; raises where matplotlib is missing."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra that only figures need
    except ImportError as error:
        raise ConfigurationError(
            "Drawing the figures needs matplotlib, which is not installed."
        ) from error
    mpl.use("Agg")  # no screen is needed
    compared, partial = choose_records(result)
    if compared:
        _save(_draw_accuracy(compared), folder / f"{EXPERIMENT}.png")
    if partial:
        _save(_draw_participation(partial), folder / "horizontal_participation.png")


def _save(figure: "Figure", path: Path) -> None:
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of back end

    figure.savefig(path)
    plt.close(figure)


def _panels(n_panels: int) -> "tuple[Figure, list[Axes]]":
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of back end

    figure, axes = plt.subplots(
        1, n_panels, figsize=(4.2 * n_panels, 4.2), dpi=150, layout="constrained", squeeze=False
    )
    return figure, list(axes[0])


def _draw_accuracy(records: list[HorizontalDataSetRecord]) -> "Figure":
    figure, (first, *others) = _panels(4)
    _draw_intervals(first, records)
    titles = {
        LOCAL: ("FET-LDP", "cap of ε, for all queries of all times"),
        QUERY: ("FET-GDP by query", "ε of one query of thousands"),
        TOTAL: ("FET-GDP by training", "ε of all queries of a training"),
    }
    for panel, (noise, (title, label)) in zip(others, titles.items(), strict=True):
        _draw_curves(panel, records, noise)
        panel.set_title(title, loc="left", fontweight="bold")
        panel.set_xlabel(f"{label}\n(dashed: FET without noise)")
    others[0].set_ylabel("accuracy (mean and 95% interval)")
    if others[0].get_legend_handles_labels()[0]:
        others[0].legend(frameon=False, fontsize=8.5)
    return figure


def _draw_intervals(axes: "Axes", records: list[HorizontalDataSetRecord]) -> None:
    for height, record in enumerate(records):
        interval = apart(record, "federated", "pooled")
        assert interval is not None
        mean, low, high = interval.scaled(100.0)
        axes.barh(height, 200.0 * MOST_APART, 0.62, left=-100.0 * MOST_APART, color=ALLOWED_COLOUR)
        reach = [[mean - low], [high - mean]]
        axes.errorbar(mean, height, xerr=reach, fmt="o", color=COLOURS[0], capsize=4)
    axes.set_yticks(range(len(records)), [record.name for record in records])
    axes.set_ylim(len(records) - 0.4, -0.6)
    axes.axvline(0.0, color="#222222", linewidth=0.8)
    axes.set_xlabel("points of accuracy\n(mean and 95% interval; shaded: allowed)")
    axes.set_title("FET less scikit-learn's ET", loc="left", fontweight="bold")
    _tidy(axes)


def _draw_curves(axes: "Axes", records: list[HorizontalDataSetRecord], noise: Noise) -> None:
    """Accuracy along epsilon; the interval is that of the difference from FET."""
    for record, colour in zip(records, COLOURS, strict=False):
        losses = {e: apart(record, noise.method(e), "federated") for e in noise.epsilons}
        drawn = {epsilon: loss for epsilon, loss in losses.items() if loss is not None}
        if drawn:
            exact = mean_of(record, "federated")
            means = [exact + loss.mean for loss in drawn.values()]
            reach = [loss.high - loss.mean for loss in drawn.values()]
            style: dict[str, Any] = {"marker": "o", "color": colour, "capsize": 3}
            axes.errorbar(list(drawn), means, reach, label=record.name, **style)
            axes.axhline(exact, color=colour, linestyle="--", linewidth=0.9)
    _name_values(axes, noise.epsilons)
    _tidy(axes)


def _name_values(axes: "Axes", values: Sequence[float]) -> None:
    """A logarithmic scale on which every measured value is named."""
    from matplotlib.ticker import NullFormatter  # noqa: PLC0415 - an extra that only figures need

    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_participation(records: list[HorizontalDataSetRecord]) -> "Figure":
    """Figure 2 of k-PPD-ERT."""
    figure, axes = _panels(3)
    titles = {
        "score": "Accuracy",
        "cpu": "Processor seconds",
        "aggregated": "Vectors × participants",
    }
    for panel, (quantity, title) in zip(axes, titles.items(), strict=True):
        for record, colour in zip(records, COLOURS, strict=False):
            for scope in SCOPES:
                methods = {share: share_name(scope, share) for share in SHARES}
                shares = [s for s, method in methods.items() if record.n_repetitions(method) >= 2]
                means = [mean_of(record, methods[share], quantity) for share in shares]
                label = f"{record.name}, drawn for every {scope}"
                style = SCOPE_STYLES[scope]
                panel.plot(shares, means, style, marker="o", color=colour, label=label)
        if quantity != "score":
            panel.set_yscale("log")  # as in the paper: the data sets differ too much in size
        panel.set_title(title, loc="left", fontweight="bold")
        panel.set_xlabel("share of the ten parties that takes part")
        _tidy(panel)
    axes[0].legend(frameon=False, fontsize=8.5)
    return figure


def _tidy(axes: "Axes") -> None:
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
