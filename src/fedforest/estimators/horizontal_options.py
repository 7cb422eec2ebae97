"""The parameters of horizontal extra-trees, checked once; each mistake names the parameter."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

from fedforest.errors import ConfigurationError
from fedforest.estimators.class_weights import check_class_weight
from fedforest.estimators.validation import check_choice, check_transport, check_verbose
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.base import choose_least
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir, is_integer
from fedforest.tree.parameters import ForestParameters

Protection: TypeAlias = Masked | Ring | Shamir | None
Privacy: TypeAlias = LocalDP | GlobalDP | None

FOREST_PARAMETERS = (
    "n_estimators",
    "criterion",
    "max_depth",
    "min_samples_split",
    "min_samples_leaf",
    "min_weight_fraction_leaf",
    "min_impurity_decrease",
    "max_features",
    "feature_sampling",
    "bootstrap",
    "max_samples",
)
_CHOICES = {
    "voting": ("soft", "hard"),
    "participation_scope": ("tree", "step", "run"),
}


@dataclass(frozen=True, slots=True)
class HorizontalOptions:
    """Parameters in the form that the protocol uses."""

    parameters: ForestParameters
    hard_votes: bool
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
    def with_replacement(self) -> bool:
        """Whether a tree may draw a row twice; its label would then weigh twice on the noise."""
        return bool(self.parameters.bootstrap) and self.privacy is None

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
                "are no numbers; leave target_bounds=None, or train a regressor."
            )
        if self.privacy is not None and is_weighted:
            raise ConfigurationError(
                "sample_weight does not go together with privacy: noise covers what one row of "
                "weight 1 can change. Leave sample_weight=None, or set privacy=None."
            )

    def _check_participants(self, n_parties: int) -> None:
        demanded = self.min_participants
        if demanded is not None and demanded < self.least:
            raise ConfigurationError(
                f"min_participants is {demanded}, but {type(self.aggregation).__name__} needs "
                f"{self.least} at least: a sum over one party is that party's own. Leave "
                "min_participants=None, or set aggregation='plain'."
            )
        if demanded is not None and demanded > n_parties:
            raise ConfigurationError(
                f"min_participants is {demanded}, but there are {n_parties} parties; demand at "
                f"most {n_parties}."
            )


def read_options(estimator: Any, task: str) -> HorizontalOptions:
    """Check all parameters of an estimator; raises `ConfigurationError`."""
    values = {name: getattr(estimator, name) for name in FOREST_PARAMETERS}
    parameters = ForestParameters(task=task, **values)
    for name, choices in _CHOICES.items():
        if hasattr(estimator, name):
            check_choice(name, getattr(estimator, name), choices)
    check_verbose(estimator.verbose)
    class_weight = getattr(estimator, "class_weight", None)
    check_class_weight(class_weight)
    check_transport(estimator.transport)
    privacy = _read_privacy(estimator.privacy, parameters)
    if privacy is not None:
        _check_private_run(parameters, class_weight)
    return HorizontalOptions(
        parameters,
        getattr(estimator, "voting", "soft") == "hard",
        _read_aggregation(estimator.aggregation),
        privacy,
        _read_participation(estimator.participation),
        estimator.participation_scope,
        _read_min_participants(estimator.min_participants),
        class_weight,
    )


def _read_aggregation(aggregation: Any) -> Protection:
    if isinstance(aggregation, str) and aggregation == "plain":
        return None
    if isinstance(aggregation, Masked | Ring | Shamir):
        return aggregation
    raise ConfigurationError(
        f"aggregation is {aggregation!r}; it must be 'plain', Masked(k=...), Ring() or "
        "Shamir(threshold=...)."
    )


def _read_privacy(privacy: Any, parameters: ForestParameters) -> Privacy:
    if privacy is None:
        return None
    if not isinstance(privacy, LocalDP | GlobalDP):
        raise ConfigurationError(
            f"privacy is {privacy!r}; it must be None, LocalDP(...) or GlobalDP(...)."
        )
    privacy.check(is_regression=parameters.task == "regression")
    is_divided = isinstance(privacy, GlobalDP) and privacy.epsilon_total is not None
    if is_divided and parameters.max_depth is None:
        raise ConfigurationError(
            "privacy=GlobalDP(epsilon_total=...) is divided over the levels of the trees, so it "
            "needs a max_depth; or give epsilon_query."
        )
    return privacy


def _check_private_run(parameters: ForestParameters, class_weight: Any) -> None:
    """Refuse what would release true labels beside the noise, or make one label count twice."""
    if parameters.bootstrap and parameters.max_samples is None:
        raise ConfigurationError(
            "bootstrap=True with privacy draws the rows of a tree without replacement, or one "
            "label would count several times; without max_samples that is all rows. Set "
            "max_samples below 1.0, or bootstrap=False."
        )
    if isinstance(class_weight, str):
        raise ConfigurationError(
            "class_weight='balanced' needs the exact number of rows of each class, which privacy "
            "does not release. Give a mapping from class to weight."
        )


def _read_min_participants(demanded: Any) -> int | None:
    if demanded is None:
        return None
    if not is_integer(demanded) or demanded < 1:
        raise ConfigurationError(
            f"min_participants is {demanded!r}; it must be None or a whole number of parties."
        )
    return int(demanded)


def _read_participation(participation: Any) -> float:
    is_number = isinstance(participation, Real) and not isinstance(participation, bool)
    if not is_number or not 0.0 < float(participation) <= 1.0:
        raise ConfigurationError(
            f"participation is {participation!r}; it must be a share above 0 and up to 1."
        )
    return float(participation)
