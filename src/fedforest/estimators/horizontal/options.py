"""The parameters of horizontal extra-trees in the form that their protocol uses.

This module checks combinations of parameters; the table of parameters checks each one alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from fedforest.errors import ConfigurationError
from fedforest.estimators.inputs.declarations import check_parameters
from fedforest.estimators.inputs.forest_parameters import read_forest_parameters
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.base import choose_least
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.tree.growth.parameters import ForestParameters

Protection: TypeAlias = Masked | Ring | Shamir | None
Privacy: TypeAlias = LocalDP | GlobalDP | None


@dataclass(frozen=True, slots=True)
class HorizontalOptions:
    """The settings of a training."""

    parameters: ForestParameters
    aggregation: Protection  # None: sums as they are
    privacy: Privacy
    participation: float
    participation_scope: str
    min_participants: int | None  # as many as sums need at least
    class_weight: Mapping[Any, Any] | str | None

    @property
    def is_regression(self) -> bool:
        """Whether the target is a number."""
        return self.parameters.task == "regression"

    @property
    def least(self) -> int:
        """Parties that take part in every sum, at least."""
        return choose_least(self.min_participants, is_protected=self.aggregation is not None)

    def check_input(self, n_parties: int, *, is_weighted: bool) -> None:
        """Refuse what the input does not allow; raises `ConfigurationError`."""
        if self.aggregation is not None:
            self.aggregation.check(n_parties)
        self._check_participants(n_parties)
        bounds = self.privacy.target_bounds if isinstance(self.privacy, GlobalDP) else None
        if bounds is not None and not self.is_regression:
            raise ConfigurationError(
                "GlobalDP(target_bounds=...) says between which numbers targets lie, but classes "
                "are no numbers; leave target_bounds=None, or train a regressor.",
                key=("privacy", "target_bounds"),
            )
        if self.privacy is not None and is_weighted:
            raise ConfigurationError(
                "sample_weight does not go together with privacy: noise covers what one row of "
                "weight 1 can change. Leave sample_weight=None, or set privacy=None.",
                key="sample_weight",
            )

    def _check_participants(self, n_parties: int) -> None:
        demanded = self.min_participants
        if demanded is not None and demanded < self.least:
            raise ConfigurationError(
                f"min_participants is {demanded}, but {type(self.aggregation).__name__} needs "
                f"{self.least} at least: a sum over one party is that party's own. Leave "
                "min_participants=None, or set aggregation='plain'.",
                key="min_participants",
            )
        if demanded is not None and demanded > n_parties:
            raise ConfigurationError(
                f"min_participants is {demanded}, but there are {n_parties} parties; demand at "
                f"most {n_parties}.",
                key="min_participants",
            )


def read_options(estimator: Any, task: str) -> HorizontalOptions:
    """Check all parameters of an estimator; raises `ConfigurationError`."""
    parameters = read_forest_parameters(estimator, task)
    class_weight = getattr(estimator, "class_weight", None)
    if estimator.compute is not None:
        raise ConfigurationError(
            "compute is for vertical forests; a horizontal party computes in its own process. "
            "Leave compute=None, or divide the rows among more parties.",
            key="compute",
        )
    if estimator.privacy is not None:
        _check_privacy(estimator.privacy, parameters)
        _check_class_weight(class_weight)
    demanded = estimator.min_participants
    return HorizontalOptions(
        parameters,
        None if isinstance(estimator.aggregation, str) else estimator.aggregation,
        estimator.privacy,
        float(estimator.participation),
        estimator.participation_scope,
        None if demanded is None else int(demanded),
        class_weight,
    )


def read_hard_votes(estimator: Any) -> bool:
    """Whether trees vote by their majority; checks what prediction uses, and nothing else."""
    check_parameters(estimator, "voting")
    return getattr(estimator, "voting", "soft") == "hard"


def _check_privacy(privacy: LocalDP | GlobalDP, parameters: ForestParameters) -> None:
    privacy.check(is_regression=parameters.task == "regression")
    parameters.check_noise()
    if isinstance(privacy, GlobalDP):
        privacy.check_depth(parameters.max_depth)


def _check_class_weight(class_weight: Any) -> None:
    """Refuse what would release true labels beside the noise."""
    if isinstance(class_weight, str):
        raise ConfigurationError(
            "class_weight='balanced' needs the exact number of rows of each class, which privacy "
            "does not release. Give a mapping from class to weight.",
            key="class_weight",
        )
