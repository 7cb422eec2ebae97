"""A trained vertical forest at all roles: prediction, importances, storage.

In one process the shares of all roles lie side by side; everything here still goes through the
messages that a network would carry, except `unite`, which needs every party's consent.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, PrivacyError
from fedforest.estimators.inputs.party_tables import ColumnDivision
from fedforest.estimators.vertical.options import PredictionOptions
from fedforest.kernels.compiled.preparation import prepare
from fedforest.masking.key_agreement import IdentityKey
from fedforest.protocol.asking import Conversation, Handler
from fedforest.protocol.payloads import SealedVotes
from fedforest.protocol.vertical.party import PartyModel
from fedforest.protocol.vertical.prediction import classical_walk
from fedforest.protocol.vertical.prediction import messages as prediction_messages
from fedforest.protocol.vertical.prediction.classical_walk import ClassicalParty, walk_classically
from fedforest.protocol.vertical.prediction.contract import make_gate
from fedforest.protocol.vertical.prediction.coordinator import PredictionOrder, route
from fedforest.protocol.vertical.prediction.party import PredictingParty
from fedforest.protocol.vertical.prediction.voting import (
    VoteOrder,
    VotingParty,
    open_votes,
    vote_by_leaves,
)
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.federation import connect, start_workers
from fedforest.runtime.randomness import SystemRandomness
from fedforest.runtime.trainings.warm_start import CoordinatorModel
from fedforest.transport.in_process import InProcess
from fedforest.tree.forest.forest import LEAF, Forest, Shape, Splits
from fedforest.tree.forest.partial import (
    FOREIGN,
    ForestOutline,
    PartialForest,
    own_importances,
    union,
)
from fedforest.tree.forest.routes import OwnRoutes
from fedforest.tree.forest.votes import ForestVotes
from fedforest.tree.table.bins import Bins, fit_bins
from fedforest.tree.table.frames import Table, list_names
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.workers import Workers

_REQUESTS = (*prediction_messages.REQUESTS, *classical_walk.REQUESTS)
_DRAW = SystemRandomness(None).of("prediction")  # keys of one prediction
Outcome = TypeVar("Outcome")


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
    division: ColumnDivision
    salt: int  # of the id that binds the shares; only the coordinator knows it

    @property
    def outline(self) -> ForestOutline:
        """The coordinator's partial forest."""
        return self.coordinator.outline

    @property
    def whole_outline(self) -> ForestOutline:
        """The outline with leaves, which the label party has where labels are encrypted."""
        return self.outline.with_leaves_of(self.shares[self.label_party].outline)

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
        """Return the trees as each party needs them; a party without columns needs none."""
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
        """Return the mean votes of the trees: (rows, classes), or (rows, 1) for regression."""
        tables = self.division.split(X)
        with start_workers(n_workers) as workers:
            if self.coordinator.is_encrypted:
                return ask_for_votes(self, tables, options, workers)
            leaf_of = find_leaves(self, tables, options, workers)
            return self.coordinator.votes.mean(leaf_of, workers, hard=options.hard_votes)

    def prediction_cost(self, X: Any, options: PredictionOptions, n_workers: int) -> PredictionCost:
        """Predict these rows and return what that costs."""
        tables, log = self.division.split(X), ExchangeLog()
        with start_workers(n_workers) as workers:
            if self.coordinator.is_encrypted:
                ask_for_votes(self, tables, options, workers, log)
            else:
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
        outline = self.whole_outline
        totals = outline.tree_totals()
        return {
            party: own_importances(self.shares[party].partial, outline.decrease_of(number), totals)
            for number, party in enumerate(self.division.parties)
        }

    def own_out_of_bag_votes(self) -> NDArray[np.float64] | None:
        """Return the mean votes of rows that trees left out, from the label party's record."""
        record = self.shares[self.label_party].out_of_bag
        return None if record is None else record.means()

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
        forest = union(self.whole_outline, [share.partial for share in shares])
        return forest, Bins.concatenate([share.bins for share in shares])

    def without_labels(self) -> "VerticalModel":
        """Return the model without the label party's record of out-of-bag votes and labels."""
        shares = {party: replace(share, out_of_bag=None) for party, share in self.shares.items()}
        return replace(self, shares=shares)


def keep_nothing(table: TableSource, shape: Shape) -> PartyModel:
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
    means = _Means(model, tables, options, workers, log)
    return means.converse(_route(means))


def ask_for_votes(
    model: VerticalModel,
    tables: Mapping[str, Table],
    options: PredictionOptions,
    workers: Workers,
    log: ExchangeLog | None = None,
) -> NDArray[np.float64]:
    """(rows, classes): what the label party says about the leaves of rows, opened here."""
    means, key = _Means(model, tables, options, workers, log), IdentityKey.from_randomness(_DRAW)
    asked = VoteOrder(model.label_party, key.public, options.hard_votes)

    def vote() -> Conversation[list[SealedVotes]]:
        leaf_of = yield from _route(means)
        return (yield from vote_by_leaves(model.outline.shape, leaf_of, asked))

    return open_votes(key, means.converse(vote()), means.n_rows, model.outline.n_outputs)


class _Means(NamedTuple):
    """The roles of a prediction in this process."""

    model: VerticalModel
    tables: Mapping[str, Table]
    options: PredictionOptions
    workers: Workers
    log: ExchangeLog | None

    @property
    def n_rows(self) -> int:
        return next(iter(self.tables.values())).n_rows

    def make_party(self, party: str) -> Handler:
        """Make the handler of one party."""
        table, workers = self.tables[party], self.workers.divided(len(self.tables))
        share, routes = self.model.shares[party], self.model.own_routes[party]
        answering: Handler
        if self.options.classical:
            answering = ClassicalParty(share, table, routes)
        else:
            answering = PredictingParty(share, table, workers, routes, believes_turns=True)
        if share.outline is not None:
            votes = ForestVotes(share.outline)
            answering = VotingParty(answering, votes, table.n_rows, _DRAW, workers)
        return answering if self.options.classical else make_gate(answering, table.n_rows)

    def converse(self, conversation: Conversation[Outcome]) -> Outcome:
        """Lead a conversation with all parties."""
        prepare("vertical prediction")
        parties = {party: self.make_party(party) for party in self.tables}
        return run(conversation, connect(parties, _REQUESTS, self.workers), self.log)


def _route(means: _Means) -> Conversation[NDArray[np.int32]]:
    model, options = means.model, means.options
    pace = InProcess.network if options.lookahead is None else options.lookahead
    routes = model.coordinator.routes
    order = PredictionOrder(model.outline, model.division.parties, means.n_rows, pace, routes)
    return walk_classically(order) if options.classical else route(order, means.workers)
