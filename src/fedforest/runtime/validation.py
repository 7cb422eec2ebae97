"""Validation of a training on rows that were held out, and baselines of parties on their own.

Scores are computed where the labels are. A vertical forest predicts the held-out rows as it
predicts others, and the label party judges the votes; a horizontal one is at every party, which
judges it by its own rows. Baselines are trained beside it on the same rows with the same
parameters, scored on the same rows, and dropped.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.protocol.scoring.coordinator import score_own_votes
from fedforest.protocol.scoring.payloads import round_figure
from fedforest.runtime.orders import TrainHorizontal, TrainVertical
from fedforest.runtime.results import Scores, ValidationReport
from fedforest.runtime.roles import AloneRole, RowChoice, ScoringRole
from fedforest.runtime.run_parts import RunParts
from fedforest.tree.scores import score_confusion
from fedforest.tree.seeds import derive_seed

SCORES = "validation"
ALONE = "alone"
_SEED_BITS = 63  # of seeds as they travel


class ScoresByParty(msgspec.Struct, frozen=True, array_like=True):
    """What several parties scored."""

    scores: dict[str, Scores]


def check_validation(order: TrainVertical | TrainHorizontal) -> None:
    """Refuse scores that would undo what protects labels, and baselines that nothing scores."""
    is_noisy = (
        order.label_epsilon is not None
        if isinstance(order, TrainVertical)
        else order.privacy is not None
    )
    if order.validation is not None and is_noisy:
        raise ConfigurationError(
            "validation compares predictions with the true labels, and its scores are a release "
            "that no noise covers; leave it out, or train without noise on labels"
        )
    if order.alone and order.validation is None:
        raise ConfigurationError(
            "what parties reach alone is scored on held-out rows; ask for validation, too"
        )


def choose_rows(order: TrainVertical | TrainHorizontal, alignment: str | None) -> RowChoice | None:
    """What a training is about, in numbers from which every party finds the same rows."""
    if alignment is None and order.validation is None:
        return None
    if order.validation is None:
        return RowChoice(alignment=alignment)
    seed = derive_part_seed(order, "held out")
    return RowChoice(alignment=alignment, held_out=order.validation.share, seed=seed)


def derive_part_seed(order: TrainVertical | TrainHorizontal, purpose: str) -> int:
    """A seed that everybody may know: it tells nothing of the training's own."""
    assert order.seed is not None
    return derive_seed(order.seed, purpose) >> (64 - _SEED_BITS)


def held_out(rows: RowChoice) -> RowChoice:
    """The rows that were kept out of a training on the others."""
    return msgspec.structs.replace(rows, is_validation=True)


def validate_horizontal(
    order: TrainHorizontal, parts: RunParts, parties: Sequence[str]
) -> ValidationReport:
    """Every party scores the finished model, which it has, on its own held-out rows."""
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
        alone = _score_own(order, parts, ALONE, _assign_alone(order, rows, parties))
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
            parameters=order.parameters,
            seed=derive_part_seed(order, ALONE),
            with_confusion=_shows_confusion(order),
        )
        for party in parties
    }


def _shows_confusion(order: TrainHorizontal) -> bool:
    """Where sums are hidden, counts of one party's classes are not shown either."""
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
    """Scores over the rows of all parties.

    Exact but for rounding, except where the parties' figures do not tell: AUC and R2, and without
    counts of classes F1 and balanced accuracy, are means weighted by rows.
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
    """The mean over all rows; errors that were squared are squared again for it."""
    weights = np.array([part.n_rows for part in parts], np.float64)
    values = np.array([part.values[name] for part in parts])
    if name == "rmse":
        return float(np.sqrt(np.average(np.square(values), weights=weights)))
    return float(np.average(values, weights=weights))


def _add_confusions(parts: Sequence[Scores]) -> NDArray[np.int64] | None:
    """Over all parties; only some of them may have rows of classes that training did not see."""
    matrices = [np.array(part.confusion) for part in parts if part.confusion is not None]
    if len(matrices) < len(parts):
        return None
    size = max(map(len, matrices))
    total = np.zeros((size, size), np.int64)
    for matrix in matrices:
        total[: len(matrix), : len(matrix)] += matrix
    return total
