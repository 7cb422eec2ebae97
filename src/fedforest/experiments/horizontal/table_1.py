"""k-PPD-ERT, Table 1: messages of one secure sum and how many must collude, by technique."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from fedforest.experiments.experiment import Cell, Experiment, Measured, Report, Setting, judge
from fedforest.experiments.figures import (
    COLOURS,
    add_legend,
    draw_curve,
    draw_printed,
    name_panel,
    new_figure,
    tick_points,
    use_log_scale,
)
from fedforest.experiments.findings import Finding
from fedforest.experiments.horizontal.message_counts import (
    SIZES,
    Protected,
    make_finding,
    name_plug,
    plugs_for,
    tabulate,
)
from fedforest.experiments.record import Record
from fedforest.protocol.aggregation.options import Masked, Ring

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUP = "one sum"
K_GROUP = "masked, N = 20"
PEERS = (1, 2, 5, 10, 19)


def _cells(setting: Setting) -> Iterator[Cell]:
    for n in (setting.quick and (3, 5, 10, 20)) or SIZES:
        for plug in plugs_for(n):
            yield Cell(GROUP, name_plug(plug), str(n), 1, partial(_count, plug, n))
    for k in PEERS:
        yield Cell(K_GROUP, "Masked", str(k), 1, partial(_count, Masked(k), 20))


def _count(plug: Protected, n: int, _: int) -> Measured:
    return {name: float(count) for name, count in tabulate(plug, n).items()}


def _report(record: Record) -> Report:
    rows = []
    for group, method, point in record.measured:
        if group == GROUP:
            values = {q: int(record.values(group, method, point, q)[0]) for q in _QUANTITIES}
            rows.append((int(point), method, values))
    is_equal = all(values["total"] == values["printed"] for _, _, values in rows)
    masked = [values["total"] == 2 * (n - 1) for n, method, values in rows if method == "Masked"]
    by_k = {record.values(K_GROUP, "Masked", str(k), "total").tolist()[0] for k in PEERS}
    checks = [
        judge("the printed totals", holds=is_equal, why=f"{len(rows)} sums counted, N = 3 to 20"),
        judge("masked messages are O(N): 2(N - 1)", holds=all(masked), why="counted on real sums"),
        judge(
            "masked messages are independent of k",
            holds=len(by_k) == 1,
            why=f"N = 20, k = {', '.join(map(str, PEERS))}: {sorted(by_k)} messages",
        ),
    ]
    return Report([make_finding(rows), _COLLUDERS], checks)


_QUANTITIES = ("total", "printed", "relayed", "questions", "set_up")
_COLLUDERS = Finding(
    "Least number of colluders that learn a party's vector",
    ["sum by", "printed", "ours", "shown by"],
    [
        [
            "Ring (distributed ERT)",
            "1",
            "1 next to the coordinator",
            "tests/statistical/test_masked_transcripts.py",
        ],
        ["Masked (k-PPD-ERT)", "k + 1", "k peers and the coordinator", "tests/masking"],
        ["Shamir", "k", "k", "tests/masking"],
    ],
    "By construction, as the tests of each technique show it. The masks of the paper are mutual: "
    "at k = N - 1 they cancel in every party's own message; ours are directed and do not.",
)


def _draw(record: Record) -> "Figure":
    figure, (panel,) = new_figure(1)
    methods = dict.fromkeys(key[1] for key in record.measured if key[0] == GROUP)
    shown = [str(type(plug()).__name__) for plug in (Ring, Masked)] + ["Shamir, k = 2"]
    for method, colour in zip([m for m in methods if m in shown], COLOURS, strict=False):
        where = (GROUP, method)
        draw_curve(
            panel, record, where, "total", color=colour, marker="o", markersize=4, label=method
        )
        points = record.points(*where)
        theirs = [record.values(*where, point, "printed").mean() for point in points]
        draw_printed(panel, [float(point) for point in points], theirs)
    name_panel(panel, "messages of one sum", "N, with the mediator", "messages")
    use_log_scale(panel)
    tick_points(panel, (3, 5, 10, 15, 20))
    add_legend(figure, [panel])
    return figure


TABLE_1 = Experiment(
    "kppd-table-1",
    "Messages and colluders of one secure sum",
    "k-PPD-ERT, Table 1",
    (),
    _cells,
    _report,
    _draw,
    "half a minute",
)
