"""Trainings and predictions with everything laid open: who was asked what, and who said what.

A `Recorder` is a transport that keeps all bytes; `train_openly` and `predict_openly` run the real
coordinators and parties over it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.prediction.leap import LEAP
from fedforest.protocol.asking import Handler, Message
from fedforest.protocol.vertical import messages
from fedforest.protocol.vertical.coordinator import train
from fedforest.protocol.vertical.labels import ClassLabels, LabelSource, TargetValues
from fedforest.protocol.vertical.order import TrainedForest, VerticalOrder
from fedforest.protocol.vertical.party import PartyModel, VerticalParty
from fedforest.protocol.vertical.prediction import classical_walk
from fedforest.protocol.vertical.prediction import messages as prediction_messages
from fedforest.protocol.vertical.prediction.classical_walk import ClassicalParty, walk_classically
from fedforest.protocol.vertical.prediction.contract import make_gate
from fedforest.protocol.vertical.prediction.coordinator import Pace, PredictionOrder, route
from fedforest.protocol.vertical.prediction.party import PredictingParty
from fedforest.protocol.vertical.prediction.plan import Manner, Plan, Stage
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.base import Transport
from fedforest.transport.in_process import InProcess
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.tree.table.frames import Table, read_table
from tests.protocol.transcripts import Recorder
from tests.protocol.vertical.cases import VerticalCase

ONE_ROUND = 2**31 - 1
CLASSICAL = 0  # as a lookahead


def sweep_then(n_swept: int, lookahead: int) -> Plan:
    """Sweep some levels, then route rows with one lookahead, as often as may be needed."""
    return (Stage(Manner.SWEEP, n_swept),) + (Stage(Manner.ROUTE, lookahead),) * 40


def leap_after(*n_levels: int) -> Plan:
    """Sweep so many levels, route rows over so many, then leap as often as may be needed."""
    manners = (Manner.SWEEP, Manner.ROUTE)
    before = (Stage(manner, n) for manner, n in zip(manners, n_levels, strict=False) if n)
    return (*before, *(Stage(Manner.LEAP, LEAP),) * 40)


@dataclass(frozen=True)
class OpenTraining:
    """A finished training and its transcript."""

    case: VerticalCase
    order: VerticalOrder
    trained: TrainedForest
    parties: dict[str, VerticalParty]
    recorder: Recorder
    log: ExchangeLog

    def models(self) -> dict[str, PartyModel]:
        return {party: handler.model() for party, handler in self.parties.items()}


def make_order(case: VerticalCase, **changes: Any) -> VerticalOrder:
    """The order that an estimator would give."""
    parameters = {**case.parameters}
    out_of_bag = parameters.pop("oob_score", False)
    if case.is_regression:
        parameters = {"task": "regression", "criterion": "squared_error", **parameters}
    settings = {"out_of_bag": out_of_bag, "batch_bytes": case.batch_bytes, **changes}
    names = tuple(case.parties)
    return VerticalOrder(
        names, names[case.label_party], ForestParameters(**parameters), case.seed, **settings
    )


def make_labels(case: VerticalCase) -> LabelSource:
    if case.is_regression:
        return TargetValues(case.y, case.weights)
    return ClassLabels(case.y, int(case.y.max()) + 1, case.weights)


def party_tables(case: VerticalCase, columns: Mapping[str, Any] | None = None) -> dict[str, Table]:
    """Each party's columns of the case's table, or of another with the same columns."""
    table = read_table(columns or case.columns)
    return {party: table.take(share) for party, share in case.parties.items()}


def make_parties(case: VerticalCase) -> dict[str, VerticalParty]:
    """Fresh parties; the same noise every time."""
    label_party = f"p{case.label_party}"
    return {
        party: VerticalParty(
            table,
            fixed_randomness,
            labels=make_labels(case) if party == label_party else None,
        )
        for party, table in party_tables(case).items()
    }


def train_openly(
    case: VerticalCase, wrap: Callable[[Transport], Transport] = lambda t: t, **changes: Any
) -> OpenTraining:
    """Train over a recording transport."""
    order, parties, log = make_order(case, **changes), make_parties(case), ExchangeLog()
    endpoints = {p: make_endpoint(party, messages.REQUESTS) for p, party in parties.items()}
    recorder = Recorder(wrap(InProcess(endpoints)))
    trained = run(train(order), recorder, log)
    return OpenTraining(case, order, trained, parties, recorder, log)


@dataclass(frozen=True)
class OpenPrediction:
    """Where rows went, and how that was found out."""

    leaf_of: NDArray[np.int32]  # (trees, rows)
    recorder: Recorder
    log: ExchangeLog


def predicting_parties(
    training: OpenTraining, columns: Mapping[str, Any] | None = None, *, classical: bool = False
) -> dict[str, Handler]:
    """Fresh parties behind the contract of a prediction, or those of the classical walk."""
    tables, models = party_tables(training.case, columns), training.models()
    if classical:
        return {party: ClassicalParty(models[party], tables[party]) for party in tables}
    return {
        party: make_gate(PredictingParty(models[party], table), table.n_rows)
        for party, table in tables.items()
    }


def accepted_at(pace: Pace) -> tuple[type[Message], ...]:
    """The requests of a prediction at this pace."""
    return classical_walk.REQUESTS if pace == CLASSICAL else prediction_messages.REQUESTS


def predict_openly(
    training: OpenTraining, pace: Pace, columns: Mapping[str, Any] | None = None
) -> OpenPrediction:
    """Predict over a recording transport; a lookahead of 0 is the classical walk."""
    parties = predicting_parties(training, columns, classical=pace == CLASSICAL)
    accepted = accepted_at(pace)
    endpoints = {party: make_endpoint(handler, accepted) for party, handler in parties.items()}
    recorder, log = Recorder(InProcess(endpoints)), ExchangeLog()
    outline, n_rows = training.trained.outline, len(training.case.y)
    order = PredictionOrder(outline, training.order.parties, n_rows, pace)
    conversation = walk_classically(order) if pace == CLASSICAL else route(order)
    return OpenPrediction(run(conversation, recorder, log), recorder, log)


def depths_of_leaves(training: OpenTraining, leaf_of: NDArray[np.int32]) -> list[int]:
    """How many splits each row passes in each tree."""
    shape = training.trained.outline.shape
    depth = np.zeros(shape.n_nodes, np.int64)
    for tree in range(shape.n_trees):
        base = shape.tree_start[tree]
        for node, left in enumerate(shape.children_of(tree)):
            if left >= 0:
                depth[base + left : base + left + 2] = depth[base + node] + 1
    return [int(depth[shape.tree_start[t] + leaf]) for t, row in enumerate(leaf_of) for leaf in row]


def fixed_randomness(n_bytes: int) -> bytes:
    """The same bytes every time, so that runs can be repeated."""
    return np.random.default_rng(0).bytes(n_bytes)
