"""The training of a linear model with all roles in this process, with the messages of a network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedforest.estimators.inputs.party_tables import (
    ColumnDivision,
    check_row_order,
    choose_label_party,
    read_source,
)
from fedforest.estimators.inputs.validation import count_workers
from fedforest.estimators.linear.federation import order_model
from fedforest.protocol.linear.coordinator import LinearTrained, predict
from fedforest.protocol.linear.messages import REQUESTS
from fedforest.protocol.linear.party import LinearParty, LinearShare
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.federation import connect, start_workers
from fedforest.runtime.messages.results import LinearResult
from fedforest.runtime.trainings.base import Ended
from fedforest.runtime.trainings.in_process import NO_SEED, ProcessMeans, train_in_process
from fedforest.runtime.trainings.linear import LINEAR, LinearColumns
from fedforest.tree.table.target_checks import check_weights

# What an order calls the arguments of `fit`, which are no columns of a data set.
_LABEL, _WEIGHT = "y", "sample_weight"


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """The parts of a trained model at all roles; in one process they lie side by side."""

    trained: LinearTrained  # the coordinator's
    shares: Mapping[str, LinearShare]
    division: ColumnDivision

    def describe(self) -> dict[str, Any]:
        """Fitted attributes of an estimator that has this model; it names columns."""
        described: dict[str, Any] = {
            "n_features_in_": self.division.n_features,
            "columns_by_party_": self.division.columns_by_party,
            "coef_by_party_": {
                party: dict(zip(share.design.term_names, share.slopes().tolist(), strict=True))
                for party, share in self.shares.items()
            },
        }
        if self.division.feature_names is not None:
            described["feature_names_in_"] = np.array(self.division.feature_names, dtype=object)
        return described

    def coefficients(self) -> tuple[NDArray[np.float64], float]:
        """In units of the input's columns, in their order where each has just one; the intercept.

        The intercept is the score of a row whose columns are all zero.
        """
        slopes = {party: np.zeros(0) for party in self.division.parties}
        slopes.update({party: share.slopes() for party, share in self.shares.items()})
        intercept = self.trained.intercept + sum(share.offset() for share in self.shares.values())
        if any(any(share.design.is_categorical) for share in self.shares.values()):
            return np.concatenate([slopes[party] for party in self.division.parties]), intercept
        return self.division.join(slopes), intercept

    def scores(self, X: Any, n_jobs: int | None) -> NDArray[np.float64]:
        """Return the score of each row."""
        tables, trained = self.division.split(X), self.trained
        parties = {
            party: LinearParty(tables[party], share=self.shares[party]) for party in trained.holders
        }
        with start_workers(count_workers(n_jobs)) as workers:
            asking = predict(trained.holders, trained.intercept)
            return run(asking, connect(parties, REQUESTS, workers))


class LinearTrainingHere:
    """One training whose input was passed to `fit`: read and checked when this is made."""

    def __init__(self, estimator: Any, given: tuple[Any, ArrayLike, ArrayLike | None]) -> None:
        X, y, sample_weight = given
        source = read_source(X)
        check_row_order(X, y=y, sample_weight=sample_weight)
        self._division = ColumnDivision.of(source, estimator.parties)
        tables = self._division.split(source)
        n_rows = next(iter(tables.values())).n_rows
        weights = check_weights(sample_weight, n_rows)
        row_weights = np.ones(n_rows) if weights is None else weights
        labels, self._learned = estimator._read_target(y, row_weights)
        self._n_jobs = estimator.n_jobs
        self.order = order_model(
            estimator,
            data={party: party for party in self._division.parties},
            label=_LABEL,
            label_party=choose_label_party(estimator.label_party, self._division),
            weight=None if weights is None else _WEIGHT,
        )
        self._columns = {
            party: LinearColumns(table, labels if party == self.order.label_party else None)
            for party, table in tables.items()
        }

    def train(self, log: ExchangeLog) -> tuple[LinearResult, LinearModel, Mapping[str, Any]]:
        """Train; the result, the model, and attributes that labels decide."""
        with start_workers(count_workers(self._n_jobs)) as workers:
            means = ProcessMeans(NO_SEED, workers)
            here = train_in_process(self.order, self._columns, means, log)
        trained: LinearTrained = here.trained
        shares = {party: here.works[party].party.share() for party in trained.holders}
        model = LinearModel(trained, shares, self._division)
        return LINEAR.result(self.order, trained, Ended()), model, self._learned
