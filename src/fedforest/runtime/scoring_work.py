"""Scoring at a party: true labels beside the votes of a model, its own or one that it is sent.

Labels that left their owner under noise only are not compared with a model of theirs: scores on the
true ones would be a release that nothing protects.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, PrivacyError
from fedforest.privacy.randomized_response import Entropy
from fedforest.protocol.aggregation import messages as counting
from fedforest.protocol.aggregation.plain import PlainAggregation, PlainAggregator
from fedforest.protocol.asking import Message
from fedforest.protocol.horizontal import messages as horizontal
from fedforest.protocol.horizontal.coordinator import train
from fedforest.protocol.horizontal.labels import PartyLabels
from fedforest.protocol.horizontal.order import TrainingOrder
from fedforest.protocol.horizontal.party import HorizontalParty
from fedforest.protocol.scoring import messages as scoring
from fedforest.protocol.scoring.party import ScoringParty, TrueClasses, TrueNumbers, Truth, Votes
from fedforest.protocol.vertical.party import PartyModel
from fedforest.runtime.data_sets import DataSet
from fedforest.runtime.driver import run
from fedforest.runtime.federation import connect
from fedforest.runtime.roles import AloneRole, Role, ScoringRole
from fedforest.tree.forest import ForestWalker
from fedforest.tree.forest_file import StoredForest
from fedforest.tree.target_checks import (
    check_class_labels,
    check_regression_target,
    check_weights,
)
from fedforest.tree.workers import Workers

Classes = NDArray[Any] | None  # in order; None for regression
_PARTY = "party"  # the only one of a training that it does alone


class ModelSource(Protocol):
    """The models of a party."""

    def read(self, model: str) -> tuple[PartyModel, Classes]:
        """The party's share of a vertical forest and, at the label party, its classes."""

    def read_forest(self, model: str) -> StoredForest:
        """A horizontal forest."""

    def is_noisy(self, model: str) -> bool:
        """Whether labels of this party went into the model under noise only."""


@dataclass(slots=True)
class ScoringWork:
    """Scoring at this party; nothing is kept of it."""

    party: ScoringParty
    requests: tuple[type[Message], ...] = scoring.REQUESTS


def score_model(
    role: ScoringRole, data: DataSet, models: ModelSource, workers: Workers
) -> ScoringWork:
    """Compare the votes of a model with the labels of a data set."""
    if models.is_noisy(role.model):
        raise PrivacyError(
            "the labels of this model are protected by noise; scores on the true labels would be "
            "a release without any"
        )
    if role.has_model:
        stored = models.read_forest(role.model)
        truth = _read_truth(role, data, stored.classes)
        own_votes = partial(_predict, stored, data, workers)
    else:
        truth, own_votes = _read_truth(role, data, models.read(role.model)[1]), None
    return ScoringWork(ScoringParty(truth, own_votes, with_confusion=role.with_confusion))


def score_alone(
    role: AloneRole, rows: tuple[DataSet, DataSet], entropy: Entropy, workers: Workers
) -> ScoringWork:
    """Train on the first rows when asked, and score on the others: nothing else leaves."""
    rows_to_train, held_out = rows
    classes = None
    if not role.is_regression:
        classes = np.unique(_read_classes(role, rows_to_train))

    def train_and_predict() -> Votes:
        return _predict(_train(role, rows_to_train, entropy, workers), held_out, workers)

    truth = _read_truth(role, held_out, classes)
    return ScoringWork(ScoringParty(truth, train_and_predict, with_confusion=role.with_confusion))


def _train(role: AloneRole, data: DataSet, entropy: Entropy, workers: Workers) -> StoredForest:
    """The forest that a federation of this party only would grow."""
    table = data.features((role.label, role.weight))
    target = _read_numbers(role, data) if role.is_regression else _read_classes(role, data)
    weights = None
    if role.weight is not None:
        weights = check_weights(data.column(role.weight), data.n_rows)
    party = HorizontalParty(
        table,
        PartyLabels(target, weights, role.is_regression),
        entropy,
        PlainAggregator,
        workers=workers,
    )
    weight = role.class_weight
    order = TrainingOrder(
        (_PARTY,),
        role.parameters.fitted_to(table.n_rows, table.n_features),
        role.seed,
        class_weight=dict(weight) if isinstance(weight, list) else weight,
    )
    requests = (*horizontal.REQUESTS, *counting.REQUESTS)
    transport = connect({_PARTY: party}, requests, workers)
    run(train(order, PlainAggregation(), workers), transport)
    assert party.model is not None, "training ends with it"
    return party.model


def _predict(stored: StoredForest, data: DataSet, workers: Workers) -> Votes:
    values = stored.bins.raw_values(data.select(stored.bins.names), workers)
    votes = ForestWalker(stored.forest, workers).votes(values, workers)
    votes /= stored.forest.shape.n_trees
    return votes


def _read_truth(role: Role, data: DataSet, classes: Classes) -> Truth:
    if role.is_regression:
        return TrueNumbers(_read_numbers(role, data))
    if classes is None:
        raise ConfigurationError("this party does not know what the model's classes mean")
    own, place = np.unique(_read_classes(role, data), return_inverse=True)
    number_of = {label: number for number, label in enumerate(classes.tolist())}
    codes = np.array([number_of.get(label, -1) for label in own.tolist()], np.int64)
    return TrueClasses(codes[place], len(classes))


def _read_classes(role: Role, data: DataSet) -> NDArray[Any]:
    return check_class_labels(_label_of(role, data), data.n_rows)


def _read_numbers(role: Role, data: DataSet) -> NDArray[np.float64]:
    return check_regression_target(_label_of(role, data), data.n_rows)


def _label_of(role: Role, data: DataSet) -> NDArray[Any]:
    if role.label is None:
        raise ConfigurationError("scores compare predictions with labels; no label is named")
    return data.column(role.label)
