"""Every wrong parameter is refused before anything is trained, and named."""

from typing import Any

import numpy as np
import pytest

from fedforest import GlobalDP, LocalDP, Masked, Ring, Shamir
from fedforest.errors import ConfigurationError
from fedforest.estimators.horizontal.options import read_options
from tests.estimators.horizontal_samples import classifier, owners, regressor
from tests.estimators.vertical_samples import amounts, labels, numbers

WRONG = [
    *[("n_estimators", value) for value in (0, -1, 2.5, "many", None, True)],
    *[("criterion", value) for value in ("squared_error", "mse", None)],
    *[("max_depth", value) for value in (0, 2.5, "deep")],
    *[("min_samples_split", value) for value in (1, 0.0, 1.5, "2")],
    *[("min_samples_leaf", value) for value in (0, 0.0, 1.5, None)],
    *[("min_weight_fraction_leaf", value) for value in (-0.1, 0.6, "0", None, True)],
    *[("min_impurity_decrease", value) for value in (-0.1, "0", None)],
    *[("max_features", value) for value in (0, 5, 1.5, "cube", -1)],
    *[("bootstrap", value) for value in (None, "yes", 1)],
    *[("max_samples", value) for value in (0, 1.5, "all")],
    *[("class_weight", value) for value in ("heavy", 3, [1, 2], "balanced_subsample")],
    *[("random_state", value) for value in (-1, 1.5, "seed", True)],
    *[("n_jobs", value) for value in (0, 1.5, "all")],
    *[("verbose", value) for value in (-1, "loud", None)],
    *[("feature_sampling", value) for value in ("level", None)],
    *[("voting", value) for value in ("loud", None)],
    *[("privacy", value) for value in ("local", 2.0, LocalDP, Masked())],
    *[("aggregation", value) for value in ("masked", None, Masked, 3, LocalDP(keep=0.9))],
    *[("participation", value) for value in (0, 0.0, -0.5, 1.5, "all", None, True, float("nan"))],
    *[("participation_scope", value) for value in ("level", None, 1)],
    *[("min_participants", value) for value in (0, -1, 2.5, "two", True, 4)],  # of three parties
    *[("transport", value) for value in ("grpc://somewhere", 3)],
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda value: str(value)[:25])
def test_a_wrong_parameter_is_named(name: str, value: Any) -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match=name):
        classifier(**{name: value}).fit(X, labels(X), party=owners())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"privacy": LocalDP(keep=0.9, p=0.1, q=0.9)}, "p must be larger than q"),
        ({"privacy": LocalDP(keep=1.5)}, "keep"),
        ({"privacy": GlobalDP()}, "needs epsilon, the guarantee of the whole training"),
        ({"privacy": GlobalDP(epsilon_query=1.0, epsilon=2.0), "max_depth": 3}, "exactly one"),
        ({"privacy": GlobalDP(epsilon_query=0.0)}, "epsilon_query must be"),
        ({"privacy": GlobalDP(epsilon=-1.0), "max_depth": 3}, "epsilon must be"),
        ({"privacy": GlobalDP(epsilon=1.0)}, "needs a max_depth"),
        (
            {"privacy": GlobalDP(epsilon_query=1.0), "bootstrap": True},
            "without replacement",
        ),
        ({"privacy": LocalDP(keep=0.9), "class_weight": "balanced"}, "Give a mapping from class"),
        ({"aggregation": Masked(k=3)}, "from 1 to 2"),
        ({"aggregation": Masked(k=0)}, "from 1 to 2"),
        (
            {"aggregation": Masked(), "min_participants": 1},
            "Masked needs 2 at least: a sum over one",
        ),
        ({"min_participants": 4}, "there are 3 parties"),
        ({"aggregation": Shamir(threshold=1)}, "threshold must be"),
        ({"aggregation": Shamir(threshold=5)}, "threshold must be"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    parameters: dict[str, Any], message: str
) -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match=message):
        classifier(**parameters).fit(X, labels(X), party=owners())


@pytest.mark.parametrize("aggregation", [Masked(), Ring(), Shamir(threshold=2)])
def test_one_party_has_nobody_to_hide_among(aggregation: Any) -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match="at least two parties"):
        classifier(aggregation=aggregation).fit(X, labels(X))


