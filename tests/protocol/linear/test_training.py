"""What training finds, in how many exchanges, and what it says on the way."""

import math
import struct
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from fedforest.errors import DataError, RemoteProtocolError
from fedforest.protocol.asking import Message
from fedforest.protocol.linear import messages
from fedforest.protocol.linear.labels import BinaryLabels, Labels, NumericLabels
from fedforest.protocol.linear.messages import ColumnsStandardised, Measured, Proposed
from fedforest.protocol.payloads import (
    MAY_LEAVE,
    Curvatures,
    DotProducts,
    PartialScores,
    Residuals,
    TableSize,
    TrainingLoss,
)
from fedforest.transport.codec import decode, encode
from tests.protocol.linear.federations import (
    Federation,
    correlated,
    divide,
    federation,
    numbers,
    two_classes,
)
from tests.protocol.named_replies import replies_to

X = correlated(300, 6)
LABELS: dict[str, Labels] = {"classes": two_classes(X), "numbers": numbers(X)}


@pytest.mark.parametrize("kind", LABELS)
@settings(max_examples=15)
@given(cuts=st.lists(st.integers(0, 6), max_size=4))
def test_any_division_of_the_columns_gives_the_same_coefficients(
    kind: str, cuts: list[int]
) -> None:
    alone = federation({"one": X}, LABELS[kind])
    divided = federation(divide(X, cuts), LABELS[kind])
    expected, found = alone.train(), divided.train()
    np.testing.assert_allclose(divided.coefficients(), alone.coefficients(), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.intercept, expected.intercept, rtol=1e-9)


@pytest.mark.parametrize("penalty", [1.0, 1e-4, 100.0])
def test_classes_are_fitted_as_by_scikit_learn(penalty: float) -> None:
    labels = LABELS["classes"]
    assert isinstance(labels, BinaryLabels)
    model = federation(divide(X, [2, 3]), labels, penalty=penalty)
    trained = model.train()
    reference = LogisticRegression(C=1 / penalty, solver="newton-cholesky", tol=1e-10)
    reference.fit(StandardScaler().fit_transform(X), labels.is_second)
    np.testing.assert_allclose(model.coefficients(), reference.coef_[0], atol=1e-8)
    np.testing.assert_allclose(trained.intercept, reference.intercept_[0], atol=1e-8)
    assert trained.has_converged


@pytest.mark.parametrize("penalty", [1.0, 1e-4, 100.0])
def test_numbers_are_fitted_as_by_scikit_learn(penalty: float) -> None:
    labels = LABELS["numbers"]
    assert isinstance(labels, NumericLabels)
    model = federation(divide(X, [2, 3]), labels, penalty=penalty)
    trained = model.train()
    reference = Ridge(alpha=penalty).fit(StandardScaler().fit_transform(X), labels.targets)
    np.testing.assert_allclose(model.coefficients(), reference.coef_, rtol=1e-9)
    np.testing.assert_allclose(trained.intercept, reference.intercept_, rtol=1e-9)


def test_more_columns_than_rows_and_more_steps_than_directions_are_kept_is_no_obstacle() -> None:
    wide = correlated(60, 200)
    labels = numbers(wide)
    model = federation(divide(wide, [100]), labels, tol=1e-8)
    trained = model.train()
    assert trained.n_iter > 32, "or else no directions were merged"
    assert trained.has_converged
    reference = Ridge(alpha=1.0).fit(StandardScaler().fit_transform(wide), labels.targets)
    np.testing.assert_allclose(model.coefficients(), reference.coef_, rtol=1e-4)


def test_repeated_columns_need_no_penalty() -> None:
    labels = LABELS["numbers"]
    once = federation({"a": X}, labels, penalty=0.0)
    twice = federation({"a": X, "b": X}, labels, penalty=0.0)
    assert once.train().has_converged
    assert twice.train().has_converged
    together = twice.coefficients().reshape(2, -1).sum(axis=0)
    np.testing.assert_allclose(together, once.coefficients(), rtol=1e-6)


