"""What becomes of a role at a party: a handler with what this party has.

The same role, data and entropy always make the same handler: that is what recovery by replay stands
on. Labels, weights and columns are checked here, before anything is kept of a run.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.protocol.aggregation import messages as counting
from fedforest.protocol.aggregation.base import LEAST_PARTICIPANTS
from fedforest.protocol.aggregation.introduction import check_pins
from fedforest.protocol.aggregation.plugs import Plug, make_aggregator
from fedforest.protocol.alignment import messages as alignment
from fedforest.protocol.alignment.party import Aligner, KeyedHashAligner
from fedforest.protocol.asking import Message, check
from fedforest.protocol.horizontal import messages as horizontal
from fedforest.protocol.horizontal.labels import PartyLabels
from fedforest.protocol.horizontal.messages import AgreeOnTable
from fedforest.protocol.horizontal.party import HorizontalParty
from fedforest.protocol.linear import messages as linear
from fedforest.protocol.linear.labels import NumericLabels, check_some_weight, tell_two_classes
from fedforest.protocol.linear.party import LinearParty
from fedforest.protocol.vertical import messages as vertical
from fedforest.protocol.vertical.labels import ClassLabels, LabelSource, TargetValues
from fedforest.protocol.vertical.out_of_bag import check_earlier_votes
from fedforest.protocol.vertical.party import PartyModel, VerticalParty
from fedforest.runtime.alignments import Alignments
from fedforest.runtime.data_sets import DataSet, DataSets
from fedforest.runtime.entropy import Entropies, EntropySource
from fedforest.runtime.held_out import take_rows
from fedforest.runtime.roles import (
    AlignmentRole,
    AloneRole,
    AnyRole,
    HorizontalRole,
    LinearRole,
    PartyKeys,
    Role,
    ScoringRole,
    VerticalRole,
)
from fedforest.runtime.scoring_work import ModelSource, ScoringWork, score_alone, score_model
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.class_labels import pack_labels
from fedforest.tree.class_weights import weigh_classes
from fedforest.tree.table import Table
from fedforest.tree.target_checks import (
    check_class_labels,
    check_regression_target,
    check_weights,
)
from fedforest.tree.workers import ALONE, Workers


@dataclass(slots=True)
class VerticalWork:
    """A vertical training at this party."""

    party: VerticalParty
    table_names: tuple[str, ...]
    classes: NDArray[Any] | None
    is_alone: bool = False  # a baseline, to be dropped when it is scored
    requests: tuple[type[Message], ...] = vertical.REQUESTS

    def describe_classes(self) -> JsonValue:
        """What class numbers mean, from the label party alone."""
        return None if self.classes is None else pack_labels(self.classes)


@dataclass(slots=True)
class HorizontalWork:
    """A horizontal training at this party."""

    party: HorizontalParty
    is_noisy: bool = False
    requests: tuple[type[Message], ...] = (*horizontal.REQUESTS, *counting.REQUESTS)


@dataclass(slots=True)
class LinearWork:
    """The training of a linear model at this party."""

    party: LinearParty
    classes: NDArray[Any] | None
    requests: tuple[type[Message], ...] = linear.TRAINING_REQUESTS

    def describe_classes(self) -> JsonValue:
        """What class numbers mean, from the label party alone."""
        return None if self.classes is None else pack_labels(self.classes)


@dataclass(slots=True)
class AlignmentWork:
    """An alignment of this party's rows with those of others."""

    party: Aligner
    data: str
    ids: list[bytes]
    requests: tuple[type[Message], ...] = alignment.REQUESTS


ModelWork = VerticalWork | HorizontalWork | LinearWork
Work = ModelWork | AlignmentWork | ScoringWork


Approve = Callable[[Message], None]


class Limits(NamedTuple):
    """What the owner of the data allows in a run."""

    hide: Callable[[Collection[str]], frozenset[str]] = lambda _: frozenset()
    approve: Approve | None = None


NO_LIMITS = Limits()


class _Columns(NamedTuple):
    """What a vertical role needs of a data set; handlers only read it."""

    table: Table
    labels: LabelSource | None
    classes: NDArray[Any] | None
    before: PartyModel | None


