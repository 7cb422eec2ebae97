"""What a party does in a run, as the coordinator tells it, and the handler that comes of it.

A role names a data set and columns of this party; everything else a handler needs, the party has
itself: its entropy, its key, the fingerprints it trusts. The same role, data and entropy always
make the same handler: that is what recovery by replay stands on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.masking.key_agreement import IdentityKey, derive_key
from fedforest.protocol.aggregation import messages as counting
from fedforest.protocol.aggregation.introduction import Member
from fedforest.protocol.aggregation.plugs import Plug, make_aggregator
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
from fedforest.protocol.vertical.party import PartyModel, VerticalParty
from fedforest.runtime.data_sets import DataSet, DataSets
from fedforest.runtime.entropy import Entropies, EntropySource
from fedforest.runtime.orders import Choice, ClassWeight
from fedforest.tree.class_labels import pack_labels
from fedforest.tree.class_weights import weigh_classes
from fedforest.tree.model_file import JsonValue
from fedforest.tree.table import Table
from fedforest.tree.target_checks import (
    check_class_labels,
    check_regression_target,
    check_weights,
)
from fedforest.tree.workers import ALONE, Workers


class Role(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Root of roles; `label` and `weight` are columns of the data set, where they are its own."""

    data: str
    is_regression: bool
    label: str | None = None
    weight: str | None = None


class VerticalRole(Role, frozen=True, kw_only=True):
    """A party of vertical training; the label party is told the label."""

    class_weight: ClassWeight = None
    continues: str | None = None


class HorizontalRole(Role, frozen=True, kw_only=True):
    """A party of horizontal training."""

    aggregation: Choice | None = None
    is_noisy: bool = False


class LinearRole(Role, frozen=True, kw_only=True):
    """A party of a linear model; the label party is told the label."""

    class_weight: ClassWeight = None


AnyRole = VerticalRole | HorizontalRole | LinearRole


@dataclass(frozen=True, slots=True)
class PartyKeys:
    """What a party has before any run: who it is, whom it trusts, and its lasting secret."""

    name: str
    identity: IdentityKey = field(repr=False)
    lasting_secret: bytes = field(repr=False)  # for responses that are the same in all runs
    pins: Mapping[str, str] = field(default_factory=dict)

    def member(self, entropies: EntropySource) -> Member:
        """The party in one run."""
        return Member(self.name, self.identity, self.pins, entropies.of("aggregation"))


@dataclass(slots=True)
class VerticalWork:
    """A vertical training at this party."""

    party: VerticalParty
    table_names: tuple[str, ...]
    classes: NDArray[Any] | None
    requests: tuple[type[Message], ...] = vertical.REQUESTS

    def describe_classes(self) -> JsonValue:
        """What class numbers mean, from the label party alone."""
        return None if self.classes is None else pack_labels(self.classes)


@dataclass(slots=True)
class HorizontalWork:
    """A horizontal training at this party."""

    party: HorizontalParty
    requests: tuple[type[Message], ...] = (*horizontal.REQUESTS, *counting.REQUESTS)


@dataclass(slots=True)
class LinearWork:
    """The training of a linear model at this party."""

    party: LinearParty
    classes: NDArray[Any] | None
    requests: tuple[type[Message], ...] = linear.REQUESTS

    def describe_classes(self) -> JsonValue:
        """What class numbers mean, from the label party alone."""
        return None if self.classes is None else pack_labels(self.classes)


