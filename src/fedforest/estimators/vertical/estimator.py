"""Federated Forest as a scikit-learn estimator, whatever the labels are.

`fit` reads and checks everything, trains, and only then changes the estimator: a fit that fails
leaves a fitted model as it was. Parties live in this process; their messages are those of a
network.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fedforest.errors import ConfigurationError
from fedforest.estimators.inputs.parameters import VerticalParameters
from fedforest.estimators.inputs.validation import count_workers
from fedforest.estimators.model_report import OwnedForest, WritesReports
from fedforest.estimators.progress.fit_log import describe_steps
from fedforest.estimators.progress.terminal import watch
from fedforest.estimators.progress.training_attributes import KnowsItsTraining, replace_fitted
from fedforest.estimators.vertical import partial_files
from fedforest.estimators.vertical.federation import FederatedModel, VerticalTrainingThere
from fedforest.estimators.vertical.model import PredictionCost, VerticalModel
from fedforest.estimators.vertical.options import VerticalOptions, read_options, read_prediction
from fedforest.estimators.vertical.training import VerticalTrainingHere
from fedforest.estimators.vertical.warm_start import warn_of_no_new_trees
from fedforest.protocol.vertical.labels import LabelSource
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.messages.results import VerticalResult
from fedforest.runtime.trainings.base import Circumstances
from fedforest.runtime.trainings.mpi_ranks import MPI
from fedforest.runtime.trainings.vertical import VERTICAL
from fedforest.runtime.trainings.warm_start import count_new_trees
from fedforest.tree.files.forests import StoredForest
from fedforest.tree.forest.forest import Forest
from fedforest.tree.growth.level_loop import BATCH_BYTES

_FEW_VOTES = (  # scikit-learn's own words, and what follows
    "Some inputs do not have OOB scores. This probably means too few trees were used to compute "
    "any reliable OOB estimates. Their out-of-bag votes are NaN, and the score is without them."
)


class VerticalForest(KnowsItsTraining, WritesReports, VerticalParameters, BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
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
        is_live = self.transport not in (None, MPI)
        begin: Any = VerticalTrainingThere if is_live else VerticalTrainingHere
        training = begin(self, options, (X, y, sample_weight))
        order, before = training.order, training.before
        if before is not None:
            n_new_trees = count_new_trees(order, before)
            training.check_votes()
            if not n_new_trees:
                warn_of_no_new_trees()
                return self
        log = ExchangeLog()
        with watch(log, order.parameters.n_estimators, self.verbose, training.kernels):
            result, model, learned = training.train(log)
        how = Circumstances(0.0 if before is None else before.label_epsilon, is_live)
        reports = VERTICAL.reports(order, result, how)
        attributes = {
            **learned,
            **_describe_training(result, log, model),
            **self._judge(
                _LeftOut.of(result, order, model),
                learned.get("n_classes_", 1),
                before is not None,
            ),
            "leakage_": reports.leakage,
            "privacy_spent_": reports.privacy_spent,
        }
        self._become(model, attributes)
        return self

    def _local_model(self, purpose: str) -> VerticalModel:
        """Return the model if it lies in this process; `purpose` says what it is needed for."""
        check_is_fitted(self, "_model")
        if isinstance(self._model, VerticalModel):
            return self._model
        raise ConfigurationError(
            f"the forest was trained in a federation and cannot {purpose} here: its parts are "
            "with the roles of the federation, which do it there (see `transport`)."
        )

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

    def _judge(self, left_out: "_LeftOut", n_outputs: int, goes_on: bool) -> dict[str, Any]:
        """Attributes that say how well the trees did on rows they left out."""
        judged: dict[str, Any] = {}
        if left_out.curve is not None:
            earlier = self.oob_curve_ if goes_on else np.zeros(0)
            judged["oob_curve_"] = np.concatenate([earlier, left_out.curve])
        if left_out.is_scored:
            judged["oob_score_"] = float(judged["oob_curve_"][-1])
        if left_out.votes is not None:
            if np.isnan(left_out.votes).any():
                warnings.warn(_FEW_VOTES, stacklevel=3)
            judged |= self._name_votes(left_out.votes.reshape(-1, n_outputs))
        return judged

    @abstractmethod
    def _name_votes(self, votes: NDArray[np.float64]) -> dict[str, Any]:
        """The attribute that scikit-learn has for out-of-bag votes."""

    def _become(self, model: VerticalModel | FederatedModel, attributes: Mapping[str, Any]) -> None:
        """Forget what earlier fits set and take on the new model, all at once."""
        fitted = {"_model": model, "n_outputs_": 1, **model.describe(), **attributes}
        replace_fitted(self, fitted)

    @property
    def n_trees_(self) -> int:
        """Trees of the trained forest: fewer than `n_estimators` after early stopping."""
        check_is_fitted(self, "_model")
        n_trees: int = self._model.n_trees
        return n_trees

    def apply(self, X: Any) -> NDArray[np.int64]:
        """Return the leaf that each row reaches in each tree.

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
        options = read_prediction(self)
        leaf_of: NDArray[np.int32]
        leaf_of = self._model.find_leaves(X, options, count_workers(self.n_jobs))
        return leaf_of.T.astype(np.int64)

    def prediction_cost(self, X: Any) -> PredictionCost:
        """Predict these rows with parties in this process, and count what that takes.

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
        return model.prediction_cost(X, read_prediction(self), count_workers(self.n_jobs))

    def _votes(self, X: Any) -> NDArray[np.float64]:
        """Return (rows, classes): mean votes of all trees; (rows, 1) for regression."""
        check_is_fitted(self, "_model")
        options = read_prediction(self)
        votes: NDArray[np.float64]
        votes = self._model.mean_votes(X, options, count_workers(self.n_jobs))
        return votes

    def union(self, consent: Mapping[str, bool]) -> Forest:
        """Return the complete forest, which no role holds.

        Parameters
        ----------
        consent : mapping of party to bool
            True for every party: a complete copy shows each party's splits to whoever has it.
        """
        return self._local_model("be united").unite(consent)[0]

    def complete_model(self, consent: Mapping[str, bool]) -> bytes:
        """Return the complete forest with the bins of all columns as one model file.

        Parameters
        ----------
        consent : mapping of party to bool
            True for every party. The file holds every split, edge and column name.
        """
        model = self._local_model("be stored as a whole")
        return partial_files.store_complete_model(self, model, consent)

    def _owned_forest(self) -> OwnedForest | None:
        """In one process its owner sees all parties' splits anyway; elsewhere they stay there."""
        model = self._model
        if not isinstance(model, VerticalModel):
            return None
        parties = model.division.parties
        forest, bins = model.unite(dict.fromkeys(parties, True))
        stored = StoredForest(forest, bins, getattr(self, "classes_", None), {})
        return OwnedForest(stored, parties, [model.shares[p].bins.n_features for p in parties])

    def to_partial_forests(self) -> dict[str, bytes]:
        """Return the trained forest as one model file for each role, safe to hand to that role.

        Returns
        -------
        dict
            "coordinator": trees, owners of nodes, leaves by class number, parameters; no column
            name, no class name. One entry for each party: its own splits, bins and column names;
            for the label party the class names, too. Neither seed nor out-of-bag votes are stored.
        """
        return partial_files.store_partial_forests(self, self._local_model("be stored"))

    @classmethod
    def from_partial_forests(cls, files: Mapping[str, bytes]) -> Self:
        """Return a forest that predicts exactly as the one that was stored.

        Parameters
        ----------
        files : mapping of role to bytes
            All that `to_partial_forests` gave. Files may come from strangers: what is damaged,
            missing, or of another model is refused with a `ModelFileError`.
        """
        estimator, model, attributes = partial_files.restore(cls, files)
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


