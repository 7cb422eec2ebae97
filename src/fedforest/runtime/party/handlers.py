"""Make a handler for a role out of a party's data, models and keys.

The same role, data and secret bytes always make the same handler: recovery by replay depends on it.
Labels, weights and columns are checked here, before anything of a run is stored.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fedforest.protocol.label_door import OWNER, Accountant
from fedforest.runtime.messages.roles import AnyRole, PartyKeys, RowChoice
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.data_sets import DataSet, DataSets
from fedforest.runtime.party.row_selection import take_rows
from fedforest.runtime.party.standing_alignments import PartyStandingAlignments
from fedforest.runtime.party.tasks import task_of
from fedforest.runtime.randomness import RandomnessSource, SystemRandomness
from fedforest.runtime.trainings.party_task import ModelSource, PartyMeans, Work
from fedforest.tree.growth.batches import MakeRows
from fedforest.tree.table.pieces import Allocate
from fedforest.tree.workers import ALONE, Workers


class OwnerLimits(NamedTuple):
    """The limits of the owner of the data in a run."""

    hide: Callable[[Collection[str]], frozenset[str]] = lambda _: frozenset()
    accountant: Accountant = OWNER


NO_LIMITS = OwnerLimits()


@dataclass(slots=True)
class RoleMaker:
    """Make handlers for roles with the data, models and keys of this party."""

    keys: PartyKeys
    data: DataSets
    models: ModelSource
    alignments: Alignments
    standing: PartyStandingAlignments
    workers: Workers = ALONE
    allocate: Allocate = np.empty  # for arrays as large as a table
    make_rows: MakeRows | None = None  # on the party's cluster
    # Columns are checked before a run is stored and used after it, so the last ones stay here.
    _last: tuple[AnyRole, DataSet, Any] | None = field(default=None, repr=False)
    _shown: tuple[DataSet, frozenset[str], DataSet] | None = field(default=None, repr=False)

    def check(self, role: AnyRole, terms: Terms, limits: OwnerLimits = NO_LIMITS) -> None:
        """Refuse a role that does not fit this party's data, before anything is stored."""
        self.make(role, terms, SystemRandomness(None), limits)

    def make(
        self,
        role: AnyRole,
        terms: Terms,
        randomness: RandomnessSource,
        limits: OwnerLimits = NO_LIMITS,
    ) -> Work:
        """Make a fresh handler; raises `DataError` if the data set does not fit the role."""
        task, data = task_of(role), self._show(self.data.read(role.data), limits)
        if self._last is None or self._last[0] != role or self._last[1] is not data:
            self._last = (role, data, task.read(role, data, self))
        means = PartyMeans(
            randomness,
            self.keys,
            terms,
            limits.accountant,
            self.workers,
            self.allocate,
            self.make_rows,
        )
        return task.work(role, self._last[2], means)

    def take_rows(self, data: DataSet, choice: RowChoice | None) -> DataSet:
        """Return the rows of a data set that a role uses; raises `DataError` if there are none."""
        return take_rows(data, choice, self.alignments)

    def _show(self, data: DataSet, limits: OwnerLimits) -> DataSet:
        """Return the data set without hidden columns: the same object until either changes."""
        hidden = limits.hide(data.columns.column_names)
        if not hidden:
            return data
        if self._shown is None or self._shown[0] is not data or self._shown[1] != hidden:
            self._shown = (data, hidden, data.without(hidden))
        return self._shown[2]