@dataclass(slots=True)
class RoleMaker:
    """Makes handlers out of roles with what this party has."""

    keys: PartyKeys
    data: DataSets
    models: ModelSource
    alignments: Alignments
    workers: Workers = ALONE
    # Columns are checked before a run is stored and used after it, so the last ones are kept.
    _last: tuple[VerticalRole, DataSet, _Columns] | None = field(default=None, repr=False)
    _shown: tuple[DataSet, frozenset[str], DataSet] | None = field(default=None, repr=False)
    _last_ids: tuple[DataSet, list[bytes]] | None = field(default=None, repr=False)  # the same

    def check(self, role: AnyRole, limits: Limits = NO_LIMITS) -> None:
        """Refuse a role that this party's data cannot fill, before anything is kept of it."""
        self.make(role, Entropies(None), limits)

    def make(self, role: AnyRole, entropies: EntropySource, limits: Limits = NO_LIMITS) -> Work:
        """A fresh handler; raises `DataError` where the data set does not fit the role."""
        data = self._show(self.data.read(role.data), limits)
        if isinstance(role, VerticalRole):
            return self._make_vertical(role, data, entropies, limits)
        if isinstance(role, AlignmentRole):
            return self._make_alignment(role, data, entropies)
        chosen = self._take_rows(role, data)
        if isinstance(role, HorizontalRole):
            return self._make_horizontal(role, chosen, entropies, limits)
        if isinstance(role, LinearRole):
            return _make_linear(role, chosen, limits)
        if isinstance(role, ScoringRole):
            return score_model(role, chosen, self.models, self.workers)
        held_out = self._take_rows(_validation_of(role), data)
        return score_alone(role, (chosen, held_out), entropies.of("training"), self.workers)

    def _show(self, data: DataSet, limits: Limits) -> DataSet:
        """The data set without hidden columns, the same one as long as these are the same."""
        hidden = limits.hide(data.columns.column_names)
        if not hidden:
            return data
        if self._shown is None or self._shown[0] is not data or self._shown[1] != hidden:
            self._shown = (data, hidden, data.without(hidden))
        return self._shown[2]

    def _make_alignment(
        self, role: AlignmentRole, data: DataSet, entropies: EntropySource
    ) -> AlignmentWork:
        """What would be refused after the alignment is refused before ids are hashed."""
        check_pins(role.peers, self.keys.pins)
        for name in filter(None, (role.label, role.weight)):
            data.check_has(name)
        if self._last_ids is None or self._last_ids[0] is not data:
            self._last_ids = (data, data.ids().tolist())
        ids = self._last_ids[1]
        return AlignmentWork(KeyedHashAligner(self.keys.member(entropies), ids), data.name, ids)

    def _take_rows(self, role: Role, data: DataSet) -> DataSet:
        return take_rows(data, role.rows, self.alignments)

    def _make_vertical(
        self, role: VerticalRole, data: DataSet, entropies: EntropySource, limits: Limits
    ) -> VerticalWork:
        if self._last is None or self._last[0] != role or self._last[1] is not data:
            self._last = (role, data, self._read_columns(role, self._take_rows(role, data)))
        table, labels, classes, before = self._last[2]
        party = VerticalParty(
            table,
            entropies.of("training"),
            labels=labels,
            model=before,
            approve=limits.approve,
            workers=self.workers,
        )
        return VerticalWork(party, table.names, classes, role.is_alone)

    def _read_columns(self, role: VerticalRole, data: DataSet) -> _Columns:
        before: PartyModel | None = None
        known: NDArray[Any] | None = None
        if role.continues is not None:
            before, known = self.models.read(role.continues)
        labels, classes = (None, None) if role.label is None else _read_labels(role, data, known)
        if not role.has_columns:
            table = data.select(())
        elif before is not None:
            table = data.select(before.bins.names)
        else:
            table = data.features((role.label, role.weight))
        if before is not None and role.with_left_out:
            check_earlier_votes(before.out_of_bag, table.n_rows)
        return _Columns(table, labels, classes, before)

    def _make_horizontal(
        self, role: HorizontalRole, data: DataSet, entropies: EntropySource, limits: Limits
    ) -> HorizontalWork:
        if role.label is None:
            raise ConfigurationError("a party of horizontal training has labels; none is named")
        table = data.features((role.label, role.weight))
        read = check_regression_target if role.is_regression else check_class_labels
        target = read(data.column(role.label), table.n_rows)
        weights = _read_weights(role, data, table.n_rows)
        plug: Plug = "plain" if role.aggregation is None else role.aggregation.make()
        if plug != "plain":
            check_pins(role.peers, self.keys.pins)  # before tables are declared
        member = self.keys.member(entropies) if plug != "plain" else None
        least = max(LEAST_PARTICIPANTS, role.least_participants)
        party = HorizontalParty(
            table,
            PartyLabels(target, weights, role.is_regression),
            entropies.of("training"),
            partial(
                make_aggregator,
                plug,
                member=member,
                is_noisy=role.is_noisy,
                least_participants=least,
            ),
            least_participants=least,
            response_key=self.keys.response_key,
            approve=partial(_approve, is_noisy=role.is_noisy, ask_owner=limits.approve),
            workers=self.workers,
        )
        return HorizontalWork(party, role.is_noisy)


