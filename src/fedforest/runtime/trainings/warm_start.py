"""Warm starts of vertical forests: the stored model, and the settings that must stay the same.

The estimator checks the rules before it sends a request, and the coordinator before it asks a
party: both compare the request with the earlier forest.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from fedforest.errors import ConfigurationError
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.messages.roles import RowChoice
from fedforest.tree.forest.partial import ForestOutline
from fedforest.tree.forest.routes import OwnerRoutes
from fedforest.tree.forest.votes import ForestVotes

ANEW = "Set warm_start=False to start anew."


@dataclass(frozen=True)
class CoordinatorModel:
    """The coordinator's part of a forest, to predict with it or to add trees to it."""

    outline: ForestOutline
    parties: tuple[str, ...]  # in the order of their columns
    n_trees_seeded: int  # trees whose seeds are used up, dropped ones included
    seed: int | None  # it reveals which rows each tree drew; None if read from a user's files
    rows: RowChoice | None = None  # the rows of the training: further trees need the same
    label_party: str = ""
    label_epsilon: float = math.inf  # spent on each label by all trainings of the forest
    is_encrypted: bool = False  # only the label party knows what leaves say

    @cached_property
    def routes(self) -> OwnerRoutes:
        """The trees, prepared for predictions."""
        return OwnerRoutes.of(self.outline)

    @cached_property
    def votes(self) -> ForestVotes:
        """The leaves, prepared for predictions."""
        return ForestVotes(self.outline)


class EarlierForest(Protocol):
    """The properties of an earlier forest that a warm start must match."""

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties, in the order of their columns."""

    @property
    def label_party(self) -> str:
        """The party whose labels the forest was trained with."""

    @property
    def n_trees_seeded(self) -> int:
        """The number of trees whose seeds are used up, dropped ones included."""

    @property
    def is_encrypted(self) -> bool:
        """Whether only the label party knows what leaves say."""


def count_new_trees(order: TrainVertical, before: EarlierForest) -> int:
    """Count the trees to grow; raises if the request does not fit the forest."""
    if tuple(order.data) != tuple(before.parties):
        raise ConfigurationError("a warm start goes on with the same parties in the same order")
    if order.label_party != before.label_party:
        raise ConfigurationError(
            f"label_party is {order.label_party!r}, but earlier fits had {before.label_party!r}; a "
            f"warm start goes on with the same parties. {ANEW}"
        )
    if order.encrypts_labels != before.is_encrypted:
        raise ConfigurationError(
            "a warm start goes on with labels encrypted if those of earlier fits were, and only "
            f"then. {ANEW}",
            key="labels",
        )
    n_trees = order.parameters.n_estimators
    if n_trees < before.n_trees_seeded:
        raise ConfigurationError(
            f"n_estimators={n_trees} must be larger or equal to the "
            f"{before.n_trees_seeded} trees of earlier fits when warm_start=True. {ANEW}"
        )
    return n_trees - before.n_trees_seeded


def check_growing_on(order: TrainVertical, before: CoordinatorModel) -> None:
    """Refuse a warm start that adds no trees or validates on other rows, before labels leave."""
    if not count_new_trees(order, before):
        raise ConfigurationError(
            f"the forest has {before.n_trees_seeded} trees already; to grow it on, order more "
            f"than n_estimators={order.parameters.n_estimators}"
        )
    share = 0.0 if before.rows is None else before.rows.held_out
    if order.validation is not None and order.validation.share != share:
        raise ConfigurationError(
            "a warm start is validated on rows that all trees have not seen, those of the "
            f"training before: a share of {share:g}, not {order.validation.share:g}"
        )