def test_separable_classes_with_hardly_a_penalty_are_found_by_shortened_steps() -> None:
    labels = BinaryLabels(X[:, 0] + X[:, 5] > 0, np.ones(len(X)))
    model = federation(divide(X, [3]), labels, penalty=1e-6, tol=1e-6)
    trained = model.train()
    assert trained.has_converged
    [measured, proposed] = [
        sum(exchange.request == name for exchange in model.log.exchanges)
        for name in ("Measure", "Propose")
    ]
    assert proposed == trained.n_iter
    assert measured >= proposed


def test_a_step_costs_two_exchanges_for_classes_and_one_for_numbers() -> None:
    names: dict[str, list[str]] = {}
    for kind, labels in LABELS.items():
        model = federation(divide(X, [3]), labels)
        model.train()
        names[kind] = [exchange.request for exchange in model.log.exchanges]
    steps = names["numbers"].count("Propose")
    assert names["numbers"] == ["StandardiseColumns", "Measure", *["Propose"] * steps, "Settle"]
    assert 2 <= steps <= 4, "three columns at each party span everything after three steps"
    pairs = names["classes"].count("Propose") - 1
    assert names["classes"] == [
        *["StandardiseColumns", "Measure"],
        *["Propose", "Measure"] * pairs,
        *["Propose", "Settle"],
    ]


def test_one_party_takes_the_steps_of_newtons_method() -> None:
    model = federation({"one": X}, LABELS["numbers"], tol=1e-8)
    assert model.train().n_iter == 2, "one to solve, one to see that it is solved"


def test_parties_without_columns_are_asked_for_nothing_more() -> None:
    tables = {"labels": np.zeros((300, 0)), "a": X[:, :3], "b": X[:, 3:]}
    model = federation(tables, LABELS["numbers"])
    trained = model.train()
    assert trained.holders == ("a", "b")
    alone = federation({"one": X}, LABELS["numbers"])
    alone.train()
    np.testing.assert_allclose(model.coefficients(), alone.coefficients(), atol=1e-9)


def test_constant_targets_are_learned_at_once() -> None:
    labels = NumericLabels(np.full(300, 3.3), np.ones(300))
    trained = federation(divide(X, [3]), labels).train()
    assert trained.has_converged
    assert trained.intercept == pytest.approx(3.3)
    assert trained.n_iter <= 3


def test_weights_count_rows_and_are_shared_before_columns_are_standardised() -> None:
    copies = np.random.default_rng(2).integers(0, 3, len(X))
    labels = LABELS["classes"]
    assert isinstance(labels, BinaryLabels)
    weighted = BinaryLabels(labels.is_second, copies.astype(float))
    repeated = BinaryLabels(np.repeat(labels.is_second, copies), np.ones(copies.sum()))
    model = federation(divide(X, [3]), weighted, is_weighted=True)
    model.train()
    same = federation(divide(np.repeat(X, copies, axis=0), [3]), repeated)
    same.train()
    assert model.log.exchanges[0].request == "ShareWeights"
    np.testing.assert_allclose(model.coefficients(), same.coefficients(), atol=1e-9)


def test_training_ends_when_the_steps_are_used_up_and_says_so() -> None:
    trained = federation(divide(X, [3]), LABELS["classes"], max_iter=2).train()
    assert (trained.n_iter, trained.has_converged) == (2, False)


def test_parties_with_different_rows_are_refused_by_name() -> None:
    model = federation({"a": X, "b": X[:-1]}, LABELS["classes"])
    with pytest.raises(DataError, match="'a' has 300, 'b' has 299"):
        model.train()


def test_a_federation_without_columns_is_refused() -> None:
    model = federation({"a": np.zeros((300, 0))}, LABELS["classes"])
    with pytest.raises(DataError, match="no party has a column"):
        model.train()