Work = VerticalWork | HorizontalWork | LinearWork


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
    read_model: Any  # model id -> PartyModel with its classes
    workers: Workers = ALONE
    # Columns are checked before a run is stored and used after it, so the last ones are kept.
    _last: tuple[VerticalRole, DataSet, _Columns] | None = field(default=None, repr=False)

    def check(self, role: AnyRole) -> None:
        """Refuse a role that this party's data cannot fill, before anything is kept of it."""
        self.make(role, Entropies(None))

    def make(self, role: AnyRole, entropies: EntropySource) -> Work:
        """A fresh handler; raises `DataError` where the data set does not fit the role."""
        data = self.data.read(role.data)
        if isinstance(role, VerticalRole):
            return self._make_vertical(role, data, entropies)
        if isinstance(role, LinearRole):
            return _make_linear(role, data)
        return self._make_horizontal(role, data, entropies)

    def _make_vertical(
        self, role: VerticalRole, data: DataSet, entropies: EntropySource
    ) -> VerticalWork:
        if self._last is None or self._last[0] != role or self._last[1] is not data:
            self._last = (role, data, self._read_columns(role, data))
        table, labels, classes, before = self._last[2]
        party = VerticalParty(
            table, entropies.of("training"), labels=labels, model=before, workers=self.workers
        )
        return VerticalWork(party, table.names, classes)

    def _read_columns(self, role: VerticalRole, data: DataSet) -> _Columns:
        before: PartyModel | None = None
        known: NDArray[Any] | None = None
        if role.continues is not None:
            before, known = self.read_model(role.continues)
        labels, classes = (None, None) if role.label is None else _read_labels(role, data, known)
        unused = (role.label, role.weight)
        table = data.features(unused) if before is None else data.select(before.bins.names)
        return _Columns(table, labels, classes, before)

    def _make_horizontal(
        self, role: HorizontalRole, data: DataSet, entropies: EntropySource
    ) -> HorizontalWork:
        if role.label is None:
            raise ConfigurationError("a party of horizontal training has labels; none is named")
        table = data.features((role.label, role.weight))
        read = check_regression_target if role.is_regression else check_class_labels
        target = read(data.column(role.label), table.n_rows)
        weights = _read_weights(role, data, table.n_rows)
        plug: Plug = "plain" if role.aggregation is None else role.aggregation.make()
        member = self.keys.member(entropies) if plug != "plain" else None
        party = HorizontalParty(
            table,
            PartyLabels(target, weights, role.is_regression),
            entropies.of("training"),
            partial(make_aggregator, plug, member=member, is_noisy=role.is_noisy),
            response_key=derive_key(self.keys.lasting_secret, b"responses"),
            approve=partial(_check_noise, is_noisy=role.is_noisy),
            workers=self.workers,
        )
        return HorizontalWork(party)


def _make_linear(role: LinearRole, data: DataSet) -> LinearWork:
    table = data.features((role.label, role.weight))
    if role.label is None:
        return LinearWork(LinearParty(table), None)
    column, weights = data.column(role.label), _read_weights(role, data, table.n_rows)
    row_weights = np.ones(table.n_rows) if weights is None else weights
    if role.is_regression:
        check_some_weight(row_weights)
        targets = NumericLabels(check_regression_target(column, table.n_rows), row_weights)
        return LinearWork(LinearParty(table, labels=targets), None)
    class_weight = (
        dict(role.class_weight) if isinstance(role.class_weight, list) else role.class_weight
    )
    known = check_class_labels(column, table.n_rows)
    labels, classes = tell_two_classes(known, row_weights, class_weight)
    return LinearWork(LinearParty(table, labels=labels), classes)


def _check_noise(agreed: AgreeOnTable, *, is_noisy: bool) -> None:
    """Sums that leave as noisy are noisy, and none are where noise was not promised."""
    check(
        bool(agreed.protection.kind) == is_noisy,
        "the run is to protect labels in another way than it was begun with",
    )


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
    class_weight = (
        dict(role.class_weight) if isinstance(role.class_weight, list) else role.class_weight
    )
    return ClassLabels(codes, len(classes), weights, weigh_classes(class_weight, classes)), classes


def _read_weights(role: Role, data: DataSet, n_rows: int) -> NDArray[np.float64] | None:
    return None if role.weight is None else check_weights(data.column(role.weight), n_rows)
