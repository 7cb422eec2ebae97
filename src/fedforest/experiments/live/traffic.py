"""Federated Forest, section 4.5: messages and bytes against depth and parties, counted on the wire.

All parties of a live federation reach the coordinator through a line that counts bytes of TCP:
TLS, frames and gRPC's own are included. Messages are the coordinator's record of exchanges: a
request and a reply of each asked party. Beside them stands what the paper's protocol would take,
node by node, for the tree that was grown.
"""

import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedforest import VerticalForestClassifier
from fedforest.estimators.vertical.options import ONE_ROUND
from fedforest.experiments.experiment import (
    Cell,
    Check,
    Experiment,
    Measured,
    Report,
    Setting,
    judge,
)
from fedforest.experiments.figures import (
    COLOURS,
    name_panel,
    new_figure,
    tick_points,
    use_log_scale,
)
from fedforest.experiments.findings import Finding
from fedforest.experiments.live.federation import LiveFederation
from fedforest.experiments.live.line import Line
from fedforest.experiments.record import Record
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.messages.orders import PredictVertical, TrainVertical
from fedforest.runtime.messages.results import Exchanged, News, Predictions, VerticalResult
from fedforest.tree.growth.parameters import ForestParameters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spambase"
LABEL = "label"
DEPTHS, QUICK_DEPTHS = (2, 4, 6, 8, 10, 12), (2, 6)
PARTIES, QUICK_PARTIES = (1, 2, 3, 4, 6, 8), (2, 8)
USUAL_DEPTH, USUAL_PARTIES = 6, 2
TREES = (1, 20)
N_ASKED = 20  # rows of the classical walk
BY_DEPTH, BY_PARTIES = "depth", "parties"


class Live(NamedTuple):
    """A federation whose parties have a data set for every number of parties."""

    federation: LiveFederation
    client: Federation


def _cells(setting: Setting) -> Iterator[Cell]:
    live = cache(partial(_open, setting))
    for axis, full, quick in (
        (BY_DEPTH, DEPTHS, QUICK_DEPTHS),
        (BY_PARTIES, PARTIES, QUICK_PARTIES),
    ):
        for point in quick if setting.quick else full:
            for n_trees in TREES:
                depth, n_parties = (
                    (point, USUAL_PARTIES) if axis == BY_DEPTH else (USUAL_DEPTH, point)
                )
                measure = partial(_measure, live, setting, (n_trees, depth, n_parties))
                yield Cell(f"by {axis}", _name_trees(n_trees), str(point), 1, measure)


def _name_trees(n_trees: int) -> str:
    return "1 tree" if n_trees == 1 else f"{n_trees} trees"


def _open(setting: Setting) -> Live:
    import pyarrow  # noqa: PLC0415 - an extra that only experiments need

    table = setting.read(NAME)
    tables: dict[str, dict[str, pyarrow.Table]] = {}
    for n_parties in PARTIES:
        for number, own in enumerate(np.array_split(np.arange(table.shape[1]), n_parties)):
            columns = {f"column_{column}": table.codes[:, column] for column in own}
            if number == 0:
                columns[LABEL] = table.y
            name = f"of_{n_parties}"
            tables.setdefault(f"party_{number}", {})[name] = pyarrow.table(columns)
    folder = setting.stack.enter_context(tempfile.TemporaryDirectory())
    live = setting.stack.enter_context(LiveFederation(Path(folder), tables, Line()))
    return Live(live, setting.stack.enter_context(live.connect()))


