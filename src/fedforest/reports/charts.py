"""Charts as inline SVG, drawn here: no script, no font, no request; colours are the style sheet's.

Every chart has a title that a screen reader tells, and its figures stand in text or in a table.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fedforest.reports.formats import format_score
from fedforest.reports.markup import Markup, element

WIDTH = 720.0
N_COLOURS = 6  # of owners, in the style sheet: o0, o1 and so on
_LINE = 26.0
_LABEL = 230.0


class Bar(NamedTuple):
    """A bar with its name and the number of its owner's colour."""

    name: str
    value: float
    owner: int = 0


class ScoreInterval(NamedTuple):
    """A score with the interval around it, where one is known."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    owner: int = 0


def svg(
    title: str, width: float, height: float, *children: Markup | Sequence[Markup], scale: float = 0
) -> Markup:
    """Return a picture that grows and shrinks with the page, or is of a size of its own."""
    return element(
        "svg",
        element("title", title),
        children,
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{scale * width:.0f}" if scale else None,
        role="img",
        aria_label=title,
        preserveAspectRatio="xMinYMin meet",
    )


def text(content: str, x: float, y: float, class_: str = "", anchor: str = "start") -> Markup:
    """Return a line of text at a place."""
    placed = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor}
    return element("text", content, class_=class_ or None, **placed)


def shorten(name: str, longest: int = 30) -> str:
    """Return a name that fits beside a bar."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def bar_chart(title: str, bars: Sequence[Bar]) -> Markup:
    """Return horizontal bars, the first on top."""
    most = max((bar.value for bar in bars), default=0.0) or 1.0
    room = WIDTH - _LABEL - 70.0
    drawn = []
    for number, bar in enumerate(bars):
        y = number * _LINE
        length = room * max(0.0, bar.value) / most
        drawn += [
            element(
                "g",
                element("title", f"{bar.name}: {bar.value:.4f}"),
                [
                    text(shorten(bar.name), _LABEL - 10.0, y + 17.0, anchor="end"),
                    element(
                        "rect",
                        x=_LABEL,
                        y=y + 5.0,
                        width=f"{length:.1f}",
                        height=16,
                        rx=2,
                        class_=f"o{bar.owner % N_COLOURS}",
                    ),
                    text(f"{bar.value:.3f}", _LABEL + length + 8.0, y + 17.0, "quiet"),
                ],
            )
        ]
    return svg(title, WIDTH, max(1, len(bars)) * _LINE + 6.0, drawn)


def interval_chart(title: str, intervals: Sequence[ScoreInterval]) -> Markup:
    """Return dots with their intervals on one axis."""
    ends = [
        end for each in intervals for end in (each.low, each.high, each.value) if end is not None
    ]
    low, high = min(ends), max(ends)
    margin = 0.08 * (high - low) or 0.01
    low, high = low - margin, high + margin
    room = WIDTH - _LABEL - 70.0

    def place(value: float) -> float:
        return _LABEL + room * (value - low) / (high - low)

    bottom = len(intervals) * _LINE
    ticks = nice_ticks(low, high)
    drawn: list[Markup] = []
    for tick in ticks:
        x = f"{place(tick):.1f}"
        drawn.append(element("line", x1=x, x2=x, y1=0, y2=bottom, class_="grid"))
        drawn.append(text(f"{tick:g}", place(tick), bottom + 18.0, "quiet", "middle"))
    for number, each in enumerate(intervals):
        y = number * _LINE + 13.0
        colour = f"o{each.owner % N_COLOURS}"
        drawn.append(text(shorten(each.name), _LABEL - 10.0, y + 4.0, anchor="end"))
        if each.low is not None and each.high is not None:
            ends_at = {"x1": f"{place(each.low):.1f}", "x2": f"{place(each.high):.1f}"}
            drawn.append(element("line", y1=y, y2=y, class_=f"whisker {colour}", **ends_at))
        drawn.append(element("circle", cx=f"{place(each.value):.1f}", cy=y, r=5, class_=colour))
        drawn.append(text(format_score(each.value), WIDTH - 62.0, y + 4.0, "quiet"))
    return svg(title, WIDTH, bottom + 26.0, drawn)


def line_chart(title: str, values: Sequence[float], *, across: str) -> Markup:
    """Return one line over 1, 2, 3 and so on; values that are no numbers are left out."""
    points = [(n, v) for n, v in enumerate(values, 1) if math.isfinite(v)]
    if len(points) < 2:
        return element("p", "There are too few points for a curve.", class_="quiet")
    low, high = min(v for _, v in points), max(v for _, v in points)
    if high == low:
        low, high = low - 0.5, high + 0.5
    left, right, top, bottom = 60.0, WIDTH - 20.0, 12.0, 210.0
    n_most = max(points[-1][0], 2)

    def place(n: float, value: float) -> tuple[float, float]:
        x = left + (right - left) * (n - 1) / (n_most - 1)
        return x, bottom - (bottom - top) * (value - low) / (high - low)

    drawn: list[Markup] = []
    for tick in nice_ticks(low, high):
        _, y = place(1, tick)
        drawn.append(
            element("line", x1=left, x2=right, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid")
        )
        drawn.append(text(f"{tick:g}", left - 8.0, y + 4.0, "quiet", "end"))
    whole = [tick for tick in nice_ticks(1, n_most) if float(tick).is_integer() and tick >= 1]
    drawn += [text(f"{n:g}", place(n, low)[0], bottom + 20.0, "quiet", "middle") for n in whole]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    drawn.append(element("polyline", points=path, class_="curve"))
    drawn.append(text(across, right, bottom + 38.0, "quiet", "end"))
    return svg(title, WIDTH, bottom + 44.0, drawn)


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers between two, some five of them."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(each for each in (1, 2, 5, 10) if each * power >= rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def heat_table(classes: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """Return a confusion table whose cells are as dark as the fraction of their row."""
    head = element(
        "tr",
        element("th", "true class", scope="col"),
        [element("th", f"predicted {name}", scope="col") for name in classes],
    )
    rows = []
    for number, (name, row) in enumerate(zip(classes, counts, strict=True)):
        total = max(1, sum(row))
        cells = []
        for other, count in enumerate(row):
            shade = min(9, round(9.0 * count / total))
            kind = "hit" if other == number else "miss"
            share = element("small", f" {count / total:.0%}")
            cells.append(element("td", f"{count:,}", share, class_=f"{kind} h{shade}"))
        rows.append(element("tr", element("th", name, scope="row"), cells))
    whole = element("table", element("thead", head), element("tbody", rows), class_="heat")
    return element(
        "div", whole, class_="scroll", tabindex=0, role="region", aria_label="confusion table"
    )
