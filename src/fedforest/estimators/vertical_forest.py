"""Federated Forest as a scikit-learn estimator, whatever the labels are.

`fit` reads and checks everything, trains, and only then changes the estimator: a fit that fails
leaves a fitted model as it was. Parties live in this process; their messages are those of a
network.
"""

import secrets
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fedforest.errors import ConfigurationError
from fedforest.estimators import federated_vertical, vertical_shares, warm_start
from fedforest.estimators.federated_vertical import FederatedModel
from fedforest.estimators.fit_log import describe_steps
from fedforest.estimators.of_training import KnowsItsTraining
from fedforest.estimators.party_tables import (
    Division,
    check_row_order,
    choose_label_party,
    read_source,
)
from fedforest.estimators.validation import count_workers, draw_seed
from fedforest.estimators.vertical_model import (
    Origin,
    PredictionCost,
    VerticalModel,
    keep_nothing,
)
from fedforest.estimators.vertical_options import VerticalOptions, read_options
from fedforest.estimators.watching import watch
from fedforest.protocol.vertical import messages
from fedforest.protocol.vertical.coordinator import train
from fedforest.protocol.vertical.labels import LabelSource
from fedforest.protocol.vertical.order import Trained, TrainingOrder
from fedforest.protocol.vertical.out_of_bag import check_earlier_votes
from fedforest.protocol.vertical.party import PartyModel, VerticalParty
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.federation import connect, start_workers
from fedforest.runtime.leakage import VerticalRun, describe_spending, report_vertical_forest
from fedforest.tree.forest import Forest
from fedforest.tree.grow import BATCH_BYTES
from fedforest.tree.seeds import derive_seed
from fedforest.tree.shared_draws import SharedDraws
from fedforest.tree.table import Table
from fedforest.tree.target_checks import check_weights

_FEW_VOTES = (  # scikit-learn's own words, and what follows
    "Some inputs do not have OOB scores. This probably means too few trees were used to compute "
    "any reliable OOB estimates. Their out-of-bag votes are NaN, and the score is without them."
)


class TrainingData(NamedTuple):
    """The input of one training, read and checked."""

    division: Division
    tables: Mapping[str, Table]
    label_party: str
    labels: LabelSource
    learned: Mapping[str, Any]  # fitted attributes that the labels decide
    has_sample_weights: bool
    has_class_weights: bool

    @property
    def n_columns(self) -> int:
        """Columns that parties hold."""
        return sum(table.n_features for table in self.tables.values())