def _measure(
    live: Callable[[], Live], setting: Setting, size: tuple[int, int, int], repetition: int
) -> Measured:
    n_trees, depth, n_parties = size
    federation, client = live()
    line = federation.counting
    assert line is not None
    parties = [f"party_{number}" for number in range(n_parties)]
    data = dict.fromkeys(parties, f"of_{n_parties}")
    order = TrainVertical(
        data=data,
        label=LABEL,
        label_party=parties[0],
        parameters=ForestParameters(n_estimators=n_trees, max_depth=depth, max_features="sqrt"),
        seed=setting.seed + repetition,
    )
    events: list[News] = []
    before = line.n_bytes
    result = client.train(order, VerticalResult, events.append)
    trained = line.n_bytes - before
    steps = [event for event in events if isinstance(event, Exchanged)]
    asked = PredictVertical(data=data, model=result.model, lookahead=ONE_ROUND)
    before = line.n_bytes
    n_rows = len(client.ask(asked, Predictions).read())
    predicted = line.n_bytes - before
    table = setting.read(NAME)
    forest = VerticalForestClassifier(
        n_trees, max_depth=depth, random_state=0, parties=n_parties, prediction="classical"
    ).fit(table.codes, table.y)
    inner = int((forest._model.outline.shape.left_child >= 0).sum())
    once = VerticalForestClassifier(
        n_trees, max_depth=depth, random_state=0, parties=n_parties, prediction="one_round"
    ).fit(table.codes, table.y)
    return {
        "messages": sum(len(step.bytes_to) + len(step.bytes_from) for step in steps),
        "contents": sum(sum(s.bytes_to.values()) + sum(s.bytes_from.values()) for s in steps),
        "wire": trained,
        "by node": inner * (2 * n_parties + 1),
        "bound": n_trees * 2**depth * (n_parties + 1),
        "one round": 2 * n_parties * once.prediction_cost(table.codes[:N_ASKED]).n_exchanges,
        "classical": 2 * forest.prediction_cost(table.codes[:N_ASKED]).n_exchanges,
        "prediction wire": predicted,
        "rows": n_rows,
    }


def _value(record: Record, axis: str, n_trees: int, point: str, quantity: str) -> float:
    values = record.values(f"by {axis}", _name_trees(n_trees), point, quantity)
    return float(values[0]) if len(values) else float("nan")


def _points(record: Record, axis: str) -> list[str]:
    """Return the points at which everything was measured."""
    counted = [record.points(f"by {axis}", _name_trees(n_trees)) for n_trees in TREES]
    return [point for point in counted[0] if all(point in points for points in counted)]


_TRAINING = (
    ("messages", "messages"),
    ("by node", "node by node"),
    ("bound", "2^k (M + 1)"),
    ("contents", "bytes of contents"),
    ("wire", "bytes on the wire"),
)
_PREDICTION = (
    ("one round", "messages, one round"),
    ("classical", f"messages, classical, {N_ASKED} rows"),
    ("prediction wire", "bytes on the wire, one round, all rows"),
)


def _report(record: Record) -> Report:
    tables = [
        Finding(
            title,
            ["varied", "value", "trees", *(told for _, told in quantities)],
            [
                [axis, point, str(n_trees)]
                + [f"{_value(record, axis, n_trees, point, q):,.0f}" for q, _ in quantities]
                for axis in (BY_DEPTH, BY_PARTIES)
                for n_trees in TREES
                for point in _points(record, axis)
            ],
            note,
        )
        for title, quantities, note in (
            (
                "Training",
                _TRAINING,
                "Node by node: M gains, one choice and M broadcasts for each inner node of the "
                "tree that was grown. The bound is that of the paper, once for each tree.",
            ),
            ("Prediction", _PREDICTION, "A message is a request or a reply."),
        )
    ]
    return Report(tables, list(_checks(record)), _NOTES)


_NOTES = (
    f"{NAME}, columns in even consecutive parts; depth {USUAL_DEPTH} where parties vary, "
    f"{USUAL_PARTIES} parties where depth varies.",
)


