"""Every message of linear models: requests of the coordinator, replies of parties.

Fields of replies are payloads from the allow-list (`protocol/payloads.py`). Scores, residuals and
curvatures have one number per row; coefficients are of directions, never of columns.
"""

from typing import Annotated, ClassVar

import msgspec

from fedforest.protocol.asking import Accepted, Message, Request
from fedforest.protocol.payloads import (
    Curvatures,
    DotProducts,
    PartialScores,
    Residuals,
    RowWeights,
    TableSize,
    TrainingLoss,
)


class WeightsShared(Message, frozen=True):
    """Row weights, for all parties that standardise columns."""

    reveals: ClassVar[str] = "how much each row counts"

    weights: RowWeights


class ShareWeights(Request[WeightsShared], frozen=True):
    """To the label party: tell how much each row counts."""

    reveals: ClassVar[str] = "nothing of others"


class ColumnsStandardised(Message, frozen=True):
    """The size of the party's table."""

    reveals: ClassVar[str] = "how many rows and columns the party has"

    size: TableSize


class StandardiseColumns(Request[ColumnsStandardised], frozen=True):
    """Standardise your columns; `penalty` is the L2 penalty of their coefficients."""

    reveals: ClassVar[str] = "weights of rows, if there are any"

    penalty: Annotated[float, msgspec.Meta(ge=0.0)]
    weights: RowWeights | None = None


class Measured(Message, frozen=True):
    """The loss, and its first and second derivative by the score of each row."""

    reveals: ClassVar[str] = (
        "for each row, how far its score is from its label: so the label itself"
    )

    residuals: Residuals
    curvatures: Curvatures
    loss: TrainingLoss


class Measure(Request[Measured], frozen=True):
    """To the label party: tell how well these scores fit, one number per row."""

    reveals: ClassVar[str] = "the total score of each row, to which all parties' columns contribute"

    scores: memoryview


class Proposed(Message, frozen=True):
    """The scores of the new direction; its products with the gradient and all directions."""

    reveals: ClassVar[str] = (
        "what a combination of the party's columns is for each row, and products of coefficients"
    )

    scores: PartialScores
    products: DotProducts


class Propose(Request[Proposed], frozen=True):
    """Add a direction at the point with these coefficients of your directions.

    Without curvatures, those of the last request hold. Residuals are centred: the coordinator's
    intercept takes up their sum.
    """

    reveals: ClassVar[str] = (
        "for each row, how far its score is from its label: so the label itself"
    )

    residuals: Residuals
    coefficients: memoryview
    curvatures: Curvatures | None = None


class Settle(Request[Accepted], frozen=True):
    """Training is over: keep the model at these coefficients of your directions."""

    reveals: ClassVar[str] = "how much each of its own directions counts"

    coefficients: memoryview


class RowsScored(Message, frozen=True):
    """The party's contribution to each row's score."""

    reveals: ClassVar[str] = "what the party's columns say about each row predicted"

    size: TableSize
    scores: PartialScores


class ScoreRows(Request[RowsScored], frozen=True):
    """Send the contribution of your columns to the scores of the rows to predict."""

    reveals: ClassVar[str] = "nothing of others"


TRAINING_REQUESTS = (ShareWeights, StandardiseColumns, Measure, Propose, Settle)
REQUESTS = (*TRAINING_REQUESTS, ScoreRows)
