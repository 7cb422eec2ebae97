"""Federated Extra-Trees as a scikit-learn estimator, whatever the labels are.

`fit` reads and checks everything, trains, and only then changes the estimator: a fit that fails
leaves a fitted model as it was. The model is complete at every party, so prediction needs nobody
else.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fedforest.estimators.horizontal.federation import HorizontalTrainingThere
from fedforest.estimators.horizontal.model import HorizontalModel
from fedforest.estimators.horizontal.model_file import restore_model, store_model
from fedforest.estimators.horizontal.options import read_hard_votes, read_options
from fedforest.estimators.horizontal.sklearn_export import to_sklearn
from fedforest.estimators.horizontal.training import HorizontalTrainingHere
from fedforest.estimators.inputs.forest_parameters import tree_parameters
from fedforest.estimators.inputs.parameters import HorizontalParameters
from fedforest.estimators.inputs.validation import count_workers
from fedforest.estimators.model_report import OwnedForest, WritesReports
from fedforest.estimators.progress.fit_log import describe_counted_steps
from fedforest.estimators.progress.noise_warning import warn_of_noise
from fedforest.estimators.progress.terminal import watch
from fedforest.estimators.progress.training_attributes import KnowsItsTraining, replace_fitted
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.federation import start_workers
from fedforest.runtime.trainings.base import Circumstances
from fedforest.runtime.trainings.horizontal import HORIZONTAL
from fedforest.tree.files.forests import StoredForest


class HorizontalForest(KnowsItsTraining, WritesReports, HorizontalParameters, BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
    """Training, prediction and storage; subclasses add classes or numbers."""

    _task: str
    _model: HorizontalModel  # after fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None, party: Any = None) -> Self:
        """Train over the rows of all parties.

        Parameters
        ----------
        X : one table, or mapping of party to table
            Tables are arrays, data frames, arrow tables or mappings of columns. All parties have
            the same columns, matched by name; a party may have no rows.
        y : array of shape (n_rows,), or mapping of party to array
            The labels of the rows, in their order: a series whose index holds the rows of a data
            frame in another order is refused.
        sample_weight : array of shape (n_rows,), or mapping of party to array, optional
            Weights of rows; not together with `privacy`.
        party : array of shape (n_rows,), optional
            The owner of each row of one table, by name or number; one party owns all by default.

        Returns
        -------
        self
            The fitted estimator; if an error is raised, it is as it was before.
        """
        options = read_options(self, self._task)
        begin: Any = HorizontalTrainingHere if self.transport is None else HorizontalTrainingThere
        training = begin(self, options, (X, y, sample_weight, party))
        order, log = training.order, ExchangeLog(observers=[warn_of_noise])
        with watch(log, order.parameters.n_estimators, self.verbose, training.kernels):
            result, model = training.train(log)
        how = Circumstances(
            in_federation=self.transport is not None,
            is_seeded=training.is_seeded,
            forest=StoredForest(model.forest, model.bins, model.classes, {}),
        )
        reports = HORIZONTAL.reports(order, result, how)
        attributes = {
            **_describe_training(log, model),
            "leakage_": reports.leakage,
            "privacy_spent_": reports.privacy_spent,
        }
        self._become(model, attributes)
        return self

    def _become(self, model: HorizontalModel, attributes: Mapping[str, Any]) -> None:
        """Forget what earlier fits set and take on the new model, all at once."""
        fitted = {
            "_model": model,
            "n_outputs_": 1,
            "n_features_in_": model.forest.n_features,
            "feature_importances_": model.forest.importances(),
            "parties_": model.parties,
            **attributes,
        }
        if model.bins.has_names:
            fitted["feature_names_in_"] = np.array(model.bins.names, dtype=object)
        if model.classes is not None:
            fitted |= {"classes_": model.classes, "n_classes_": len(model.classes)}
        replace_fitted(self, fitted)

    @property
    def n_trees_(self) -> int:
        """Trees of the trained forest."""
        check_is_fitted(self, "_model")
        return self._model.n_trees

    def apply(self, X: Any) -> NDArray[np.int64]:
        """Return the leaf that each row reaches in each tree.

        Parameters
        ----------
        X : one table
            With the columns of training.

        Returns
        -------
        array of shape (n_rows, n_trees)
            Numbers of leaves within their trees.
        """
        check_is_fitted(self, "_model")
        with start_workers(count_workers(self.n_jobs)) as workers:
            return self._model.find_leaves(X, workers)

    def _votes(self, X: Any) -> NDArray[np.float64]:
        """Return (rows, classes): mean votes of all trees; (rows, 1) for regression."""
        check_is_fitted(self, "_model")
        hard = read_hard_votes(self)
        with start_workers(count_workers(self.n_jobs)) as workers:
            return self._model.mean_votes(X, workers, hard=hard)

    def _owned_forest(self) -> OwnedForest:
        model = self._model
        stored = StoredForest(model.forest, model.bins, model.classes, {})
        return OwnedForest(stored, ["all parties"], [model.forest.n_features])

    def to_sklearn(self) -> Any:
        """Return the forest as a genuine scikit-learn ensemble with the same predictions.

        From there it goes to ONNX (`skl2onnx`), SHAP, skops, and everything else that reads
        scikit-learn's forests.

        Returns
        -------
        ExtraTreesClassifier or ExtraTreesRegressor
            Fitted, with the votes that `voting` says. Columns must be numeric. It holds no row
            counts: every leaf counts as one row, which is what SHAP's default weighting then goes
            by; give `shap.TreeExplainer` a background table to weigh by real rows. Impurities are
            chosen to give this forest's importances. scikit-learn refuses infinite values, and
            `skl2onnx` sends missing values to the right: fill gaps before training if the model
            is meant for ONNX.
        """
        check_is_fitted(self, "_model")
        model = self._model
        parameters = {**tree_parameters(self), "n_jobs": self.n_jobs}
        del parameters["feature_sampling"]  # scikit-learn draws columns at every node
        if not self.bootstrap:
            parameters["max_samples"] = None  # scikit-learn draws no rows without replacement
        if hasattr(self, "class_weight"):
            parameters["class_weight"] = self.class_weight
        voting = "hard" if read_hard_votes(self) else "soft"
        return to_sklearn(
            model.forest, model.bins, model.classes, voting=voting, parameters=parameters
        )

    def to_bytes(self) -> bytes:
        """Return the trained forest as one model file, which every party may hold.

        It has trees, thresholds, leaves, columns, categories, classes, parties and parameters; no
        row counts and no seed.
        """
        check_is_fitted(self, "_model")
        return store_model(self, self._model)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return a forest that predicts exactly as the one that `to_bytes` was called on.

        Parameters
        ----------
        data : bytes
            The result of `to_bytes`. It may come from a stranger: a damaged file is refused with a
            `ModelFileError`.
        """
        estimator, model = restore_model(cls, data)
        estimator._become(model, {})
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _describe_training(log: ExchangeLog, model: HorizontalModel) -> dict[str, Any]:
    """Attributes that say what training took."""
    sent = log.bytes_by_party
    return {
        "n_exchanges_": len(log.exchanges),
        "bytes_sent_": {party: sent.get(party, 0) for party in model.parties},
        "fit_log_": describe_counted_steps(log),
    }