def test_sums_are_over_as_many_parties_as_demanded() -> None:
    X = numbers()
    party = np.arange(len(X)) % 9
    drawn = {"participation": 0.3, "n_estimators": 12, "max_depth": 2, "aggregation": Masked()}

    def sizes(**more: Any) -> set[float]:
        forest = classifier(**drawn, **more).fit(X, labels(X), party=party)
        return {step.participants for step in forest.fit_log_}

    assert min(sizes()) < 4 <= min(sizes(min_participants=4))
    assert read_options(classifier(), "classification").least == 1
    assert read_options(classifier(aggregation=Ring()), "classification").least == 2


def test_local_noise_is_for_classes_only() -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match="classification only"):
        regressor(privacy=LocalDP(keep=0.9)).fit(X, amounts(X))


def test_noise_on_targets_needs_their_bounds() -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match="needs target_bounds"):
        regressor(privacy=GlobalDP(epsilon_query=1.0)).fit(X, amounts(X))
    bounded = GlobalDP(epsilon_query=1.0, target_bounds=(0.0, 200.0))
    assert regressor(privacy=bounded).fit(X, amounts(X)).predict(X).shape == (len(X),)


@pytest.mark.parametrize("privacy", [LocalDP(keep=0.9), GlobalDP(epsilon_query=1.0)])
def test_weights_do_not_go_together_with_privacy(privacy: Any) -> None:
    X = numbers()
    forest = classifier(privacy=privacy)
    with pytest.raises(ConfigurationError, match=r"sample_weight .*Leave sample_weight=None"):
        forest.fit(X, labels(X), sample_weight=np.arange(1.0, len(X) + 1))
    forest.fit(X, labels(X), sample_weight=np.ones(len(X)))  # all the same: no weights


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"purple": 1.0}, "names 1 class"),
        ({"red": -1.0}, "numbers >= 0"),
        ({"red": "heavy"}, "numbers >= 0"),
    ],
)
def test_class_weights_fit_the_classes_and_errors_show_no_label(
    weight: dict[str, Any], message: str
) -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match=message) as caught:
        classifier(class_weight=weight).fit(X, labels(X))
    assert not any(word in str(caught.value) for word in ("red", "purple"))


def test_parameters_are_checked_again_before_predicting() -> None:
    X = numbers()
    forest = classifier().fit(X, labels(X))
    with pytest.raises(ConfigurationError, match="voting"):
        forest.set_params(voting="loud").predict(X)


def test_a_fit_that_fails_leaves_the_model_as_it_was() -> None:
    X = numbers()
    forest = classifier().fit(X, labels(X))
    before = forest.to_bytes()
    with pytest.raises(ConfigurationError):
        forest.set_params(participation=2.0).fit(X, labels(X))
    assert forest.set_params(participation=1.0).to_bytes() == before


@pytest.mark.parametrize("estimator", [classifier, regressor])
def test_what_a_random_state_may_be_is_said_in_full(estimator: Any) -> None:
    X = numbers()
    with pytest.raises(ConfigurationError, match=r"2\^63 - 1, None or a numpy.random.RandomState"):
        estimator(random_state=np.random.default_rng(0)).fit(X, amounts(X) > 0)
    for allowed in (None, 3, np.random.RandomState(0)):
        estimator(random_state=allowed, n_estimators=1).fit(X, amounts(X) > 0)


def test_targets_outside_the_declared_bounds_are_warned_of_and_moved_to_them() -> None:
    X = numbers()
    y = amounts(X)
    noisy = {"privacy": GlobalDP(epsilon_query=1e6, target_bounds=(95.0, 100.0)), "random_state": 0}
    with pytest.warns(UserWarning, match=r"Some targets lie outside target_bounds=\(95, 100\)"):
        forest = regressor(**noisy).fit(X, y)
    within = regressor(**noisy).fit(X, np.clip(y, 95.0, 100.0))
    assert forest.to_bytes() == within.to_bytes()


def test_bounds_of_targets_are_refused_where_there_are_classes() -> None:
    X = numbers()
    bounded = GlobalDP(epsilon_query=1.0, target_bounds=(0.0, 1.0))
    with pytest.raises(ConfigurationError, match=r"leave target_bounds=None"):
        classifier(privacy=bounded).fit(X, labels(X))


def test_noise_does_not_go_with_a_criterion_that_counts_from_zero() -> None:
    privacy = GlobalDP(epsilon_query=1.0, target_bounds=(0.0, 9.0))
    with pytest.raises(ConfigurationError, match="criterion='poisson' does not go together"):
        read_options(regressor(criterion="poisson", privacy=privacy), "regression")
    assert read_options(regressor(privacy=privacy), "regression").privacy == privacy
