"""Federated Forest as scikit-learn estimators: parties hold different columns of the same rows.

What every estimator here does is in `_VerticalForest`; the two public classes add labels or
targets. Parties live in this process; their messages are those of a network.
"""

import secrets
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fedforest.errors import ConfigurationError, DataError, PrivacyError
from fedforest.estimators.fit_log import FitStep, describe_steps
from fedforest.estimators.party_tables import Division, choose_label_party, read_source
from fedforest.estimators.validation import (
    check_labels,
    check_regression_target,
    check_seed,
    check_weights,
    count_workers,
)
from fedforest.estimators.vertical_options import VerticalOptions, read_options
from fedforest.estimators.watching import watch
from fedforest.kernels.layout import MAX_BINS
from fedforest.kernels.leaf_votes import sum_leaf_votes
from fedforest.protocol.vertical import messages, prediction_messages
from fedforest.protocol.vertical.coordinator import Trained, TrainingOrder, train
from fedforest.protocol.vertical.labels import ClassLabels, LabelSource, TargetValues
from fedforest.protocol.vertical.party import PartyModel, VerticalParty
from fedforest.protocol.vertical.prediction import (
    PredictionOrder,
    choose_lookahead,
    route,
    route_classically,
)
from fedforest.protocol.vertical.prediction_party import PredictingParty
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.federation import connect, start_workers
from fedforest.runtime.leakage import VerticalRun, report_vertical_training
from fedforest.tree.forest import Forest
from fedforest.tree.grow import BATCH_BYTES
from fedforest.tree.partial import ForestOutline, union
from fedforest.tree.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class VerticalModel:
    """What all roles keep of a trained forest; in one process they are kept side by side."""

    outline: ForestOutline  # the coordinator's
    shares: Mapping[str, PartyModel]
    division: Division
    label_party: str
    n_trees_seeded: int  # trees whose seeds are used up, dropped ones included


