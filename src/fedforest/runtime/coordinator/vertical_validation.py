"""Validate vertical forests: all parties predict the held-out rows, the label party scores them.

A party's baseline is a forest over its own columns and the label party's labels, in the protection
of the run. It is trained and predicts as any other; all parties delete it once it is scored.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from fedforest.protocol.payloads import to_bytes
from fedforest.protocol.scoring.coordinator import score_there
from fedforest.protocol.scoring.messages import ScoreLeaves, ScoreVotes
from fedforest.protocol.vertical.prediction.voting import write_leaves
from fedforest.runtime.coordinator.models import CoordinatorModels
from fedforest.runtime.coordinator.predictions import RowsToPredict, predict_rows
from fedforest.runtime.coordinator.run_stages import RunParts, say
from fedforest.runtime.coordinator.validation import SCORES, held_out
from fedforest.runtime.messages.envelope import derive_part, name_baseline
from fedforest.runtime.messages.orders import PredictVertical, TrainVertical
from fedforest.runtime.messages.party_requests import DropModel
from fedforest.runtime.messages.results import Scores, ValidationReport, VerticalResult
from fedforest.runtime.messages.roles import RowChoice, ScoringRole
from fedforest.runtime.trainings.base import CoordinatorMeans
from fedforest.runtime.trainings.vertical import VERTICAL
from fedforest.transport.base import MeasuredTransport
from fedforest.tree.workers import Workers


class _KeptBaseline(msgspec.Struct, frozen=True, array_like=True):
    """A mark that a baseline is trained and its partial forests are stored."""


@dataclass(frozen=True, slots=True)
class VerticalValidation:
    """Score one training and, if requested, the baseline of each party."""

    _order: TrainVertical
    _rows: RowChoice  # the rows of the training
    _parts: RunParts
    _models: CoordinatorModels
    _hub: MeasuredTransport
    _workers: Workers

    def report(self, trained: VerticalResult) -> ValidationReport:
        """Score the forest and the baselines on the held-out rows."""
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
            data=dict(data),
            model=model,
            hard_votes=order.hard_votes,
            leaves=order.encrypts_labels,
            asker=order.asker,
        )
        run, proof = self._parts.run.hex(), self._parts.proof
        chosen = RowsToPredict(held_out(self._rows), self._parts.log(name), run, proof=proof)
        kept = self._models.read(model)
        told = predict_rows(task, kept, self._hub, self._workers, chosen)
        role = ScoringRole(
            data=order.data[order.label_party],
            is_regression=order.is_regression,
            label=order.label,
            rows=held_out(self._rows),
            model=model,
        )
        if order.encrypts_labels:  # the label party alone knows what leaves say
            leaves = write_leaves(kept.outline.shape, told)
            request: ScoreLeaves | ScoreVotes = ScoreLeaves(leaves, order.hard_votes)
        else:
            request = ScoreVotes(to_bytes(told, "<f8"))
        conversation = score_there(order.label_party, request, is_regression=order.is_regression)
        judged = self._parts.converse(name, {order.label_party: role}, conversation)
        scores = Scores.of(judged)
        self._parts.end(name, [order.label_party], scores)
        return scores

    def _score_alone(self, party: str, trained: VerticalResult) -> Scores:
        """Train a baseline on this party's columns, score it, and delete it everywhere."""
        name = name_baseline(party)
        model = derive_part(self._parts.run, name).hex()
        order = self._alone(party, trained)
        scored = f"{name}: {SCORES}"
        self._train_alone(name, order, model)
        scores = self._score(scored, order.data, model)
        say(self._hub, {other: DropModel(model) for other in order.data})
        self._models.drop(model)
        return scores

    def _alone(self, party: str, trained: VerticalResult) -> TrainVertical:
        """Return the same request with one party's columns and the label party's labels."""
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
        if self._parts.recall(name, _KeptBaseline) is not None:
            return
        roles = {
            party: msgspec.structs.replace(
                role, has_columns=len(order.data) == 1 or role.label is None, is_alone=True
            )
            for party, role in VERTICAL.roles(order, self._rows).items()
        }
        part = derive_part(self._parts.run, name)
        means = CoordinatorMeans(part, workers=self._workers)
        trained = self._parts.converse(name, roles, VERTICAL.conversation(order, means))
        self._models.keep(model, VERTICAL.coordinator_model(order, trained))
        self._parts.end(name, tuple(order.data), _KeptBaseline(), keep=model)
