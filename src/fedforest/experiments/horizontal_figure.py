"""Figures of the horizontal experiments: accuracy along epsilon, and with a share of parties."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedforest.errors import ConfigurationError
from fedforest.experiments.horizontal_cells import apart, mean_of
from fedforest.experiments.horizontal_findings import (
    MOST_APART,
    MOST_LOST_LOCALLY,
    choose_records,
)
from fedforest.experiments.horizontal_methods import (
    LOCAL_CAPS,
    QUERY_EPSILONS,
    SCOPES,
    SHARES,
    UNPROTECTED,
    global_name,
    local_name,
    share_name,
)
from fedforest.experiments.horizontal_record import EXPERIMENT, DataSetRecord

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
    compared, noisy, partial = choose_records(result)
    if compared or noisy:
        _save(_draw_accuracy(compared, noisy), folder / f"{EXPERIMENT}.png")
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


def _draw_accuracy(compared: list[DataSetRecord], noisy: list[DataSetRecord]) -> "Figure":
    figure, (left, middle, right) = _panels(3)
    _draw_intervals(left, compared)
    local = {cap: local_name(cap) for cap in LOCAL_CAPS}
    _draw_curves(middle, noisy, local, "cap of ε: all that answers can ever tell")
    middle.axhspan(-MOST_LOST_LOCALLY, 0.0, color=ALLOWED_COLOUR, zorder=0)
    middle.set_title("FET-LDP less FET", loc="left", fontweight="bold")
    private = {epsilon: global_name(epsilon) for epsilon in QUERY_EPSILONS}
    _draw_curves(right, noisy, private, "ε of a query, of which there are thousands")
    right.set_title("FET-GDP less FET", loc="left", fontweight="bold")
    if noisy:
        middle.legend(frameon=False, fontsize=8.5, loc="lower right")
    return figure


def _draw_intervals(axes: "Axes", records: list[DataSetRecord]) -> None:
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


def _draw_curves(
    axes: "Axes", records: list[DataSetRecord], methods: dict[float, str], title: str
) -> None:
    """Accuracy lost against FET, or against the forest without noise where FET was not trained."""
    for record, colour in zip(records, COLOURS, strict=False):
        known = "federated" if record.n_repetitions("federated") >= 2 else UNPROTECTED
        losses = {epsilon: apart(record, method, known) for epsilon, method in methods.items()}
        drawn = {epsilon: loss for epsilon, loss in losses.items() if loss is not None}
        if drawn:
            means = [loss.mean for loss in drawn.values()]
            reach = [[loss.mean - loss.low for loss in drawn.values()]]
            reach += [[loss.high - loss.mean for loss in drawn.values()]]
            label = record.name
            axes.errorbar(
                list(drawn), means, reach, marker="o", color=colour, label=label, capsize=3
            )
    _name_values(axes, list(methods))
    axes.axhline(0.0, color="#222222", linewidth=0.8)
    axes.set_xlabel(title)
    _tidy(axes)


def _name_values(axes: "Axes", values: Sequence[float]) -> None:
    """A logarithmic scale on which every measured value is named."""
    from matplotlib.ticker import NullFormatter  # noqa: PLC0415 - an extra that only figures need

    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_participation(records: list[DataSetRecord]) -> "Figure":
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
