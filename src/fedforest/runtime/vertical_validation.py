"""Validation of vertical forests: all parties predict the held-out rows, the label party judges.

A party's baseline is a forest over its own columns and the label party's labels. It is trained as
any other, predicts as any other, and is dropped by everybody once it is scored.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from fedforest.protocol.scoring.coordinator import score_votes
from fedforest.protocol.vertical.coordinator import train
from fedforest.runtime.coordinator_models import CoordinatorModel, CoordinatorModels
from fedforest.runtime.orders import PredictVertical, TrainVertical
from fedforest.runtime.party_requests import DropModel
from fedforest.runtime.predictions import RowsToPredict, predict_rows
from fedforest.runtime.results import Scores, ValidationReport, VerticalResult
from fedforest.runtime.roles import AnyRole, RowChoice, ScoringRole, VerticalRole
from fedforest.runtime.run_parts import RunParts, derive_part, say
from fedforest.runtime.trainings import assign_roles, describe_vertical_training
from fedforest.runtime.validation import ALONE, SCORES, held_out
from fedforest.transport.base import MeasuredTransport
from fedforest.tree.workers import Workers


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """A baseline is trained, and its shares are kept for now."""


@dataclass(frozen=True, slots=True)
class VerticalValidation:
    """Scores one training and, if asked for, what each party would reach without the others."""

    _order: TrainVertical
    _rows: RowChoice  # that it was trained on
    _parts: RunParts
    _models: CoordinatorModels
    _hub: MeasuredTransport
    _workers: Workers

    def report(self, trained: VerticalResult) -> ValidationReport:
        """Scores on the rows that were held out."""
        federated = self._score(SCORES, self._order.data, trained.model)
        alone: dict[str, Scores] = {}
        if self._order.alone:
            parties = [party for party, n in trained.columns_per_party.items() if n]
            alone = {party: self._score_alone(party, trained) for party in parties}
        return ValidationReport(federated=federated, alone=alone)

    def _score(self, name: str, data: Mapping[str, str], model: str) -> Scores:
        known = self._parts.recall(name, Scores)
        if known is not None:
            return known
        order = self._order
        task = PredictVertical(
            data=dict(data), model=model, hard_votes=order.hard_votes, asker=order.asker
        )
        chosen = RowsToPredict(held_out(self._rows), self._parts.log(name), self._parts.run.hex())
        kept = self._models.read(model)
        votes = predict_rows(task, kept, self._hub, self._workers, chosen)
        role = ScoringRole(
            data=order.data[order.label_party],
            is_regression=order.is_regression,
            label=order.label,
            rows=held_out(self._rows),
            model=model,
        )
        conversation = score_votes(order.label_party, votes, is_regression=order.is_regression)
        judged = self._parts.converse(name, {order.label_party: role}, conversation)
        scores = Scores.of(judged)
        self._parts.end(name, [order.label_party], scores)
        return scores

    def _score_alone(self, party: str, trained: VerticalResult) -> Scores:
        """What a forest over this party's columns reaches, and nothing else of it."""
        name = f"{ALONE}, {party}"
        model = derive_part(self._parts.run, name).hex()
        order = self._alone(party, trained)
        scored = f"{name}: {SCORES}"
        self._train_alone(name, order, model)
        scores = self._score(scored, order.data, model)
        say(self._hub, {other: DropModel(model) for other in order.data})
        self._models.drop(model)
        return scores

    def _alone(self, party: str, trained: VerticalResult) -> TrainVertical:
        """The same training with one party's columns; whoever has the labels still gives them."""
        order = self._order
        parameters = order.parameters.fitted_to(trained.n_rows, trained.columns_per_party[party])
        return msgspec.structs.replace(
            order,
            data={
                name: order.data[name] for name in order.data if name in (party, order.label_party)
            },
            parameters=parameters,
            seed=self._models.read(trained.model).seed,
            continues=None,
            out_of_bag=False,
        )

    def _train_alone(self, name: str, order: TrainVertical, model: str) -> None:
        if self._parts.recall(name, _Kept) is not None:
            return
        roles = {
            party: _as_baseline(role, has_columns=len(order.data) == 1 or role.label is None)
            for party, role in assign_roles(order, self._rows).items()
        }
        training = describe_vertical_training(order, self._models)
        trained = self._parts.converse(name, roles, train(training, self._workers))
        parties = tuple(order.data)
        n_trees, seed = order.parameters.n_estimators, training.seed
        kept = CoordinatorModel(
            trained.outline, parties, n_trees, seed, label_party=order.label_party
        )
        self._models.keep(model, kept)
        self._parts.end(name, parties, _Kept(), keep=model)


def _as_baseline(role: AnyRole, *, has_columns: bool) -> VerticalRole:
    assert isinstance(role, VerticalRole)
    return msgspec.structs.replace(role, has_columns=has_columns, is_alone=True)