def _checks(record: Record) -> Iterator[Check]:
    if any(len(_points(record, axis)) < 2 for axis in (BY_DEPTH, BY_PARTIES)):
        yield judge("messages as in section 4.5", holds=None, why="not all points are measured")
        return

    def values(axis: str, quantity: str, n_trees: int = 1) -> list[float]:
        return [_value(record, axis, n_trees, p, quantity) for p in _points(record, axis)]

    ratios = [
        node / bound
        for axis in (BY_DEPTH, BY_PARTIES)
        for node, bound in zip(values(axis, "by node"), values(axis, "bound"), strict=True)
    ]
    yield judge(
        "training node by node takes O(2^k (M + 1)) messages",
        holds=max(ratios) <= 2.0,
        why=f"{min(ratios):.2f} to {max(ratios):.2f} of the bound on the trees that were grown",
    )
    depths = [int(point) for point in _points(record, BY_DEPTH)]
    messages = values(BY_DEPTH, "messages")
    yield judge(
        "level by level, messages rise with depth and not with 2^depth (beyond the paper)",
        holds=messages[-1] / messages[0] <= 2.0 * depths[-1] / depths[0],
        why=f"{messages[0]:.0f} messages at depth {depths[0]}, {messages[-1]:.0f} at "
        f"{depths[-1]}; node by node {values(BY_DEPTH, 'by node')[-1]:,.0f}",
    )
    many = values(BY_DEPTH, "messages", TREES[-1])
    factor = max(b / a for a, b in zip(messages, many, strict=True))
    yield judge(
        f"level by level, {TREES[-1]} trees take about the messages of one (beyond the paper)",
        holds=factor <= 2.0,
        why=f"at most {factor:.2f} times as many",
    )
    parties = [int(point) for point in _points(record, BY_PARTIES)]
    once = values(BY_PARTIES, "one round")
    yield judge(
        "prediction in one round takes O(M) messages",
        holds=once == [2 * n for n in parties] and len(set(values(BY_DEPTH, "one round"))) == 1,
        why=f"{', '.join(f'{n:.0f}' for n in once)} for {', '.join(map(str, parties))} parties, "
        "the same at every depth",
    )
    classical = values(BY_DEPTH, "classical")
    yield judge(
        "the classical walk takes more messages the deeper the tree",
        holds=classical[-1] > classical[0],
        why=f"{classical[0]:.0f} to {classical[-1]:.0f} for {N_ASKED} rows, where one round takes "
        f"{once[0]:.0f} to {once[-1]:.0f}",
    )


def _draw(record: Record) -> "Figure":
    figure, panels = new_figure(4, n_rows=2)
    training = (
        ("2^k (M + 1), the paper's bound", 1, "bound", ":"),
        ("node by node", 1, "by node", "--"),
        ("level by level, 1 tree", 1, "messages", "-"),
        (f"level by level, {TREES[-1]} trees", TREES[-1], "messages", "-"),
    )
    prediction = (
        (f"classical, {N_ASKED} rows", 1, "classical", "--"),
        ("one round", 1, "one round", "-"),
    )
    for panel, (axis, curves, title) in zip(
        panels,
        [
            (axis, curves, title)
            for curves, title in ((training, "training"), (prediction, "prediction, 1 tree"))
            for axis in (BY_DEPTH, BY_PARTIES)
        ],
        strict=True,
    ):
        xs = [float(point) for point in _points(record, axis)]
        for (label, n_trees, quantity, line), colour in zip(curves, COLOURS, strict=False):
            ys = [_value(record, axis, n_trees, point, quantity) for point in _points(record, axis)]
            panel.plot(xs, ys, line, marker="o", markersize=3, color=colour, label=label)
        use_log_scale(panel)
        tick_points(panel, xs)
        name_panel(panel, f"{title}, by {axis}", axis, "messages")
        panel.legend(frameon=False, fontsize=7)
    return figure


COMPLEXITY = Experiment(
    "ff-complexity",
    "Messages and bytes against depth and parties",
    "Federated Forest, section 4.5",
    (NAME,),
    _cells,
    _report,
    _draw,
    "5 minutes",
    extras=("grpc", "pyarrow"),
)