class _LeftOut(NamedTuple):
    """What trees say of rows that they left out."""

    curve: NDArray[np.float64] | None
    is_scored: bool
    votes: NDArray[np.float64] | None

    @classmethod
    def of(
        cls, result: VerticalResult, order: TrainVertical, model: VerticalModel | FederatedModel
    ) -> "_LeftOut":
        """Of a training; where labels are encrypted, votes stay at the label party."""
        curve, votes = map(_read_values, (result.out_of_bag_curve, result.out_of_bag_votes))
        if not order.encrypts_labels:
            return cls(curve, votes is not None, votes)
        if order.out_of_bag and isinstance(model, VerticalModel):
            votes = model.own_out_of_bag_votes()
        return cls(curve, order.out_of_bag and curve is not None, votes)


def _describe_training(
    result: VerticalResult, log: ExchangeLog, model: VerticalModel | FederatedModel
) -> dict[str, Any]:
    """Attributes that say what training gave and what it took."""
    sent = log.bytes_by_party
    return {
        **_weigh_columns(result, model),
        "n_exchanges_": len(log.exchanges),
        "n_steps_": tuple(result.n_steps),
        "n_extra_steps_": tuple(result.n_extra_steps),
        "bytes_sent_": {party: sent.get(party, 0) for party in result.columns_per_party},
        "fit_log_": describe_steps(log),
    }


def _weigh_columns(result: VerticalResult, model: VerticalModel | FederatedModel) -> dict[str, Any]:
    """Importances of columns: where labels are encrypted, no role of a federation knows them."""
    if isinstance(model, VerticalModel) and model.coordinator.is_encrypted:
        return {"feature_importances_": model.join_columns(model.importances())}
    told = {party: _read_values(values) for party, values in result.importances.items()}
    if any(values is None for values in told.values()):
        return {}
    return {"feature_importances_": model.join_columns(told)}


def _read_values(data: bytes | None) -> Any:
    """Numbers of a result."""
    return None if data is None else np.frombuffer(data, "<f8").copy()
