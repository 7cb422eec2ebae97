"""Federated Extra-Trees as a scikit-learn estimator, whatever the labels are.

`fit` reads and checks everything, trains, and only then changes the estimator: a fit that fails
leaves a fitted model as it was. The model is complete at every party, so prediction needs nobody
else.
"""

import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fedforest.estimators import federated_horizontal
from fedforest.estimators.fit_log import describe_counted_steps
from fedforest.estimators.horizontal_export import to_sklearn
from fedforest.estimators.horizontal_file import restore_model, store_model
from fedforest.estimators.horizontal_model import HorizontalModel
from fedforest.estimators.horizontal_options import (
    FOREST_PARAMETERS,
    HorizontalOptions,
    read_options,
)
from fedforest.estimators.horizontal_tables import PartyRows, TrainingInput, read_party_rows
from fedforest.estimators.horizontal_training import describe_spending, train_in_process
from fedforest.estimators.of_training import KnowsItsTraining
from fedforest.estimators.validation import count_workers, draw_seed
from fedforest.estimators.watching import watch
from fedforest.privacy.composition import PrivacySpending
from fedforest.privacy.global_dp import GlobalDP
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.federation import start_workers
from fedforest.runtime.horizontal_leakage import HorizontalRun, report_horizontal_forest
from fedforest.runtime.leakage import LeakageReport


class HorizontalForest(KnowsItsTraining, BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
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
        if self.transport is not None:
            self._fit_in_federation(options, (X, y, sample_weight, party))
            return self
        given = TrainingInput(X, y, sample_weight, party)
        rows = read_party_rows(given, is_regression=options.is_regression)
        _check_training(rows, options)
        _warn_of_moved_targets(rows, options)
        seed = None if self.random_state is None else draw_seed(self.random_state)
        log = ExchangeLog()
        n_workers = count_workers(self.n_jobs)
        n_trees = options.parameters.n_estimators
        with watch(log, n_trees, self.verbose), start_workers(n_workers) as workers:
            model, spending = train_in_process(rows, options, seed, workers, log)
        n_rows = sum(part.table.n_rows for part in rows.values())
        facts = (n_rows, _is_weighted(rows), self.random_state is not None)
        self._finish(model, options, spending, log, facts)
        return self

    def _fit_in_federation(
        self, options: HorizontalOptions, given: tuple[Any, Any, Any, Any]
    ) -> None:
        """Train where the parties are; what comes back is the model that they all hold."""
        order = federated_horizontal.order_training(self, options, given)
        log = ExchangeLog()
        with watch(log, options.parameters.n_estimators, self.verbose):
            result, model = federated_horizontal.train(self.transport, order, log)
        asked = (result.candidates_per_node, result.n_trees_begun)
        spending = describe_spending(options, model.forest, model.classes, asked)
        # parties of a federation draw from entropy of their own, whatever the seed
        facts = (result.n_rows, order.weight is not None, False)
        self._finish(model, options, spending, log, facts)

    def _finish(
        self,
        model: HorizontalModel,
        options: HorizontalOptions,
        spending: PrivacySpending,
        log: ExchangeLog,
        facts: tuple[int, bool, bool],
    ) -> None:
        attributes = {
            **_describe_training(log, model),
            "leakage_": self._report(options, model, spending, facts),
            "privacy_spent_": spending.describe(),
        }
        self._become(model, attributes)

    def _report(
        self,
        options: HorizontalOptions,
        model: HorizontalModel,
        spending: PrivacySpending,
        facts: tuple[int, bool, bool],
    ) -> LeakageReport:
        """Who learned what; facts are the number of rows, and what is weighted and seeded."""
        n_rows, is_weighted, is_seeded = facts
        rules = options.parameters.growth_rules(n_rows, model.forest.n_features)
        run = HorizontalRun(
            n_parties=len(model.parties),
            n_trees=model.n_trees,
            n_columns=model.forest.n_features,
            candidates=rules.features_per_node,
            is_regression=options.is_regression,
            aggregation=options.aggregation,
            spending=spending,
            participation=options.participation,
            scope=options.participation_scope,
            least_participants=options.least,
            is_weighted=is_weighted,
            is_balanced=isinstance(options.class_weight, str),
            has_categories=bool(model.bins.is_categorical.any()),
            draws_rows=bool(options.parameters.bootstrap),
            min_rows_leaf=rules.min_rows_leaf,
            min_rows_split=rules.min_rows_split,
            is_seeded=is_seeded,
            in_federation=self.transport is not None,
        )
        return report_horizontal_forest(run)

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
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        for name, value in fitted.items():
            setattr(self, name, value)

    @property
    def n_trees_(self) -> int:
        """Trees of the trained forest."""
        check_is_fitted(self, "_model")
        return self._model.n_trees

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf that each row reaches in each tree.

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
        """(rows, classes): mean votes of all trees; (rows, 1) for regression."""
        check_is_fitted(self, "_model")
        options = read_options(self, self._task)
        with start_workers(count_workers(self.n_jobs)) as workers:
            return self._model.mean_votes(X, workers, hard=options.hard_votes)

    def to_sklearn(self) -> Any:
        """The forest as a genuine scikit-learn ensemble with the same predictions.

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
        options, model = read_options(self, self._task), self._model
        names = (*FOREST_PARAMETERS, "class_weight", "n_jobs")
        parameters = {
            name: getattr(self, name)
            for name in names
            if hasattr(self, name) and name != "feature_sampling"
        }
        voting = "hard" if options.hard_votes else "soft"
        return to_sklearn(
            model.forest, model.bins, model.classes, voting=voting, parameters=parameters
        )

    def to_bytes(self) -> bytes:
        """The trained forest as one model file, which every party may hold.

        It has trees, thresholds, leaves, columns, categories, classes, parties and parameters; no
        row counts and no seed.
        """
        check_is_fitted(self, "_model")
        return store_model(self, self._model)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A forest that predicts exactly as the one that `to_bytes` was called on.

        Parameters
        ----------
        data : bytes
            What `to_bytes` gave. It may come from a stranger: what is damaged is refused with a
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


def _check_training(rows: Mapping[str, PartyRows], options: HorizontalOptions) -> None:
    """Refuse, before a party is asked for anything, what cannot be trained."""
    options.check_input(len(rows), is_weighted=_is_weighted(rows))
    tables = [part.table for part in rows.values()]
    n_rows = sum(table.n_rows for table in tables)
    options.parameters.growth_rules(n_rows, tables[0].n_features)
    options.parameters.sampling(n_rows)


def _warn_of_moved_targets(rows: Mapping[str, PartyRows], options: HorizontalOptions) -> None:
    """To whoever called `fit`; how many there are is a statistic of the rows, and is not told."""
    privacy = options.privacy
    if not isinstance(privacy, GlobalDP) or privacy.target_bounds is None:
        return
    low, high = privacy.target_bounds
    if any(((part.labels < low) | (part.labels > high)).any() for part in rows.values()):
        warnings.warn(
            f"Some targets lie outside target_bounds=({low:g}, {high:g}) and are moved to the "
            "nearest bound. Declare wider bounds if they are not mistakes.",
            stacklevel=3,
        )


def _is_weighted(rows: Mapping[str, PartyRows]) -> bool:
    return any(part.weights is not None for part in rows.values())


def _describe_training(log: ExchangeLog, model: HorizontalModel) -> dict[str, Any]:
    """Attributes that say what training took."""
    return {
        "n_exchanges_": len(log.exchanges),
        "bytes_sent_": {party: log.bytes_by_party.get(party, 0) for party in model.parties},
        "fit_log_": describe_counted_steps(log),
    }