def _make_linear(role: LinearRole, data: DataSet, limits: Limits) -> LinearWork:
    table = data.features((role.label, role.weight))
    if role.label is None:
        return LinearWork(LinearParty(table), None)
    column, weights = data.column(role.label), _read_weights(role, data, table.n_rows)
    row_weights = np.ones(table.n_rows) if weights is None else weights
    if role.is_regression:
        check_some_weight(row_weights)
        targets = NumericLabels(check_regression_target(column, table.n_rows), row_weights)
        return LinearWork(LinearParty(table, labels=targets, approve=limits.approve), None)
    known = check_class_labels(column, table.n_rows)
    labels, classes = tell_two_classes(known, row_weights, _read_class_weight(role))
    return LinearWork(LinearParty(table, labels=labels, approve=limits.approve), classes)


def _validation_of(role: AloneRole) -> AloneRole:
    """The same role, about the rows that it is to be scored on."""
    if role.rows is None or role.rows.held_out == 0.0:
        raise ConfigurationError("a baseline is scored on rows that are held out; none are")
    rows = msgspec.structs.replace(role.rows, is_validation=True)
    return msgspec.structs.replace(role, rows=rows)


def _approve(agreed: AgreeOnTable, *, is_noisy: bool, ask_owner: Approve | None) -> None:
    """Sums that leave as noisy are noisy, and none are where noise was not promised."""
    check(
        bool(agreed.protection.kind) == is_noisy,
        "the run is to protect labels in another way than it was begun with",
    )
    if ask_owner is not None:
        ask_owner(agreed)


def _read_labels(
    role: VerticalRole, data: DataSet, known: NDArray[Any] | None
) -> tuple[LabelSource, NDArray[Any] | None]:
    """The labels as the protocol wants them, and the classes in order."""
    assert role.label is not None
    column = data.column(role.label)
    weights = _read_weights(role, data, len(column))
    if role.is_regression:
        return TargetValues(check_regression_target(column, len(column)), weights), None
    labels = check_class_labels(column, len(column))
    classes, codes = np.unique(labels, return_inverse=True)
    if known is not None:
        if not set(classes.tolist()) <= set(known.tolist()):
            raise DataError("a warm start cannot learn classes that earlier training did not have")
        classes, codes = known, np.searchsorted(known, labels)
    class_weights = weigh_classes(_read_class_weight(role), classes)
    return ClassLabels(codes, len(classes), weights, class_weights), classes


def _read_class_weight(role: VerticalRole | LinearRole) -> Any:
    """As scikit-learn has it: a mapping, which does not travel as one, or a word."""
    return dict(role.class_weight) if isinstance(role.class_weight, list) else role.class_weight


def _read_weights(role: Role, data: DataSet, n_rows: int) -> NDArray[np.float64] | None:
    return None if role.weight is None else check_weights(data.column(role.weight), n_rows)
