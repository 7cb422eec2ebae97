"""Score trainings on held-out rows, and the baselines of parties.

The party that has the labels computes scores. A vertical forest predicts held-out rows as any
others, and the label party scores the votes. A horizontal forest is at every party, which scores it
on its own rows. A baseline is trained on the same rows with the same parameters, scored on the same
held-out rows, and deleted.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.scoring.coordinator import score_own_votes
from fedforest.protocol.scoring.payloads import round_figure
from fedforest.runtime.coordinator.run_stages import RunParts
from fedforest.runtime.messages.envelope import ALONE_PART
from fedforest.runtime.messages.orders import TrainHorizontal
from fedforest.runtime.messages.results import Scores, ValidationReport
from fedforest.runtime.messages.roles import AloneRole, RowChoice, ScoringRole
from fedforest.runtime.trainings.forests import choose_rows, derive_part_seed
from fedforest.tree.forest.metrics import score_confusion

SCORES = "validation"


class ScoresByParty(msgspec.Struct, frozen=True, array_like=True):
    """The scores of several parties."""

    scores: dict[str, Scores]


def held_out(rows: RowChoice) -> RowChoice:
    """Return the held-out rows of a choice of training rows."""
    return msgspec.structs.replace(rows, is_validation=True)


def validate_horizontal(
    order: TrainHorizontal, parts: RunParts, parties: Sequence[str]
) -> ValidationReport:
    """Have every party score the finished model on its own held-out rows."""
    rows = choose_rows(order, None)
    assert rows is not None
    scoring = {
        party: ScoringRole(
            data=order.data[party],
            is_regression=order.is_regression,
            label=order.label,
            rows=held_out(rows),
            model=parts.run.hex(),
            has_model=True,
            with_confusion=_shows_confusion(order),
        )
        for party in parties
    }
    by_party = _score_own(order, parts, SCORES, scoring)
    alone: dict[str, Scores] = {}
    if order.alone:
        alone = _score_own(order, parts, ALONE_PART, _assign_alone(order, rows, parties))
    return ValidationReport(federated=combine_scores(by_party), alone=alone, by_party=by_party)


def _assign_alone(
    order: TrainHorizontal, rows: RowChoice, parties: Sequence[str]
) -> dict[str, AloneRole]:
    return {
        party: AloneRole(
            data=order.data[party],
            is_regression=order.is_regression,
            label=order.label,
            weight=order.weight,
            class_weight=order.class_weight,
            rows=rows,
            seed=derive_part_seed(order, ALONE_PART),
            with_confusion=_shows_confusion(order),
        )
        for party in parties
    }


def _shows_confusion(order: TrainHorizontal) -> bool:
    """Tell whether a party may show its class counts: not where the run hides its sums."""
    return order.aggregation is None


def _score_own(
    order: TrainHorizontal,
    parts: RunParts,
    name: str,
    roles: Mapping[str, ScoringRole] | Mapping[str, AloneRole],
) -> dict[str, Scores]:
    known = parts.recall(name, ScoresByParty)
    if known is None:
        conversation = score_own_votes(tuple(roles), is_regression=order.is_regression)
        judged = parts.converse(name, roles, conversation)
        known = ScoresByParty({party: Scores.of(each) for party, each in judged.items()})
        parts.end(name, roles, known)
    return known.scores


def combine_scores(by_party: Mapping[str, Scores]) -> Scores:
    """Combine scores over the rows of all parties.

    They are exact but for rounding, with exceptions: AUC and R2, and without counts of classes F1
    and balanced accuracy, are means weighted by rows.
    """
    parts = list(by_party.values())
    names = [name for name in parts[0].values if all(name in part.values for part in parts)]
    values = {name: _combine_values(name, parts) for name in names}
    confusion = _add_confusions(parts)
    if confusion is not None:
        values |= score_confusion(confusion)
    return Scores(
        n_rows=sum(part.n_rows for part in parts),
        values={name: round_figure(value) for name, value in values.items()},
        confusion=None if confusion is None else confusion.tolist(),
    )


def _combine_values(name: str, parts: Sequence[Scores]) -> float:
    """Return the mean weighted by rows; for `rmse`, the root of the mean square."""
    weights = np.array([part.n_rows for part in parts], np.float64)
    values = np.array([part.values[name] for part in parts])
    if name == "rmse":
        return float(np.sqrt(np.average(np.square(values), weights=weights)))
    return float(np.average(values, weights=weights))


def _add_confusions(parts: Sequence[Scores]) -> NDArray[np.int64] | None:
    """Add the matrices of all parties; they differ in size if some met classes unseen in training.

    Returns None if a party gave no matrix.
    """
    matrices = [np.array(part.confusion) for part in parts if part.confusion is not None]
    if len(matrices) < len(parts):
        return None
    size = max(map(len, matrices))
    total = np.zeros((size, size), np.int64)
    for matrix in matrices:
        total[: len(matrix), : len(matrix)] += matrix
    return total