@pytest.mark.parametrize("kind", LABELS)
def test_no_value_name_or_category_is_ever_sent(kind: str) -> None:
    planted = 1234.5678901234
    secret = pd.DataFrame({"salary": X[:, 0] + planted, "town": ["Timbuktu", "Rome", "Ur"] * 100})
    secret.loc[7, "salary"] = planted
    model = federation({"a": secret, "b": X[:, 1:3]}, LABELS[kind])
    model.train()
    said = b"".join(model.transport.sent + model.transport.received)
    assert len(said) > 10_000
    assert not any(text in said for text in (b"salary", b"town", b"Timbuktu", b"Rome"))
    values = [*secret["salary"], *X[:, 1], *X[:, 2], *secret["salary"].agg(["mean", "std"])]
    codes = [struct.pack(form, value) for value in values for form in ("<d", ">d", "<f", ">f")]
    assert not any(code in said for code in codes)


def test_the_signs_of_residuals_are_the_classes_as_the_module_admits() -> None:
    labels = LABELS["classes"]
    assert isinstance(labels, BinaryLabels)
    model = federation(divide(X, [3]), labels)
    model.train()
    first = decode(model.transport.received[2], (Measured,))
    assert isinstance(first, Measured)
    assert ((first.residuals.read(300) < 0) == labels.is_second).all()


@pytest.mark.parametrize("reply", replies_to(messages.REQUESTS))
def test_replies_hold_what_may_leave_a_party_and_nothing_else(reply: type[Message]) -> None:
    fields = msgspec.structs.fields(reply)
    assert fields
    assert [field.name for field in fields if field.type not in MAY_LEAVE] == []


def spoil(model: Federation, kind: type[Message], reply: Message, party: str) -> None:
    """Let a party answer something else where it should send a reply of this kind."""
    exchange = model.transport.inner.exchange

    def spoiled(requests: Mapping[str, bytes], *, may_lose: bool = False) -> dict[str, bytes]:
        replies = exchange(requests, may_lose=may_lose)
        if party in replies and is_kind(replies[party], kind):
            replies[party] = encode(reply)
        return replies

    model.transport.inner.exchange = spoiled  # type: ignore[method-assign]


def is_kind(data: bytes, kind: type[Message]) -> bool:
    return kind.__name__.encode() in data[:40]


def honest_reply(kind: type[Message], number: int) -> Any:
    """What a party of the usual federation replies first."""
    model = federation(divide(X, [3]), LABELS["classes"])
    model.train()
    replies = [data for data in model.transport.received if is_kind(data, kind)]
    return decode(replies[number], (kind,))


@pytest.mark.parametrize(
    ("kind", "party", "change"),
    [
        (Proposed, 1, {"scores": PartialScores.of(np.ones(299))}),
        (Proposed, 1, {"scores": PartialScores.of(np.full(300, np.nan))}),
        (Proposed, 1, {"products": DotProducts.of(np.ones(1))}),
        (Proposed, 1, {"products": DotProducts.of(np.full(2, np.inf))}),
        (Measured, 0, {"residuals": Residuals.of(np.ones(301))}),
        (Measured, 0, {"residuals": Residuals.of(np.full(300, np.inf))}),
        (Measured, 0, {"curvatures": Curvatures.of(np.full(300, -1.0))}),
        (Measured, 0, {"curvatures": Curvatures.of(np.zeros(300))}),
        (Measured, 0, {"loss": TrainingLoss(math.inf)}),
    ],
)
def test_a_bad_reply_is_refused_and_its_sender_named(
    kind: type[Message], party: int, change: dict[str, Any]
) -> None:
    model = federation(divide(X, [3]), LABELS["classes"])
    bad = msgspec.structs.replace(honest_reply(kind, party), **change)
    spoil(model, kind, bad, f"p{party}")
    with pytest.raises(RemoteProtocolError, match=f"p{party}"):
        model.train()


def test_a_reply_of_another_kind_is_refused() -> None:
    model = federation(divide(X, [3]), LABELS["classes"])
    spoil(model, Proposed, ColumnsStandardised(TableSize(300, 3)), "p1")
    with pytest.raises(RemoteProtocolError, match=r"p1.*not a valid Proposed"):
        model.train()
