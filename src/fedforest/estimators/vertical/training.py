"""A vertical training with all roles in this process, with the orders and messages of a network."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from fedforest.estimators.inputs.party_tables import (
    ColumnDivision,
    check_row_order,
    choose_label_party,
    read_source,
)
from fedforest.estimators.inputs.validation import count_workers, draw_seed
from fedforest.estimators.vertical import warm_start
from fedforest.estimators.vertical.federation import order_forest
from fedforest.estimators.vertical.model import VerticalModel, keep_nothing
from fedforest.estimators.vertical.options import VerticalOptions
from fedforest.protocol.vertical.party import PartyModel
from fedforest.runtime.compute.clusters import opened_cluster
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.federation import start_workers
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.messages.results import VerticalResult
from fedforest.runtime.trainings.base import Ended, Start
from fedforest.runtime.trainings.in_process import (
    NO_SEED,
    ProcessMeans,
    TrainedHere,
    train_in_process,
)
from fedforest.runtime.trainings.mpi_ranks import MPI, train_over_ranks
from fedforest.runtime.trainings.vertical import VERTICAL, VerticalColumns
from fedforest.runtime.trainings.warm_start import CoordinatorModel
from fedforest.tree.growth.seeds import derive_seed
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.table.target_checks import check_weights

# What an order calls the arguments of `fit`, which are no columns of a data set.
_LABEL, _WEIGHT = "y", "sample_weight"


class VerticalTrainingHere:
    """One training whose input was passed to `fit`: read and checked when this is made."""

    def __init__(
        self,
        estimator: Any,
        options: VerticalOptions,
        given: tuple[Any, ArrayLike, ArrayLike | None],
    ) -> None:
        X, y, sample_weight = given
        self._estimator, self._compute = estimator, options.compute
        self._before = warm_start.find_earlier(estimator)
        source = read_source(X)
        check_row_order(X, y=y, sample_weight=sample_weight)
        if self._before is None:
            self._division = ColumnDivision.of(source, estimator.parties)
        else:
            self._division = warm_start.continue_division(self._before, source, estimator.parties)
        tables = self._division.split(source)
        n_rows = next(iter(tables.values())).n_rows
        weights = check_weights(sample_weight, n_rows)
        goes_on = self._before is not None
        labels, self._learned = estimator._read_target(y, weights, n_rows, options, goes_on)
        self.order = self._make_order(options, is_weighted=weights is not None)
        n_columns = sum(table.n_features for table in tables.values())
        options.parameters.growth_rules(n_rows, n_columns)  # raises before a label has left
        options.parameters.sampling(n_rows)
        self._columns = {
            party: VerticalColumns(
                table,
                labels if party == self.order.label_party else None,
                before=None if self._before is None else self._before.shares[party],
            )
            for party, table in tables.items()
        }

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kind of kernels that training on these labels, and then predicting, calls."""
        if self.order.encrypts_labels:
            return ("encrypted labels",)
        if "classes_" not in self._learned:
            return ("vertical numbers",)
        two = len(self._learned["classes_"]) == 2
        return ("vertical two classes" if two else "vertical classes",)

    @property
    def before(self) -> CoordinatorModel | None:
        """The forest that is grown on."""
        return None if self._before is None else self._before.coordinator

    def check_votes(self) -> None:
        """Refuse out-of-bag votes that cannot begin now."""
        for party, role in VERTICAL.roles(self.order).items():
            VERTICAL.check_votes(role, self._columns[party])

    def train(self, log: ExchangeLog) -> tuple[VerticalResult, VerticalModel, Mapping[str, Any]]:
        """Train; the result, the model, and attributes that labels decide."""
        order, tables = self.order, {party: own.table for party, own in self._columns.items()}
        n_searching = sum(table.n_features > 0 for table in tables.values())
        with (
            start_workers(count_workers(self._estimator.n_jobs)) as workers,
            opened_cluster(self._compute) as make_rows,
        ):
            means = ProcessMeans(
                NO_SEED,
                workers,
                n_searching,
                self.before,
                self._estimator._batch_bytes,
                make_rows=make_rows,
            )
            carry_out = train_over_ranks if self._estimator.transport == MPI else train_in_process
            here = carry_out(order, self._columns, means, log)
        start = Start(earlier=self.before)
        coordinator = VERTICAL.coordinator_model(order, here.trained, start)
        assert coordinator.seed is not None
        salt = derive_seed(coordinator.seed, "model id")
        shares = self._collect(here, tables)
        model = VerticalModel(coordinator, shares, self._division, salt)
        return VERTICAL.result(order, here.trained, Ended()), model, self._learned

    def _make_order(self, options: VerticalOptions, *, is_weighted: bool) -> TrainVertical:
        estimator, before = self._estimator, self.before
        return order_forest(
            estimator,
            options,
            data={party: party for party in self._division.parties},
            label=_LABEL,
            label_party=choose_label_party(estimator.label_party, self._division),
            weight=_WEIGHT if is_weighted else None,
            seed=draw_seed(estimator.random_state) if before is None else before.seed,
            continues=None if self._before is None else f"{self._before.salt:016x}",
        )

    def _collect(
        self, here: TrainedHere, tables: Mapping[str, TableSource]
    ) -> dict[str, PartyModel]:
        """Collect the model of every party."""
        shape, owner = here.trained.outline.shape, self.order.label_party
        shares = {
            party: here.works[party].party.model()
            if table.n_features or (party == owner and self.order.encrypts_labels)
            else keep_nothing(table, shape)
            for party, table in tables.items()
        }
        # labels outlive training only where a warm start needs them for out-of-bag votes
        record = None
        if self.order.with_left_out:
            record = here.works[owner].party.model().out_of_bag
        shares[owner] = replace(shares[owner], out_of_bag=record)
        return shares
