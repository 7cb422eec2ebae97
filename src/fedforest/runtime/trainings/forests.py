"""Functions for both vertical and horizontal forests: seeds, held-out rows, terms, figures."""

import math
from collections.abc import Sequence
from typing import Any

from fedforest.errors import ConfigurationError
from fedforest.runtime.disclosure.run_leakage import Figures, count_traffic
from fedforest.runtime.driver import Exchange
from fedforest.runtime.messages.orders import TrainingOrderOnWire
from fedforest.runtime.messages.roles import RowChoice
from fedforest.runtime.messages.terms import Terms
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.tree.growth.seeds import derive_seed

_SEED_BITS = 63  # of seeds in messages


def check_validation(order: TrainingOrderOnWire, *, is_noisy: bool) -> None:
    """Refuse scores on labels that noise protects, and baselines without validation."""
    if order.validation is not None and is_noisy:
        raise ConfigurationError(
            "validation compares predictions with the true labels, and its scores are a release "
            "that no noise covers; leave it out, or train without noise on labels"
        )
    if order.alone and order.validation is None:
        raise ConfigurationError(
            "what parties reach alone is scored on held-out rows; ask for validation, too"
        )


def choose_rows(order: TrainingOrderOnWire, alignment: str | None) -> RowChoice | None:
    """Return the choice of rows as a few numbers, from which every party finds the same rows."""
    if alignment is None and order.validation is None:
        return None
    if order.validation is None:
        return RowChoice(alignment=alignment)
    seed = derive_part_seed(order, "held out")
    return RowChoice(alignment=alignment, held_out=order.validation.share, seed=seed)


def derive_part_seed(order: TrainingOrderOnWire, purpose: str) -> int:
    """Derive a seed that may be public: it reveals nothing of the training's own seed."""
    assert order.seed is not None
    return derive_seed(order.seed, purpose) >> (64 - _SEED_BITS)


def declare(order: TrainingOrderOnWire, **more: Any) -> Terms:
    """Return the terms of a forest; `more` are those of one kind of forest."""
    return Terms(
        asker=order.asker,
        n_parties=len(order.data),
        forest=order.parameters,
        validates=order.validation is not None,
        stands_alone=order.alone,
        **more,
    )


def declared_forest(terms: Terms) -> ForestParameters:
    """Return the parameters of the forest that a run declared."""
    if terms.forest is None:
        raise ConfigurationError.stating(
            "the terms of the training name no forest; the coordinator must declare it"
        )
    return terms.forest


def count_forest(
    order: TrainingOrderOnWire,
    log: Sequence[Exchange],
    size: tuple[int, int],
    smallest: tuple[int, int | None],
) -> Figures:
    """Return the figures of a report.

    `size` is in rows and columns; `smallest` is the smallest side told and group of rows.
    """
    (n_rows, n_columns), (smallest_side, smallest_group) = size, smallest
    return {
        "rows": n_rows,
        "columns": n_columns,
        "trees": order.parameters.n_estimators,
        **count_traffic(log),
        "nodes_asked_about": sum(_open_nodes(exchange) for exchange in log),
        "smallest_leaf_allowed": order.parameters.growth_rules(n_rows, n_columns).min_rows_leaf,
        "smallest_side_told": smallest_side,
        "smallest_group_of_rows": smallest_group,
    }


def limited(epsilon: float) -> float | None:
    """Return epsilon as a figure; None if it is infinite."""
    return epsilon if math.isfinite(epsilon) else None


def _open_nodes(exchange: Exchange) -> int:
    return int(exchange.note.get("open_nodes", 0) or 0)