class VerticalForest(KnowsItsTraining, BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
    """Training, prediction and storage; subclasses add classes or numbers."""

    _task: str
    _model: Any  # after fit: a VerticalModel or, trained elsewhere, a FederatedModel
    _batch_bytes = BATCH_BYTES  # for the row orders of trees that grow together

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train over the columns of all parties.

        Parameters
        ----------
        X : mapping of party to table, or one table
            Tables are arrays, data frames, arrow tables or mappings of columns; all parties' rows
            are the same, in the same order. One table is divided as `parties` says.
        y : array of shape (n_rows,)
            The labels, which `label_party` owns, in the order of the rows: a series whose index
            holds the rows of a data frame in another order is refused.
        sample_weight : array of shape (n_rows,), optional
            Weights of rows.

        Returns
        -------
        self
            The fitted estimator; if an error is raised, it is as it was before.
        """
        options = read_options(self, self._task)
        if self.transport is not None:
            fitted = federated_vertical.fit(self, options, (X, y, sample_weight))
            if fitted is None:
                warm_start.warn_of_no_new_trees()
            else:
                self._become(*fitted)
            return self
        before = self._local_model("grow on") if self.warm_start and self._is_fitted else None
        origin = warm_start.find_origin(before, self.n_estimators) if before else None
        data = self._read_data(X, y, sample_weight, options, before)
        order = self._order(options, data, origin)
        if before is not None:
            if order.with_left_out:
                record = before.shares[before.label_party].out_of_bag
                check_earlier_votes(record, data.labels.n_rows)
            if order.first_tree == order.parameters.n_estimators:
                warm_start.warn_of_no_new_trees()
                return self
            order = replace(order, grown=before.outline)
        log = ExchangeLog()
        with watch(log, order.parameters.n_estimators, self.verbose):
            trained, shares = self._train(order, data, before, log)
        spent = options.label_epsilon + (origin.label_epsilon if origin else 0.0)
        model = VerticalModel(
            trained.outline,
            shares,
            data.division,
            data.label_party,
            derive_seed(order.seed, "model id"),
            Origin(order.seed, order.parameters.n_estimators, spent),
        )
        self._become(
            model,
            dict(data.learned)
            | _describe_training(trained, log, data.division)
            | self._judge(trained.out_of_bag_curve, trained.out_of_bag_votes, before is not None)
            | self._report(order, data, spent),
        )
        return self

    @property
    def _is_fitted(self) -> bool:
        return hasattr(self, "_model")

    def _local_model(self, purpose: str) -> VerticalModel:
        """The model if it lies in this process; `purpose` says what it is needed for."""
        check_is_fitted(self, "_model")
        if isinstance(self._model, VerticalModel):
            return self._model
        raise ConfigurationError(
            f"the forest was trained in a federation and cannot {purpose} here: its shares are "
            "with the roles of the federation, which do it there (see `transport`)."
        )

    def _read_data(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        options: VerticalOptions,
        before: VerticalModel | None,
    ) -> TrainingData:
        source = read_source(X)
        check_row_order(X, y=y, sample_weight=sample_weight)
        if before is None:
            division = Division.of(source, self.parties)
        else:
            division = warm_start.continue_division(before, source, self.parties)
        tables = division.split(source)
        label_party = choose_label_party(self.label_party, division)
        if before is not None:
            warm_start.check_label_party(before.label_party, label_party)
        n_rows = next(iter(tables.values())).n_rows
        weights = check_weights(sample_weight, n_rows)
        labels, learned = self._read_target(y, weights, n_rows, options, before is not None)
        is_weighted = (weights is not None, options.class_weight is not None)
        return TrainingData(division, tables, label_party, labels, learned, *is_weighted)

    @abstractmethod
    def _read_target(
        self,
        y: ArrayLike,
        weights: NDArray[np.float64] | None,
        n_rows: int,
        options: VerticalOptions,
        goes_on: bool,
    ) -> tuple[LabelSource, dict[str, Any]]:
        """The labels for the protocol, and attributes to set once training has succeeded."""

    def _order(
        self, options: VerticalOptions, data: TrainingData, origin: Origin | None
    ) -> TrainingOrder:
        n_rows = data.labels.n_rows
        options.parameters.growth_rules(n_rows, data.n_columns)  # raises before a label has left
        options.parameters.sampling(n_rows)
        return TrainingOrder(
            tuple(data.tables),
            data.label_party,
            options.parameters,
            origin.seed if origin else draw_seed(self.random_state),
            response=options.response,
            out_of_bag=bool(self.oob_score),
            hard_votes=options.hard_votes,
            early_stopping=options.early_stopping,
            batch_bytes=self._batch_bytes,
            first_tree=origin.n_trees_seeded if origin else 0,
        )

    def _train(
        self,
        order: TrainingOrder,
        data: TrainingData,
        before: VerticalModel | None,
        log: ExchangeLog,
    ) -> tuple[Trained, dict[str, PartyModel]]:
        n_searching = sum(table.n_features > 0 for table in data.tables.values())
        with start_workers(count_workers(self.n_jobs)) as workers:
            own = workers.divided(n_searching)  # they work at the same time
            holds_label = data.tables[order.label_party].n_features == 0
            shared_draws = SharedDraws(n_searching + holds_label)
            parties = {
                party: VerticalParty(
                    table,
                    secrets.token_bytes,
                    labels=data.labels if party == order.label_party else None,
                    model=before.shares[party] if before else None,
                    workers=own,
                    shared_draws=shared_draws,
                )
                for party, table in data.tables.items()
            }
            transport = connect(parties, messages.REQUESTS, workers)
            trained = run(train(order, workers, shared_draws), transport, log)
        shares = {
            party: parties[party].model()
            if table.n_features
            else keep_nothing(table, trained.outline.shape)
            for party, table in data.tables.items()
        }
        # labels outlive training only where a warm start needs them for out-of-bag votes
        record = parties[order.label_party].model().out_of_bag if order.with_left_out else None
        shares[order.label_party] = replace(shares[order.label_party], out_of_bag=record)
        return trained, shares

    def _judge(
        self,
        curve: NDArray[np.float64] | None,
        votes: NDArray[np.float64] | None,
        goes_on: bool,
    ) -> dict[str, Any]:
        """Attributes that say how well the trees did on rows they left out."""
        judged: dict[str, Any] = {}
        if curve is not None:
            earlier = self.oob_curve_ if goes_on else np.zeros(0)
            judged["oob_curve_"] = np.concatenate([earlier, curve])
        if votes is not None:
            if np.isnan(votes).any():
                warnings.warn(_FEW_VOTES, stacklevel=3 if self.transport is None else 4)
            judged["oob_score_"] = float(judged["oob_curve_"][-1])
            judged |= self._name_votes(votes)
        return judged

    @abstractmethod
    def _name_votes(self, votes: NDArray[np.float64]) -> dict[str, Any]:
        """The attribute that scikit-learn has for out-of-bag votes."""

    def _report(self, order: TrainingOrder, data: TrainingData, spent: float) -> dict[str, Any]:
        """Who learned what, and what privacy it cost."""
        rules = order.parameters.growth_rules(data.labels.n_rows, data.n_columns)
        run_facts = VerticalRun(
            parties=order.parties,
            label_party=order.label_party,
            is_regression=self._task == "regression",
            label_epsilon=spent,
            is_weighted=data.has_sample_weights,
            has_class_weights=data.has_class_weights,
            out_of_bag=order.with_left_out,
            votes_released=order.out_of_bag,
            bootstrap=order.parameters.bootstrap,
            min_rows_leaf=rules.min_rows_leaf,
        )
        return {
            "leakage_": report_vertical_forest(run_facts),
            "privacy_spent_": describe_spending(run_facts),
        }

    def _become(self, model: VerticalModel | FederatedModel, attributes: Mapping[str, Any]) -> None:
        """Forget what earlier fits set and take on the new model, all at once."""
        fitted = {"_model": model, "n_outputs_": 1, **model.describe(), **attributes}
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        for name, value in fitted.items():
            setattr(self, name, value)

    @property
    def n_trees_(self) -> int:
        """Trees of the trained forest: fewer than `n_estimators` after early stopping."""
        check_is_fitted(self, "_model")
        n_trees: int = self._model.n_trees
        return n_trees

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf that each row reaches in each tree.

        Parameters
        ----------
        X : mapping of party to table, or one table
            As in `fit`.

        Returns
        -------
        array of shape (n_rows, n_trees)
            Numbers of leaves within their trees.
        """
        check_is_fitted(self, "_model")
        options = read_options(self, self._task)
        leaf_of: NDArray[np.int32]
        leaf_of = self._model.find_leaves(X, options, count_workers(self.n_jobs))
        return leaf_of.T.astype(np.int64)

    def prediction_cost(self, X: Any) -> PredictionCost:
        """What predicting these rows takes with `prediction` as it is set; parties in this process.

        Parameters
        ----------
        X : mapping of party to table, or one table
            As in `fit`. The rows are predicted to find out.

        Returns
        -------
        PredictionCost
            `n_exchanges`, and `bytes_sent` and `bytes_received` by party.
        """
        model = self._local_model("tell what predictions take")
        return model.prediction_cost(X, read_options(self, self._task), count_workers(self.n_jobs))

    def _votes(self, X: Any) -> NDArray[np.float64]:
        """(rows, classes): mean votes of all trees; (rows, 1) for regression."""
        check_is_fitted(self, "_model")
        options = read_options(self, self._task)
        votes: NDArray[np.float64]
        votes = self._model.mean_votes(X, options, count_workers(self.n_jobs))
        return votes

    def union(self, consent: Mapping[str, bool]) -> Forest:
        """The complete forest, which no role holds.

        Parameters
        ----------
        consent : mapping of party to bool
            True for every party: a complete copy shows each party's splits to whoever has it.
        """
        return self._local_model("be united").unite(consent)[0]

    def complete_model(self, consent: Mapping[str, bool]) -> bytes:
        """The complete forest with the bins of all columns as one model file.

        Parameters
        ----------
        consent : mapping of party to bool
            True for every party. The file holds every split, edge and column name.
        """
        model = self._local_model("be stored as a whole")
        return vertical_shares.store_complete_model(self, model, consent)

    def to_shares(self) -> dict[str, bytes]:
        """The trained forest as one model file for each role, safe to hand to that role.

        Returns
        -------
        dict
            "coordinator": trees, owners of nodes, leaves by class number, parameters; no column
            name, no class name. One entry for each party: its own splits, bins and column names;
            for the label party the class names, too. Neither seed nor out-of-bag votes are stored.
        """
        return vertical_shares.store_shares(self, self._local_model("be stored"))

    @classmethod
    def from_shares(cls, shares: Mapping[str, bytes]) -> Self:
        """A forest that predicts exactly as the one that `to_shares` was called on.

        Parameters
        ----------
        shares : mapping of role to bytes
            All that `to_shares` gave. Files may come from strangers: what is damaged, missing, or
            of another model is refused with a `ModelFileError`.
        """
        estimator, model, attributes = vertical_shares.restore(cls, shares)
        estimator._become(model, attributes)
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """A pickle holds no training label: the record of out-of-bag votes stays behind."""
        state = dict(super().__getstate__())
        if isinstance(state.get("_model"), VerticalModel):
            state["_model"] = state["_model"].without_labels()
        return state


def _describe_training(trained: Trained, log: ExchangeLog, division: Division) -> dict[str, Any]:
    """Attributes that say what training gave and what it took."""
    return {
        "feature_importances_": division.join(trained.importances),
        "n_exchanges_": len(log.exchanges),
        "n_steps_": trained.n_steps,
        "n_extra_steps_": trained.n_extra_steps,
        "bytes_sent_": {party: log.bytes_by_party.get(party, 0) for party in division.parties},
        "fit_log_": describe_steps(log),
    }
