"""How axes look on which a cost grows with a quantity."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

FEW_DECADES = 1_000.0  # below this ratio, powers of ten alone would be too few marks


def scale(axes: Axes, values: Sequence[int], *, linear: bool) -> None:
    """Logarithmic costs; values linear where their steps are equal, else logarithmic too.

    Every measured value is named, of many every other.
    """
    axes.set_yscale("log")
    if not linear:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    shown = values if len(values) <= 4 else values[len(values) % 2 == 0 :: 2]
    axes.set_xticks(shown)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    low, high = axes.get_ylim()
    if high < FEW_DECADES * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    tidy(axes)


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def tidy(axes: Axes) -> None:
    """A quiet grid, and no frame on the sides that carry no scale."""
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
