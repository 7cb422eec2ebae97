"""A chart of what grows in steps over time, such as the epsilon that was spent."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fedforest.reports.charts import N_COLOURS, WIDTH, nice_ticks, svg, text
from fedforest.reports.formats import format_time
from fedforest.reports.markup import Markup, element

_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, WIDTH - 20.0, 12.0, 190.0


class Steps(NamedTuple):
    """A line: moments in seconds since 1970, and the value from then on."""

    name: str
    points: Sequence[tuple[float, float]]


def step_chart(title: str, lines: Sequence[Steps]) -> Markup:
    """Return lines that begin at zero, each with its name in the legend below."""
    moments = [at for line in lines for at, _ in line.points]
    first, last = min(moments), max(moments)
    margin = 0.04 * (last - first) or 1800.0
    first, last = first - margin, last + margin
    most = max(value for line in lines for _, value in line.points) or 1.0

    def place(at: float, value: float) -> tuple[float, float]:
        x = _LEFT + (_RIGHT - _LEFT) * (at - first) / (last - first)
        return x, _BOTTOM - (_BOTTOM - _TOP) * value / most

    drawn: list[Markup] = []
    for tick in nice_ticks(0.0, most):
        y = place(first, tick)[1]
        drawn.append(
            element("line", x1=_LEFT, x2=_RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid")
        )
        drawn.append(text(f"{tick:g}", _LEFT - 8.0, y + 4.0, "quiet", "end"))
    for number, line in enumerate(lines):
        colour = number % N_COLOURS
        drawn.append(element("path", d=_path(line, place, last), class_=f"steps o{colour}"))
        foot = _BOTTOM + 46.0 + 20.0 * number
        drawn.append(
            element("rect", x=_LEFT, y=foot - 10.0, width=12, height=12, rx=3, class_=f"o{colour}")
        )
        drawn.append(text(line.name, _LEFT + 20.0, foot))
    drawn.append(text(format_time(first + margin)[:16], _LEFT, _BOTTOM + 20.0, "quiet"))
    drawn.append(text(format_time(last - margin)[:16], _RIGHT, _BOTTOM + 20.0, "quiet", "end"))
    return svg(title, WIDTH, _BOTTOM + 50.0 + 20.0 * len(lines), drawn)


def _path(line: Steps, place: Callable[[float, float], tuple[float, float]], last: float) -> str:
    x, y = place(line.points[0][0], 0.0)
    parts = [f"M{x:.1f} {y:.1f}"]
    for at, value in line.points:
        x, y = place(at, value)
        parts.append(f"H{x:.1f}V{y:.1f}")
    parts.append(f"H{place(last, 0.0)[0]:.1f}")
    return "".join(parts)
