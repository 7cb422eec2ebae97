"""A trained vertical forest at all roles: prediction, importances, storage.

In one process the shares of all roles lie side by side; everything here still goes through the
messages that a network would carry, except `unite`, which needs every party's consent.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, PrivacyError
from fedforest.estimators.inputs.party_tables import Division
from fedforest.estimators.vertical.options import PredictionOptions
from fedforest.kernels.compiled.preparation import prepare
from fedforest.protocol.asking import Handler
from fedforest.protocol.vertical.party import PartyModel
from fedforest.protocol.vertical.prediction import classical_walk
from fedforest.protocol.vertical.prediction import messages as prediction_messages
from fedforest.protocol.vertical.prediction.classical_walk import ClassicalParty, walk_classically
from fedforest.protocol.vertical.prediction.contract import make_gate
from fedforest.protocol.vertical.prediction.coordinator import PredictionOrder, route
from fedforest.protocol.vertical.prediction.party import PredictingParty
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.federation import connect, start_workers
from fedforest.runtime.trainings.warm_start import CoordinatorModel
from fedforest.tree.forest.forest import LEAF, Forest, Shape, Splits
from fedforest.tree.forest.partial import (
    FOREIGN,
    ForestOutline,
    PartialForest,
    own_importances,
    union,
)
from fedforest.tree.forest.routes import OwnRoutes
from fedforest.tree.table.bins import Bins, fit_bins
from fedforest.tree.table.frames import Table, list_names
from fedforest.tree.workers import Workers


class PredictionCost(NamedTuple):
    """The cost of one prediction: exchanges, and bytes of their contents."""

    n_exchanges: int
    bytes_sent: dict[str, int]  # by each party
    bytes_received: dict[str, int]


@dataclass(frozen=True, eq=False)
class VerticalModel:
    """The parts of a forest at all roles, and how later tables are divided."""

    coordinator: CoordinatorModel
    shares: Mapping[str, PartyModel]
    division: Division
    salt: int  # of the id that binds the shares; only the coordinator knows it

    @property
    def outline(self) -> ForestOutline:
        """The coordinator's partial forest."""
        return self.coordinator.outline

    @property
    def label_party(self) -> str:
        """Return the owner of the labels it was trained with."""
        return self.coordinator.label_party

    @property
    def n_trees(self) -> int:
        """Trees of the forest."""
        return self.outline.shape.n_trees

    @cached_property
    def own_routes(self) -> Mapping[str, OwnRoutes]:
        """The trees as each party needs them; who has no column need not know them."""
        trees = self.coordinator.routes.trees
        partials = {party: share.partial for party, share in self.shares.items()}
        return {
            party: OwnRoutes.of(partial, trees if partial.shape.n_trees else None)
            for party, partial in partials.items()
        }

    def describe(self) -> dict[str, Any]:
        """Fitted attributes of an estimator that has this model."""
        division = self.division
        described: dict[str, Any] = {
            "n_features_in_": division.n_features,
            "parties_": division.parties,
            "label_party_": self.label_party,
            "columns_by_party_": division.columns_by_party,
        }
        if division.feature_names is not None:
            described["feature_names_in_"] = np.array(division.feature_names, dtype=object)
        return described

    def find_leaves(self, X: Any, options: PredictionOptions, n_workers: int) -> NDArray[np.int32]:
        """Return (trees, rows): the leaf each row reaches."""
        tables = self.division.split(X)
        with start_workers(n_workers) as workers:
            return find_leaves(self, tables, options, workers)

    def mean_votes(self, X: Any, options: PredictionOptions, n_workers: int) -> NDArray[np.float64]:
        """Return (rows, classes): what the trees say on average; (rows, 1) for regression."""
        tables = self.division.split(X)
        with start_workers(n_workers) as workers:
            leaf_of = find_leaves(self, tables, options, workers)
            return self.coordinator.votes.mean(leaf_of, workers, hard=options.hard_votes)

    def prediction_cost(self, X: Any, options: PredictionOptions, n_workers: int) -> PredictionCost:
        """Predict these rows and return what that costs."""
        tables, log = self.division.split(X), ExchangeLog()
        with start_workers(n_workers) as workers:
            find_leaves(self, tables, options, workers, log)
        sent, received = Counter[str](), Counter[str]()
        for exchange in log.exchanges:
            sent.update(exchange.bytes_from)
            received.update(exchange.bytes_to)
        parties = self.division.parties
        return PredictionCost(
            len(log.exchanges),
            {party: sent[party] for party in parties},
            {party: received[party] for party in parties},
        )

    def join_columns(self, by_party: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Figures of all columns, in the order of the tables that the user passes."""
        return self.division.join(by_party)

    def importances(self) -> dict[str, NDArray[np.float64]]:
        """Return how much each party's columns helped, in its order; all together sum to one."""
        totals = self.outline.tree_totals()
        return {
            party: own_importances(
                self.shares[party].partial, self.outline.decrease_of(number), totals
            )
            for number, party in enumerate(self.division.parties)
        }

    def unite(self, consent: Mapping[str, bool]) -> tuple[Forest, Bins]:
        """Return the complete forest and the bins of all columns; only if every party consents."""
        if not isinstance(consent, Mapping):
            raise ConfigurationError(
                f"consent is {consent!r}; it must be a mapping from every party to True"
            )
        unknown = [party for party in consent if party not in self.division.parties]
        if unknown:
            raise ConfigurationError(
                f"consent names {unknown[0]!r}, but the parties are "
                f"{list_names(self.division.parties)}"
            )
        against = [party for party in self.division.parties if consent.get(party) is not True]
        if against:
            raise PrivacyError(
                f"A complete copy of the forest shows every party's splits; party {against[0]!r} "
                f"has not consented. With its consent, pass consent={{{against[0]!r}: True, ...}}."
            )
        shares = [self.shares[party] for party in self.division.parties]
        forest = union(self.outline, [share.partial for share in shares])
        return forest, Bins.concatenate([share.bins for share in shares])

    def without_labels(self) -> "VerticalModel":
        """Return the model without the label party's record of out-of-bag votes and labels."""
        shares = {party: replace(share, out_of_bag=None) for party, share in self.shares.items()}
        return replace(self, shares=shares)


def keep_nothing(table: Table, shape: Shape) -> PartyModel:
    """Return the partial forest of a party without columns: it split no node."""
    feature = np.where(shape.left_child == LEAF, np.int32(LEAF), np.int32(FOREIGN))
    n_nodes = shape.n_nodes
    splits = Splits(
        feature,
        np.zeros(n_nodes, np.uint8),
        np.zeros(n_nodes, np.uint8),
        np.full(n_nodes, -1, np.int32),
        np.zeros((0, 4), np.uint64),
    )
    return PartyModel(fit_bins(table, seed=0), PartialForest(shape, splits, 0))


def find_leaves(
    model: VerticalModel,
    tables: Mapping[str, Table],
    options: PredictionOptions,
    workers: Workers,
    log: ExchangeLog | None = None,
) -> NDArray[np.int32]:
    """Return (trees, rows): the leaf each row reaches, found out over all parties."""
    prepare("vertical prediction")
    n_rows = next(iter(tables.values())).n_rows
    own_workers = workers.divided(len(tables))  # parties answer at the same time

    def make_party(party: str, table: Table) -> Handler:
        share, routes = model.shares[party], model.own_routes[party]
        if options.classical:
            return ClassicalParty(share, table, routes)
        answering = PredictingParty(share, table, own_workers, routes, believes_turns=True)
        return make_gate(answering, table.n_rows)

    parties = {party: make_party(party, table) for party, table in tables.items()}
    protocol = classical_walk if options.classical else prediction_messages
    transport = connect(parties, protocol.REQUESTS, workers)
    pace = transport.network if options.lookahead is None else options.lookahead
    routes = model.coordinator.routes
    order = PredictionOrder(model.outline, model.division.parties, n_rows, pace, routes)
    routing = walk_classically(order) if options.classical else route(order, workers)
    return run(routing, transport, log)