class _VerticalForest(BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
    """Training and prediction, whatever the labels are."""

    _task: str
    _batch_bytes = BATCH_BYTES  # for the row orders of trees that grow together

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train over the columns of all parties.

        Parameters
        ----------
        X : mapping of party to table, or one table
            Tables are arrays, data frames, arrow tables or mappings of columns; all parties' rows
            are the same, in the same order. One table is divided as `parties` says.
        y : array of shape (n_rows,)
            The labels, which `label_party` owns.
        sample_weight : array of shape (n_rows,), optional
            Weights of rows.
        """
        options = read_options(self, self._task)
        source = read_source(X)
        before = self._model_before(options)
        division = before.division if before else Division.of(source, self.parties)
        tables = division.split(source)
        label_party = choose_label_party(self.label_party, division)
        n_rows = next(iter(tables.values())).n_rows
        weights = check_weights(sample_weight, n_rows)
        labels, learned = self._read_target(y, weights, n_rows, options, before is not None)
        order = self._order(options, tables, label_party, before)
        log = ExchangeLog()
        with watch(log, order.parameters.n_estimators, self.verbose):
            trained, shares = self._train(order, tables, labels, before, log)
        self._model = VerticalModel(
            trained.outline, shares, division, label_party, order.parameters.n_estimators
        )
        self._keep(trained, log, learned)
        self._report(options, labels)
        return self

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

    def _model_before(self, options: VerticalOptions) -> VerticalModel | None:
        """The model to go on from, if this is a warm start."""
        if not self.warm_start:
            return None
        model: VerticalModel | None = getattr(self, "_model", None)
        if model is not None and options.parameters.n_estimators < model.n_trees_seeded:
            raise ConfigurationError(
                f"n_estimators={options.parameters.n_estimators} must be larger or equal to the "
                f"{model.n_trees_seeded} trees of earlier fits when warm_start=True"
            )
        return model

    def _order(
        self,
        options: VerticalOptions,
        tables: Mapping[str, Table],
        label_party: str,
        before: VerticalModel | None,
    ) -> TrainingOrder:
        if before is None:
            self._seed = _draw_seed(self.random_state)
        return TrainingOrder(
            tuple(tables),
            label_party,
            options.parameters,
            self._seed,
            response=options.response,
            out_of_bag=bool(self.oob_score),
            hard_votes=options.hard_votes,
            early_stopping=options.early_stopping,
            batch_bytes=self._batch_bytes,
            grown=before.outline if before else None,
            first_tree=before.n_trees_seeded if before else 0,
        )

    def _train(
        self,
        order: TrainingOrder,
        tables: Mapping[str, Table],
        labels: LabelSource,
        before: VerticalModel | None,
        log: ExchangeLog,
    ) -> tuple[Trained, dict[str, PartyModel]]:
        with start_workers(count_workers(self.n_jobs)) as workers:
            parties = {
                party: VerticalParty(
                    table,
                    secrets.token_bytes,
                    labels=labels if party == order.label_party else None,
                    model=before.shares[party] if before else None,
                    workers=workers,
                )
                for party, table in tables.items()
            }
            transport = connect(parties, messages.REQUESTS, workers)
            trained = run(train(order), transport, log)
        return trained, {party: handler.model() for party, handler in parties.items()}

    def _keep(self, trained: Trained, log: ExchangeLog, learned: Mapping[str, Any]) -> None:
        """Set the attributes a user reads after training."""
        for name, value in learned.items():
            setattr(self, name, value)
        division = self._model.division
        self.n_features_in_ = division.n_features
        if division.feature_names is not None:
            self.feature_names_in_ = np.array(division.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_outputs_ = 1
        self.feature_importances_ = division.join(trained.importances)
        self.n_exchanges_ = len(log.exchanges)
        self.n_steps_ = trained.n_steps
        self.n_extra_steps_ = trained.n_extra_steps
        self.bytes_sent_ = {party: log.bytes_by_party.get(party, 0) for party in division.parties}
        self.fit_log_: list[FitStep] = describe_steps(log)
        if trained.out_of_bag_curve is not None:
            self.oob_curve_ = trained.out_of_bag_curve
        if trained.out_of_bag_votes is not None:
            self.oob_score_ = float(trained.out_of_bag_curve[-1])  # type: ignore[index]
            self._keep_votes(trained.out_of_bag_votes)

    @abstractmethod
    def _keep_votes(self, votes: NDArray[np.float64]) -> None:
        """Set the attribute that scikit-learn has for out-of-bag votes."""

    def _report(self, options: VerticalOptions, labels: LabelSource) -> None:
        """Say who learned what, and what privacy it cost."""
        response, division = options.response, self._model.division
        self.privacy_spent_ = {} if response is None else {"label_epsilon": response.epsilon}
        rules = options.parameters.growth_rules(labels.n_rows, division.n_features)
        self.leakage_ = report_vertical_training(
            VerticalRun(
                len(division.parties),
                self._model.label_party,
                self._task == "regression",
                response,
                labels.is_weighted,
                bool(self.oob_score) or options.early_stopping is not None,
                rules.min_rows_leaf,
            )
        )

    @property
    def n_trees_(self) -> int:
        """Trees of the trained forest: fewer than `n_estimators` after early stopping."""
        check_is_fitted(self, "_model")
        return self._model.outline.shape.n_trees

    def apply(self, X: Any) -> NDArray[np.int64]:
        """(rows, trees): the leaf each row reaches in each tree."""
        return self._route(X).T.astype(np.int64)

    def _route(self, X: Any, log: ExchangeLog | None = None) -> NDArray[np.int32]:
        """(trees, rows): the leaf each row reaches, found out over all parties."""
        check_is_fitted(self, "_model")
        options = read_options(self, self._task)
        model = self._model
        tables = model.division.split(X)
        n_rows = next(iter(tables.values())).n_rows
        with start_workers(count_workers(self.n_jobs)) as workers:
            parties = {
                party: PredictingParty(model.shares[party], table, workers)
                for party, table in tables.items()
            }
            transport = connect(parties, prediction_messages.REQUESTS, workers)
            lookahead = options.lookahead
            if lookahead is None:
                network = transport.network
                lookahead = choose_lookahead(model.outline, n_rows, len(parties), network)
            order = PredictionOrder(model.outline, model.division.parties, n_rows, lookahead)
            routing = route_classically(order) if options.classical else route(order, workers)
            return run(routing, transport, log)

    def _votes(self, X: Any) -> NDArray[np.float64]:
        leaf_of = self._route(X)
        outline, n_rows = self._model.outline, leaf_of.shape[1]
        votes = np.zeros((n_rows, max(1, outline.n_classes)))
        starts = outline.shape.tree_start
        hard = self.voting == "hard"
        with start_workers(count_workers(self.n_jobs)) as workers:

            def add(rows: tuple[int, int]) -> None:
                sum_leaf_votes(outline.leaves, starts, leaf_of, votes, hard, *rows)

            workers.run(add, workers.ranges(np.full(n_rows, outline.shape.n_trees)))
        return votes / outline.shape.n_trees

    def union(self, consent: Mapping[str, bool]) -> Forest:
        """The complete forest, which no role holds; every party must consent.

        Parameters
        ----------
        consent : mapping of party to bool
            True for every party: a complete copy shows each party's splits to whoever has it.
        """
        check_is_fitted(self, "_model")
        model = self._model
        against = [party for party in model.division.parties if not consent.get(party, False)]
        if against:
            raise PrivacyError(
                f"A complete copy of the forest needs the consent of every party; {against[0]!r} "
                "has not given it."
            )
        return union(model.outline, [share.partial for share in model.shares.values()])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _draw_seed(random_state: Any) -> int:
    """The root seed; without a random state, from the system's entropy."""
    if random_state is None:
        return secrets.randbits(63)
    if isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    return check_seed(random_state)


class VerticalForestClassifier(ClassifierMixin, _VerticalForest):  # type: ignore[misc] # scikit-learn ships no types
    """A random forest for classes over columns that several parties hold.

    Parties find splits among their own columns; only gains, packed bits and sums of encoded labels
    leave them. The forest is, bit for bit, the one that the joined table would give.

    Parameters
    ----------
    n_estimators, criterion, max_depth, min_samples_split, min_samples_leaf, \
min_impurity_decrease, max_features, bootstrap, max_samples, oob_score, class_weight, warm_start, \
random_state, n_jobs, verbose
        As in scikit-learn's RandomForestClassifier. `criterion` is "gini" or "entropy".
    early_stopping : bool, default=False
        Stop when the out-of-bag score has not risen by `tol` for `n_iter_no_change` trees;
        `n_estimators` is then the maximum.
    n_iter_no_change : int, default=10
    tol : float, default=1e-4
    feature_sampling : {"node", "tree"}, default="node"
        Draw the candidate columns anew at every node, or once per tree as the paper does.
    max_bins : int, default=255
        Bins of a numeric column.
    voting : {"soft", "hard"}, default="soft"
        Average class shares, or count each tree's majority as the papers do.
    labels : "encoded" or RandomizedResponse, default="encoded"
        How labels are protected when they leave the label party.
    label_party : str, optional
        Who owns `y`; the first party by default.
    parties : None, int or mapping of party to columns, optional
        How one table is divided; not used when `fit` gets a mapping of tables.
    prediction : {"auto", "one_round", "classical"} or int, default="auto"
        Levels that one exchange settles; "one_round" settles all at once.
    transport : None
        Parties live in this process.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import VerticalForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = VerticalForestClassifier(n_estimators=20, random_state=0)
    >>> forest = forest.fit({"bank": X[:, :15], "shop": X[:, 15:]}, y)
    >>> bool(forest.score({"bank": X[:, :15], "shop": X[:, 15:]}, y) > 0.95)
    True
    """

    _task = "classification"

    def __init__(  # noqa: PLR0913 - scikit-learn's parameters and ours, by name only
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_impurity_decrease: float = 0.0,
        max_features: str | int | float | None = "sqrt",
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        feature_sampling: str = "node",
        max_bins: int = MAX_BINS,
        voting: str = "soft",
        labels: Any = "encoded",
        label_party: str | None = None,
        parties: Any = None,
        prediction: str | int = "auto",
        transport: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.feature_sampling = feature_sampling
        self.max_bins = max_bins
        self.voting = voting
        self.labels = labels
        self.label_party = label_party
        self.parties = parties
        self.prediction = prediction
        self.transport = transport

    def _read_target(
        self,
        y: ArrayLike,
        weights: NDArray[np.float64] | None,
        n_rows: int,
        options: VerticalOptions,
        goes_on: bool,
    ) -> tuple[LabelSource, dict[str, Any]]:
        labels = check_labels(_as_vector(y), n_rows)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        if goes_on:
            if not np.isin(classes, self.classes_).all():
                raise DataError("A warm start cannot learn classes that earlier fits did not have.")
            classes, codes = self.classes_, np.searchsorted(self.classes_, labels)
        class_weights = options.weigh_classes(classes)
        source = ClassLabels(codes, len(classes), weights, class_weights)
        return source, {"classes_": classes, "n_classes_": len(classes)}

    def _keep_votes(self, votes: NDArray[np.float64]) -> None:
        self.oob_decision_function_ = votes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(rows, classes): mean class shares over all trees, or the share of trees that vote."""
        return self._votes(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each row; of equal ones the first."""
        return self.classes_[self._votes(X).argmax(axis=1)]  # type: ignore[no-any-return]


class VerticalForestRegressor(RegressorMixin, _VerticalForest):  # type: ignore[misc] # scikit-learn ships no types
    """A random forest for numbers over columns that several parties hold.

    Parameters
    ----------
    n_estimators, max_depth, min_samples_split, min_samples_leaf, min_impurity_decrease, \
max_features, bootstrap, max_samples, oob_score, warm_start, random_state, n_jobs, verbose
        As in scikit-learn's RandomForestRegressor, whose `max_features` is 1.0. `criterion` is
        "squared_error".
    early_stopping, n_iter_no_change, tol, feature_sampling, max_bins, labels, label_party, \
parties, prediction, transport
        As in `VerticalForestClassifier`; `labels` is "encoded".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fedforest import VerticalForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = VerticalForestRegressor(n_estimators=20, parties=2, random_state=0).fit(X, y)
    >>> forest.predict(X).shape
    (442,)
    """

    _task = "regression"
    voting = "soft"  # the mean of the trees; there is nothing to choose
    class_weight = None

    def __init__(  # noqa: PLR0913 - scikit-learn's parameters and ours, by name only
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_impurity_decrease: float = 0.0,
        max_features: str | int | float | None = 1.0,
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        feature_sampling: str = "node",
        max_bins: int = MAX_BINS,
        labels: Any = "encoded",
        label_party: str | None = None,
        parties: Any = None,
        prediction: str | int = "auto",
        transport: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.feature_sampling = feature_sampling
        self.max_bins = max_bins
        self.labels = labels
        self.label_party = label_party
        self.parties = parties
        self.prediction = prediction
        self.transport = transport

    def _read_target(
        self,
        y: ArrayLike,
        weights: NDArray[np.float64] | None,
        n_rows: int,
        options: VerticalOptions,  # noqa: ARG002 - classes only
        goes_on: bool,  # noqa: ARG002 - classes only
    ) -> tuple[LabelSource, dict[str, Any]]:
        return TargetValues(check_regression_target(_as_vector(y), n_rows), weights), {}

    def _keep_votes(self, votes: NDArray[np.float64]) -> None:
        self.oob_prediction_ = votes[:, 0]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The mean of the trees for each row."""
        return self._votes(X)[:, 0]


def _as_vector(y: ArrayLike) -> Any:
    """A column of labels as a vector, with scikit-learn's warning; other shapes stay."""
    if y is None:
        raise DataError("y is None: training needs a target; pass the label of every row.")
    shape = np.shape(y)
    return column_or_1d(y, warn=True) if len(shape) == 2 and shape[1] == 1 else y
