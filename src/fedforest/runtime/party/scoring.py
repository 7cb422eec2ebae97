"""Score at a party: compare true labels with votes that the party computes or is sent.

If labels were protected by noise in training, the model is not scored on the true labels: the
scores would be a release that nothing protects.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, PrivacyError, ProtocolError
from fedforest.privacy.randomized_response import Randomness
from fedforest.protocol.asking import Handler, Message
from fedforest.protocol.contract import Gate
from fedforest.protocol.label_door import Accountant
from fedforest.protocol.scoring import messages as scoring
from fedforest.protocol.scoring.contract import CONTRACT
from fedforest.protocol.scoring.party import (
    ScoringParty,
    TrueClasses,
    TrueNumbers,
    Truth,
    Votes,
    VotesOfLeaves,
)
from fedforest.protocol.vertical.prediction.voting import read_leaves
from fedforest.runtime.messages.orders import TrainHorizontal
from fedforest.runtime.messages.roles import AloneRole, Role, ScoringRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.data_sets import DataSet
from fedforest.runtime.randomness import RandomnessSource
from fedforest.runtime.trainings.forests import declared_forest
from fedforest.runtime.trainings.horizontal import HORIZONTAL, HorizontalWork, read_own_rows
from fedforest.runtime.trainings.in_process import ProcessMeans, train_in_process
from fedforest.runtime.trainings.party_task import (
    Classes,
    Demands,
    Holdings,
    KeptOutcome,
    PartyMeans,
    PartyStores,
    PartyTask,
)
from fedforest.runtime.trainings.vertical import VERTICAL
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.forests import StoredForest
from fedforest.tree.forest.forest import ForestWalker
from fedforest.tree.forest.partial import ForestOutline
from fedforest.tree.forest.votes import ForestVotes
from fedforest.tree.table.target_checks import check_class_labels, check_regression_target
from fedforest.tree.workers import Workers

_PARTY = "party"  # the name of the only party in a baseline training


@dataclass(slots=True)
class ScoringWork:
    """Scoring at this party; nothing is stored."""

    party: ScoringParty
    accountant: Accountant
    requests: tuple[type[Message], ...] = scoring.REQUESTS
    handler: Handler = field(init=False)

    def __post_init__(self) -> None:
        self.handler = Gate(CONTRACT, None, self.party, self.accountant)

    def keep(self, kept: KeptOutcome, stores: PartyStores) -> JsonValue:  # noqa: ARG002 - there is nothing
        """Raise: scoring leaves nothing to store."""
        raise ProtocolError.stating("scoring leaves nothing to be kept")


class ScoredRows(NamedTuple):
    """Held-out rows of a data set, their labels, and the model if this party has it."""

    data: DataSet
    truth: Truth
    model: StoredForest | None
    leaves: ForestOutline | None = None  # of a model that this party alone can read


class Scoring(PartyTask[ScoringRole, ScoredRows]):
    """Compare the votes of a model with the labels of a data set."""

    role_type = ScoringRole

    def demands(self, role: ScoringRole, terms: Terms) -> Demands:
        """List what the owner of the data has to allow."""
        protocol = HORIZONTAL.protocol if role.has_model else VERTICAL.protocol
        return Demands(
            protocol,
            scores=True,
            scored_model=role.model,
            encrypts_labels=terms.encrypts_labels and not role.has_model,
        )

    def read(self, role: ScoringRole, data: DataSet, holdings: Holdings) -> ScoredRows:
        """Read the labels of the held-out rows; raises if noise protects them."""
        chosen, models = holdings.take_rows(data, role.rows), holdings.models
        if models.is_noisy(role.model):
            raise PrivacyError.stating(
                "the labels of this model are protected by noise; scores on the true labels would "
                "be a release without any"
            )
        if role.has_model:
            stored = models.read_forest(role.model)
            return ScoredRows(chosen, _read_truth(role, chosen, stored.classes), stored)
        share, classes = models.read(role.model)
        return ScoredRows(chosen, _read_truth(role, chosen, classes), None, share.outline)

    def work(self, role: ScoringRole, columns: ScoredRows, means: PartyMeans) -> ScoringWork:
        """Make a fresh handler, which computes the votes if this party has the model."""
        own_votes = votes_of = None
        if columns.model is not None:
            own_votes = partial(_predict, columns.model, columns.data, means.workers)
        if columns.leaves is not None:
            votes_of = partial(_vote, columns.leaves, columns.data.n_rows, means.workers)
        return _make_work(role, columns.truth, own_votes, means, votes_of)


class RowsAlone(NamedTuple):
    """Rows to train a baseline on, and held-out rows with their labels."""

    data: DataSet
    held_out: DataSet
    truth: Truth


class StandingAlone(PartyTask[AloneRole, RowsAlone]):
    """Train a baseline on rows of this party and score it on others: only scores leave."""

    role_type = AloneRole

    def demands(self, role: AloneRole, terms: Terms) -> Demands:  # noqa: ARG002 - always the same
        """List what the owner of the data has to allow."""
        return Demands(HORIZONTAL.protocol, scores=True, stands_alone=True)

    def read(self, role: AloneRole, data: DataSet, holdings: Holdings) -> RowsAlone:
        """Read the training rows and the held-out rows."""
        chosen = holdings.take_rows(data, role.rows)
        if role.rows is None or role.rows.held_out == 0.0:
            raise ConfigurationError.stating(
                "a baseline is scored on rows that are held out; none are"
            )
        others = msgspec.structs.replace(role.rows, is_validation=True)
        held_out = holdings.take_rows(data, others)
        classes = None if role.is_regression else np.unique(_read_classes(role, chosen))
        return RowsAlone(chosen, held_out, _read_truth(role, held_out, classes))

    def work(self, role: AloneRole, columns: RowsAlone, means: PartyMeans) -> ScoringWork:
        """Make a fresh handler, which trains when it is asked for scores."""

        def train_and_predict() -> Votes:
            trained = _train(role, columns.data, means)
            return _predict(trained, columns.held_out, means.workers)

        return _make_work(role, columns.truth, train_and_predict, means)


SCORING, ALONE = Scoring(), StandingAlone()


def _make_work(
    role: ScoringRole | AloneRole,
    truth: Truth,
    own_votes: Callable[[], Votes] | None,
    means: PartyMeans,
    votes_of: VotesOfLeaves | None = None,
) -> ScoringWork:
    party = ScoringParty(
        truth,
        own_votes,
        votes_of=votes_of,
        with_confusion=role.with_confusion,
        accountant=means.accountant,
    )
    return ScoringWork(party, means.accountant)


def _train(role: AloneRole, data: DataSet, means: PartyMeans) -> StoredForest:
    """Train the forest that a federation of this party only would grow."""
    columns = read_own_rows(role, data)
    table, parameters = columns.table, declared_forest(means.terms)
    order = TrainHorizontal(
        data={_PARTY: role.data},
        label=role.label or "",
        weight=role.weight,
        parameters=parameters.fitted_to(table.n_rows, table.n_features),
        seed=role.seed,
        class_weight=role.class_weight,
    )
    alone = ProcessMeans(_OwnRandomness(means.randomness), means.workers)
    work: HorizontalWork = train_in_process(order, {_PARTY: columns}, alone).works[_PARTY]
    assert work.party.model is not None, "training ends with it"
    return work.party.model


class _OwnRandomness(NamedTuple):
    """The randomness of a party that plays all roles of a training."""

    randomness: RandomnessSource

    def of(self, name: str) -> Randomness:
        """Choose by purpose alone: there is one party."""
        return self.randomness.of(name.partition("/")[2])


def _vote(
    outline: ForestOutline, n_rows: int, workers: Workers, data: memoryview, hard: bool
) -> Votes:
    """Return what the leaves say that rows reach."""
    leaf_of = read_leaves(data, n_rows, outline.shape)
    return ForestVotes(outline).mean(leaf_of, workers, hard=hard)


def _predict(stored: StoredForest, data: DataSet, workers: Workers) -> Votes:
    values = stored.bins.raw_values(data.select(stored.bins.names), workers)
    votes = ForestWalker(stored.forest, workers).votes(values, workers)
    votes /= stored.forest.shape.n_trees
    return votes


def _read_truth(role: Role, data: DataSet, classes: Classes) -> Truth:
    if role.is_regression:
        return TrueNumbers(_read_numbers(role, data))
    if classes is None:
        raise ConfigurationError.stating("this party does not know what the model's classes mean")
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
        raise ConfigurationError.stating(
            "scores compare predictions with labels; no label is named"
        )
    return data.column(role.label)
