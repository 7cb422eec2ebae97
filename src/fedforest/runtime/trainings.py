"""Trainings as a coordinator's service runs them.

An order becomes roles for parties, a conversation for the driver, and in the end a result.

All of it follows from the order and the run's stored entropy, so that a restart makes the same.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.aggregation.base import LEAST_PARTICIPANTS, check_min_participants
from fedforest.protocol.aggregation.plugs import make_aggregation
from fedforest.protocol.asking import Conversation
from fedforest.protocol.horizontal.coordinator import train as train_horizontal
from fedforest.protocol.horizontal.order import Participation
from fedforest.protocol.horizontal.order import Trained as HorizontalTrained
from fedforest.protocol.horizontal.order import TrainingOrder as HorizontalTraining
from fedforest.protocol.linear.coordinator import LinearOrder as LinearTraining
from fedforest.protocol.linear.coordinator import LinearTrained
from fedforest.protocol.linear.coordinator import train as train_linear
from fedforest.protocol.vertical.coordinator import train as train_vertical
from fedforest.protocol.vertical.order import Trained as VerticalTrained
from fedforest.protocol.vertical.order import TrainingOrder as VerticalTraining
from fedforest.runtime.alignment_runs import check_alignment
from fedforest.runtime.coordinator_models import CoordinatorModel, CoordinatorModels
from fedforest.runtime.entropy import EntropySource
from fedforest.runtime.orders import (
    AlignRows,
    AnyRun,
    AnyTraining,
    TrainHorizontal,
    TrainLinear,
    TrainVertical,
)
from fedforest.runtime.results import Alignment, HorizontalResult, LinearResult, VerticalResult
from fedforest.runtime.roles import AnyRole, HorizontalRole, LinearRole, RowChoice, VerticalRole
from fedforest.runtime.validation import check_validation
from fedforest.tree.workers import Workers


class Ended(NamedTuple):
    """A training over columns whose shares are kept."""

    model: str
    classes: Any  # what class numbers mean, from the label party, if it was there in the end


def check_run(order: AnyRun) -> None:
    """Refuse what no party needs to be asked about."""
    if not order.data:
        raise ConfigurationError("no party takes part; name a data set for at least one")
    if isinstance(order, AlignRows):
        check_alignment(order.data)
        return
    if isinstance(order, TrainLinear):
        _check_label_party(order)
        return
    check_validation(order)
    if isinstance(order, TrainVertical):
        _check_vertical(order)
        return
    plug, noise = order.plug(), order.noise()
    if plug != "plain":
        plug.check(len(order.data))
    is_protected = plug != "plain"
    check_min_participants(order.min_participants, len(order.data), is_protected=is_protected)
    if noise is not None:
        noise.check(is_regression=order.is_regression)


def _check_label_party(order: TrainVertical | TrainLinear) -> None:
    if order.label_party not in order.data:
        raise ConfigurationError(f"label party {order.label_party!r} is none of the parties")


def _check_vertical(order: TrainVertical) -> None:
    _check_label_party(order)
    if order.label_epsilon is not None:
        RandomizedResponse(order.label_epsilon).check()
    if order.align:
        check_alignment(order.data)
    if order.align and order.continues is not None:
        raise ConfigurationError(
            "a warm start goes on with the rows of the training before, aligned or not; leave "
            "align out"
        )


def assign_roles(order: AnyTraining, rows: RowChoice | None) -> dict[str, AnyRole]:
    """What each party is to do, with which of its rows."""
    if isinstance(order, TrainHorizontal):
        return {
            party: HorizontalRole(
                data=data,
                is_regression=order.is_regression,
                label=order.label,
                weight=order.weight,
                aggregation=order.aggregation,
                is_noisy=order.privacy is not None,
                least_participants=order.least,
                peers=()
                if order.aggregation is None
                else tuple(other for other in order.data if other != party),
                rows=rows,
            )
            for party, data in order.data.items()
        }
    if isinstance(order, TrainLinear):
        return {
            party: LinearRole(
                data=data,
                is_regression=order.is_regression,
                label=order.label if party == order.label_party else None,
                weight=order.weight if party == order.label_party else None,
                class_weight=order.class_weight if party == order.label_party else None,
                rows=rows,
            )
            for party, data in order.data.items()
        }
    return {
        party: VerticalRole(
            data=data,
            is_regression=order.is_regression,
            label=order.label if party == order.label_party else None,
            weight=order.weight if party == order.label_party else None,
            class_weight=order.class_weight if party == order.label_party else None,
            continues=order.continues,
            with_left_out=order.with_left_out and party == order.label_party,
            rows=rows,
        )
        for party, data in order.data.items()
    }


def converse(
    order: AnyTraining,
    run: bytes,
    entropies: EntropySource,
    models: CoordinatorModels,
    workers: Workers,
) -> Conversation[Any]:
    """The coordinator of the training, from its beginning."""
    if isinstance(order, TrainLinear):
        return train_linear(_describe_linear(order))
    assert order.seed is not None, "the service draws one before a run is stored"
    if isinstance(order, TrainVertical):
        return train_vertical(describe_vertical_training(order, models), workers)
    class_weight = order.class_weight
    training = HorizontalTraining(
        tuple(order.data),
        order.parameters,
        order.seed,
        order.noise(),
        Participation(order.participation, order.participation_scope, order.least),
        dict(class_weight) if isinstance(class_weight, list) else class_weight,
    )
    aggregation = make_aggregation(
        order.plug(),
        run,
        entropies.of("coordinator"),
        is_noisy=order.privacy is not None,
        least_participants=max(LEAST_PARTICIPANTS, order.least),
    )
    return train_horizontal(training, aggregation, workers)


def _describe_linear(order: TrainLinear) -> LinearTraining:
    return LinearTraining(
        tuple(order.data),
        order.label_party,
        order.penalty,
        order.is_regression,
        order.max_iter,
        order.tol,
        is_weighted=order.weight is not None,
    )


def describe_vertical_training(order: TrainVertical, models: CoordinatorModels) -> VerticalTraining:
    """What the coordinator of a vertical training is told."""
    assert order.seed is not None
    training = VerticalTraining(
        tuple(order.data),
        order.label_party,
        order.parameters,
        order.seed,
        None if order.label_epsilon is None else RandomizedResponse(order.label_epsilon),
        order.out_of_bag,
        order.hard_votes,
        order.early_stopping,
    )
    if order.continues is None:
        return training
    before = models.read(order.continues)
    return replace(
        training, grown=before.outline, first_tree=before.n_trees_seeded, seed=before.seed
    )


def check_growing_on(order: TrainVertical, before: CoordinatorModel) -> None:
    """Refuse further trees of a forest that could not be grown, before any label leaves."""
    if before.parties != tuple(order.data):
        raise ConfigurationError("a warm start goes on with the same parties in the same order")
    if before.label_party != order.label_party:
        raise ConfigurationError("a warm start goes on with the same label party")
    if order.parameters.n_estimators <= before.n_trees_seeded:
        raise ConfigurationError(
            f"the forest has {before.n_trees_seeded} trees already; to grow it on, order more "
            f"than n_estimators={order.parameters.n_estimators}"
        )


def describe_vertical_result(
    order: TrainVertical, alignment: Alignment | None, trained: VerticalTrained, ended: Ended
) -> VerticalResult:
    """What the user is told of a vertical training."""
    columns = dict(zip(order.data, trained.columns_per_party, strict=True))
    model, classes = ended
    return VerticalResult(
        model=model,
        n_trees=trained.outline.shape.n_trees,
        n_rows=trained.n_rows,
        columns_per_party=columns,
        importances={party: _pack(values) for party, values in trained.importances.items()},
        classes=classes,
        out_of_bag_curve=_pack(trained.out_of_bag_curve),
        out_of_bag_votes=_pack(trained.out_of_bag_votes),
        n_steps=list(trained.n_steps),
        n_extra_steps=list(trained.n_extra_steps),
        smallest_group=trained.smallest_group,
        alignment=alignment,
    )


def describe_horizontal_result(model: str, trained: HorizontalTrained) -> HorizontalResult:
    """What the user is told of a horizontal training."""
    return HorizontalResult(
        model=model,
        file=trained.model,
        n_rows=trained.n_rows,
        candidates_per_node=trained.candidates_per_node,
        n_trees_begun=trained.n_trees_begun,
        lost=list(trained.lost),
        smallest_group=trained.smallest_group,
    )


def describe_linear_result(trained: LinearTrained, ended: Ended) -> LinearResult:
    """What the user is told of a linear model."""
    return LinearResult(
        model=ended.model,
        intercept=trained.intercept,
        n_rows=trained.n_rows,
        columns_per_party=dict(trained.columns_per_party),
        n_iter=trained.n_iter,
        has_converged=trained.has_converged,
        classes=ended.classes,
    )


def _pack(values: NDArray[np.float64] | None) -> bytes | None:
    return None if values is None else np.ascontiguousarray(values, "<f8").tobytes()
