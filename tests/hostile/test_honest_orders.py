"""Honest orders never meet a refusal of real parties, whose policies allow what they ask for.

Alignments by both methods and under every rule of ids, protections of labels and sums, scores and
baselines, warm starts and predictions, drawn by Hypothesis.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.vertical.order import EarlyStopping
from fedforest.runtime.messages.orders import (
    AlignRows,
    OptionChoice,
    PredictVertical,
    TrainHorizontal,
    TrainLinear,
    TrainVertical,
    Validation,
)
from fedforest.runtime.messages.results import (
    Alignment,
    HorizontalResult,
    LinearResult,
    Predictions,
    VerticalResult,
)
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.catalogue.ids import IdRules
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.local_federation import LocalFederation, local_federation
from tests.runtime.partly_shared import PARTIES, common_people, make_pattern

HONEST = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
NAMED = 'label_columns = ["label"]\n'
OPEN = "[default]\n"
NOISY = (
    f'[default]\n{NAMED}label_protection = "randomized_response"\nlargest_label_epsilon = 1000.0\n'
)
PROTECTED = '[default]\naggregations = ["masked", "ring", "shamir"]\nleast_participants = 2\n'
RULES = {
    "people": IdRules(),
    "people-folded": IdRules(case="fold", unicode="NFKC"),
    "people-once": IdRules(numbers="plain", duplicates="first"),
}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFederation]:
    pattern = make_pattern(tmp_path_factory.mktemp("pattern"))
    with local_federation(tmp_path_factory.mktemp("federation"), pattern) as federation:
        for home in (federation.homes[party] for party in PARTIES):
            for name, rules in RULES.items():
                entry = Entry(source="people.parquet", id=["id"], id_rules=rules)
                Catalogue(home).add(name, entry, replaces=True)
        yield federation


class Asking:
    """Asks orders of one federation, each run under an id of its own."""

    def __init__(self, federation: LocalFederation, policy: str) -> None:
        self._federation = federation
        for home in (federation.homes[party] for party in PARTIES):
            (home / "policy.toml").write_text(policy)

    def ask(self, order: Any, kind: type) -> Any:
        number = int.from_bytes(self._federation.next_run, "big") + 1
        return self._federation.ask(order, kind, number.to_bytes(16, "big"))


FOREST = st.builds(
    ForestParameters,
    n_estimators=st.integers(1, 4),
    max_depth=st.integers(1, 4),
    min_samples_leaf=st.sampled_from([5, 9, 0.05]),
    max_features=st.sampled_from([None, "sqrt", 1]),
    feature_sampling=st.sampled_from(["node", "tree"]),
    bootstrap=st.booleans(),
)
EVERYBODY = st.sampled_from(sorted(RULES)).map(lambda name: dict.fromkeys(PARTIES, name))
METHODS = st.sampled_from(["keyed-hash", "psi"])
HELD_OUT = st.sampled_from([None, Validation(0.25)])


@HONEST
@given(data=EVERYBODY, method=METHODS)
def test_no_alignment_is_refused(
    federation: LocalFederation, data: dict[str, str], method: Any
) -> None:
    told = Asking(federation, OPEN).ask(AlignRows(data=data, method=method), Alignment)
    assert told.n_common == len(common_people())


@HONEST
@given(
    parameters=FOREST,
    data=EVERYBODY,
    align=METHODS,
    label_epsilon=st.sampled_from([None, 2.0]),
    votes=st.sampled_from([{}, {"out_of_bag": True}, {"early_stopping": EarlyStopping(1, 0.1)}]),
    validation=HELD_OUT,
    alone=st.booleans(),
    weights=st.sampled_from([None, "balanced", [("yes", 2.0)]]),
    lookahead=st.sampled_from([None, 1, 3]),
)
def test_no_vertical_order_is_refused(
    federation: LocalFederation,
    parameters: ForestParameters,
    data: dict[str, str],
    align: Any,
    label_epsilon: float | None,
    votes: dict[str, Any],
    validation: Validation | None,
    alone: bool,
    weights: Any,
    lookahead: int | None,
) -> None:
    asking = Asking(federation, OPEN if label_epsilon is None else NOISY)
    is_scored = label_epsilon is None and validation is not None
    own_votes: dict[str, Any] = votes if parameters.bootstrap else {}
    order = TrainVertical(
        data=data,
        label="label",
        label_party="bank",
        parameters=parameters,
        seed=3,
        align=align,
        label_epsilon=label_epsilon,
        class_weight=weights,
        validation=validation if is_scored else None,
        alone=alone and is_scored,
        **own_votes,
    )
    trained = asking.ask(order, VerticalResult)
    predict = PredictVertical(data=data, model=trained.model, align=align, lookahead=lookahead)
    assert asking.ask(predict, Predictions) is not None


@HONEST
@given(
    parameters=FOREST,
    aggregation=st.sampled_from([None, Masked(), Masked(k=1), Ring(), Shamir(threshold=2)]),
    privacy=st.sampled_from(
        [None, LocalDP(epsilon=5.0), LocalDP(keep=0.9), GlobalDP(epsilon=20.0)]
    ),
    scope=st.sampled_from(["tree", "run"]),
    participation=st.sampled_from([1.0, 0.7]),
    validation=HELD_OUT,
    alone=st.booleans(),
)
def test_no_horizontal_order_is_refused(
    federation: LocalFederation,
    parameters: ForestParameters,
    aggregation: Any,
    privacy: Any,
    scope: Any,
    participation: float,
    validation: Validation | None,
    alone: bool,
) -> None:
    is_protected = aggregation is not None
    policy = NOISY if privacy is not None else PROTECTED if is_protected else OPEN
    has_scores = validation is not None and policy == OPEN
    order = TrainHorizontal(
        data=dict.fromkeys(PARTIES, "rows"),
        label="label",
        parameters=replace(parameters, bootstrap=False),
        seed=3,
        aggregation=OptionChoice.of(aggregation) if is_protected else None,
        privacy=None if privacy is None else OptionChoice.of(privacy),
        participation=participation,
        participation_scope=scope,
        validation=validation if has_scores else None,
        alone=alone and has_scores,
    )
    assert Asking(federation, policy).ask(order, HorizontalResult).n_rows > 0


@HONEST
@given(is_regression=st.booleans(), max_iter=st.integers(1, 9), penalty=st.sampled_from([0.0, 1.0]))
def test_no_linear_order_is_refused(
    federation: LocalFederation, is_regression: bool, max_iter: int, penalty: float
) -> None:
    data = dict.fromkeys(PARTIES, "people_measured" if is_regression else "people")
    order = TrainLinear(
        data=data,
        label="label",
        label_party="bank",
        is_regression=is_regression,
        penalty=penalty,
        max_iter=max_iter,
        tol=1e-4,
    )
    assert Asking(federation, OPEN).ask(order, LinearResult).n_rows > 0
