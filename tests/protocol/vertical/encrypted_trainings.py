"""Trainings with encrypted labels over a recording transport, and the forest of all parts."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedforest.protocol.aggregation.introduction import make_members
from fedforest.protocol.contract import Gate
from fedforest.protocol.vertical.contract import VerticalDeclared
from fedforest.protocol.vertical.encrypted import messages
from fedforest.protocol.vertical.encrypted.contract import CONTRACT
from fedforest.protocol.vertical.encrypted.coordinator import train_encrypted
from fedforest.protocol.vertical.encrypted.label_party import LabelParty
from fedforest.protocol.vertical.encrypted.party import ColumnParty
from fedforest.protocol.vertical.labels import ClassLabels
from fedforest.protocol.vertical.order import TrainedForest, VerticalOrder
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.base import Transport
from fedforest.transport.in_process import InProcess
from fedforest.tree.files.forests import encode_forest
from fedforest.tree.forest.partial import union
from fedforest.tree.table.bins import Bins
from tests.protocol.transcripts import Recorder
from tests.protocol.vertical.cases import VerticalCase, sample_case
from tests.protocol.vertical.conversations import make_labels, make_order, party_tables

Party = ColumnParty | LabelParty
RUN = b"r" * 16


@dataclass(frozen=True)
class EncryptedTraining:
    """A finished training and its transcript."""

    case: VerticalCase
    order: VerticalOrder
    trained: TrainedForest
    parties: dict[str, Party]
    recorder: Recorder
    log: ExchangeLog

    @property
    def label_party(self) -> LabelParty:
        party = self.parties[self.order.label_party]
        assert isinstance(party, LabelParty)
        return party

    def whole_file(self) -> bytes:
        """The forest that coordinator, label party and all others have together."""
        secret = self.label_party.outline()
        outline = replace(secret, owner=self.trained.outline.owner)
        models = [self.parties[name].model() for name in self.order.parties]
        forest = union(outline, [model.partial for model in models])
        return encode_forest(forest, Bins.concatenate([model.bins for model in models]))


def small_case() -> VerticalCase:
    """Few rows and bins, since every ciphertext takes its time; gaps, and three classes."""
    case = sample_case()
    columns = {name: case.columns[name][:40] for name in ("c0", "c1", "c2")}
    parameters = {"n_estimators": 3, "max_depth": 2, "max_bins": 8}
    return VerticalCase(columns, case.y[:40], None, parameters, (1, 1, 1), label_party=1)


def make_encrypted_parties(case: VerticalCase, order: VerticalOrder, seed: int) -> dict[str, Party]:
    parties: dict[str, Party] = {}
    seeds = {name: [seed, number] for number, name in enumerate(case.parties)}
    members = make_members({name: np.random.default_rng(own).bytes for name, own in seeds.items()})
    for name, table in party_tables(case).items():
        if name == order.label_party:
            labels = make_labels(case)
            if isinstance(labels, ClassLabels) and case.class_weight == "balanced":
                labels = replace(labels, class_weights="balanced")
            parties[name] = LabelParty(table, members[name], labels, order.parameters)
        else:
            depth = order.parameters.depth_limit
            parties[name] = ColumnParty(table, members[name], order.label_party, max_depth=depth)
    return parties


def make_gate(party: Party, order: VerticalOrder) -> Gate[VerticalDeclared]:
    """The gate of a run that declared what the order says."""
    n_rows, votes = party._table.n_rows, order.with_left_out
    declared = VerticalDeclared(order.parameters, n_rows, 0, None, votes, order.out_of_bag)
    return Gate(CONTRACT, declared, party)


def train_encryptedly(
    case: VerticalCase,
    seed: int = 0,
    wrap: Callable[[Transport], Transport] = lambda transport: transport,
    **changes: Any,
) -> EncryptedTraining:
    """Train over a recording transport."""
    order, log = make_order(case, **changes), ExchangeLog()
    parties = make_encrypted_parties(case, order, seed)
    gates = {party: make_gate(handler, order) for party, handler in parties.items()}
    endpoints = {party: make_endpoint(gate, messages.REQUESTS) for party, gate in gates.items()}
    recorder = Recorder(wrap(InProcess(endpoints)))
    trained = run(train_encrypted(order, RUN), recorder, log)
    return EncryptedTraining(case, order, trained, parties, recorder, log)
