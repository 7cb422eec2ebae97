"""The party of a linear model.

Who learns what. A party sees residuals and curvatures of every row and the coefficients of its own
directions. The signs of residuals are the classes, so every party with columns learns every label;
for numbers, residuals at the start are the targets up to a constant. It never sees scores, columns
or coefficients of another party. It reveals the contribution of its columns to every row's score,
once per step: after as many steps as it has columns these span its columns, and a party with one
column reveals that column except its unit. It also reveals lengths and angles of its coefficient
vectors. The label party of two classes sees the total scores of every step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.protocol.asking import Accepted, Message, blame, check
from fedforest.protocol.linear.design import Design, fit_design
from fedforest.protocol.linear.directions import Directions
from fedforest.protocol.linear.labels import Labels
from fedforest.protocol.linear.messages import (
    ColumnsStandardised,
    Measure,
    Measured,
    Propose,
    Proposed,
    RowsScored,
    ScoreRows,
    Settle,
    ShareWeights,
    StandardiseColumns,
    WeightsShared,
)
from fedforest.protocol.linear.ranges import calculate, check_numbers
from fedforest.protocol.payloads import (
    Curvatures,
    DotProducts,
    PartialScores,
    Residuals,
    RowWeights,
    TableSize,
    TrainingLoss,
    from_bytes,
)
from fedforest.tree.table.frames import Table


@dataclass(frozen=True, slots=True, eq=False)
class LinearShare:
    """A party's part of a trained model: the coefficients of its own standardised terms."""

    design: Design
    coefficients: NDArray[np.float64]

    def slopes(self) -> NDArray[np.float64]:
        """Return coefficients in the units of the columns; 0 for constant ones."""
        scales = np.array([term.scale for term in self.design.terms])
        slopes = np.zeros_like(self.coefficients)
        np.divide(self.coefficients, scales, out=slopes, where=scales > 0.0)
        return slopes

    def offset(self) -> float:
        """Return the score of a row whose columns are all zero."""
        means = np.array([term.mean for term in self.design.terms])
        return float(-(self.slopes() @ means))


class LinearParty:
    """Answers the coordinator of a linear model with one table.

    A party that trains learns its model; one that predicts is given it.
    """

    def __init__(
        self,
        table: Table,
        *,
        labels: Labels | None = None,
        share: LinearShare | None = None,
        approve: Callable[[Measure], None] | None = None,
    ) -> None:
        self._table = table
        self._approve = approve  # asked before labels leave
        self._labels = labels
        self._share = share
        self._design: Design | None = None
        self._directions: Directions | None = None
        self._handlers: dict[type[Message], Callable[[Any], Message]] = {
            ShareWeights: self._share_weights,
            StandardiseColumns: self._prepare,
            Measure: self._measure,
            Propose: self._propose,
            Settle: self._settle,
            ScoreRows: self._score_rows,
        }

    def handle(self, request: Message) -> Message:
        """Answer one request; refuse a request out of sequence, which then changes nothing."""
        with blame("coordinator"):
            return self._handlers[type(request)](request)

    @property
    def has_columns(self) -> bool:
        """Whether the party has columns; if not, it only measures."""
        return self._table.n_features > 0

    def share(self) -> LinearShare:
        """Return the party's part of the model."""
        if self._share is None:
            raise ProtocolError.stating("there is no model yet")
        return self._share

    @property
    def _size(self) -> TableSize:
        return TableSize(self._table.n_rows, self._table.n_features)

    def _known_labels(self) -> Labels:
        if self._labels is None:
            raise ProtocolError.stating("labels are asked of a party that has none")
        return self._labels

    def _share_weights(self, _: ShareWeights) -> WeightsShared:
        return WeightsShared(RowWeights.of(self._known_labels().row_weights))

    def _prepare(self, request: StandardiseColumns) -> ColumnsStandardised:
        check(np.isfinite(request.penalty), "the penalty is not finite")
        weights = request.weights.read(self._table.n_rows) if request.weights else None
        with calculate():
            design = fit_design(self._table, weights)
            matrix = design.transform(self._table)
        check_numbers(matrix)
        self._design, self._directions = design, Directions(matrix, request.penalty)
        return ColumnsStandardised(self._size)

    def _measure(self, request: Measure) -> Measured:
        labels = self._known_labels()
        scores = _read_numbers(request.scores, labels.n_rows, "score")
        with calculate():
            fit = labels.measure(scores)
        check_numbers(*fit)
        if self._approve is not None:
            self._approve(request)  # last, so that a refused request spends nothing
        return Measured(
            Residuals.of(fit.residuals), Curvatures.of(fit.curvatures), TrainingLoss(fit.loss)
        )

    def _propose(self, request: Propose) -> Proposed:
        directions = self._searched()
        residuals = request.residuals.read(self._table.n_rows)
        coefficients = _read_numbers(request.coefficients, directions.count, "coefficient")
        bent = request.curvatures
        curvatures = None if bent is None else bent.read(self._table.n_rows)
        scores, products = directions.propose(residuals, coefficients, curvatures)
        return Proposed(PartialScores.of(scores), DotProducts.of(products))

    def _settle(self, request: Settle) -> Accepted:
        directions = self._searched()
        coefficients = _read_numbers(request.coefficients, directions.count, "coefficient")
        assert self._design is not None  # there are no directions without
        with calculate():
            point = directions.point(coefficients)
        check_numbers(point)
        self._share = LinearShare(self._design, point)
        return Accepted()

    def _searched(self) -> Directions:
        if self._directions is None:
            raise ProtocolError.stating("a direction is asked for before columns are prepared")
        return self._directions

    def _score_rows(self, _: ScoreRows) -> RowsScored:
        share = self.share()
        scores = share.design.transform(self._table) @ share.coefficients
        return RowsScored(self._size, PartialScores.of(scores))


def _read_numbers(data: memoryview, length: int, what: str) -> NDArray[np.float64]:
    numbers = from_bytes(data, "<f8", length, f"{what}s")
    check(bool(np.isfinite(numbers).all()), "a {what} is not finite", what=what)
    return numbers
