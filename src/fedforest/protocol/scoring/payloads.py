"""The types that may leave a party when predictions are scored: figures, and counts.

`MAY_LEAVE` is part of the allow-list of `protocol/payloads.py`; the same test walks it.
"""

import math
from typing import Self

import numpy as np

from fedforest.protocol.asking import check
from fedforest.protocol.label_door import LabelStatistic
from fedforest.protocol.payloads import Count, from_bytes, to_bytes
from fedforest.tree.forest.metrics import CLASS_SCORES, NUMBER_SCORES, Judgement
from fedforest.tree.table.targets import MAX_CLASSES

# With all its digits, one figure could be made to tell the labels of dozens of rows: whoever sends
# the votes would have every row weigh another power of two in it.
DIGITS = 6


class ScoreSheet(LabelStatistic, frozen=True):
    """The quality of some rows' predictions: rounded figures and, unless withheld, counts.

    Figures come in one order (`tree/forest/metrics.py`), NaN where one is not defined.
    Counts are of true classes by predicted ones.
    """

    n_rows: Count
    figures: memoryview
    confusion: memoryview

    @classmethod
    def of(
        cls, judged: Judgement, *, is_regression: bool, least_predicted: int | None = None
    ) -> Self:
        """Round figures; show counts if every predicted class has so many rows, None: never."""
        names = NUMBER_SCORES if is_regression else CLASS_SCORES
        figures = [round_figure(judged.values.get(name, math.nan)) for name in names]
        counts = np.zeros(0, np.int64)
        if judged.confusion is not None and least_predicted is not None:
            predicted = judged.confusion.sum(axis=0)
            if (predicted[predicted > 0] >= least_predicted).all():
                counts = judged.confusion
        return cls(judged.n_rows, to_bytes(np.array(figures), "<f8"), to_bytes(counts, "<i8"))

    def read(self, *, is_regression: bool) -> Judgement:
        names = NUMBER_SCORES if is_regression else CLASS_SCORES
        figures = from_bytes(self.figures, "<f8", len(names), "scores")
        check(not np.isinf(figures).any(), "a score is infinite")
        check(self.n_rows > 0, "nothing was scored")
        values = {
            name: float(figure)
            for name, figure in zip(names, figures, strict=True)
            if not math.isnan(figure)
        }
        if not len(self.confusion):
            return Judgement(self.n_rows, values)
        size = math.isqrt(len(self.confusion) // 8)
        check(size <= MAX_CLASSES + 1, "there are counts of too many classes")
        counts = from_bytes(self.confusion, "<i8", size * size, "counts of classes")
        is_count = bool((counts >= 0).all() and (counts <= self.n_rows).all())
        check(is_count and counts.sum() == self.n_rows, "classes are not those of the rows scored")
        check(not is_regression, "numbers have no classes to be counted")
        return Judgement(self.n_rows, values, counts.reshape(size, size))


MAY_LEAVE = (ScoreSheet,)


def round_figure(figure: float) -> float:
    """With the digits that may leave; NaN where it is not finite."""
    return float(f"{figure:.{DIGITS}g}") if math.isfinite(figure) else math.nan
