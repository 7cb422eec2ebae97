"""`labels=Encrypted()`: the forest of `labels="encoded"`, and votes through the label party."""

import pickle
import sys
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings

from fedforest import Encrypted, VerticalForestClassifier
from fedforest.errors import ConfigurationError, DamagedModelError, FederationError
from fedforest.runtime.disclosure.leakage import COORDINATOR, EVERY_PARTY, LABEL_PARTY
from fedforest.tree.table.frames import read_table
from tests.estimators.vertical_samples import (
    amounts,
    classifier,
    few_trees,
    labels,
    numbers,
    regressor,
)
from tests.protocol.vertical.cases import VerticalCase, small_cases, whole_file

pytestmark = few_trees


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(small_cases())
def test_the_forest_is_the_encoded_one_to_the_byte_and_predicts_as_it(case: VerticalCase) -> None:
    encoded, encrypted = case.vertical(), case.vertical(labels=Encrypted())
    assert whole_file(encrypted) == whole_file(encoded)
    assert encrypted.feature_importances_.tobytes() == encoded.feature_importances_.tobytes()
    rows = read_table(case.other_rows())
    assert encrypted._votes(rows).tobytes() == encoded._votes(rows).tobytes()
    assert np.array_equal(encrypted.apply(rows), encoded.apply(rows))
    for name in ("oob_score_", "oob_curve_", "oob_decision_function_", "oob_prediction_"):
        assert hasattr(encrypted, name) == hasattr(encoded, name)
        told, wanted = (getattr(forest, name, 0.0) for forest in (encrypted, encoded))
        assert np.array_equal(told, wanted, equal_nan=True)


def both(kind: Any = classifier, **parameters: Any) -> tuple[Any, Any]:
    """An encoded and an encrypted forest of the same seed, not fitted."""
    return kind(parties=3, **parameters), kind(parties=3, labels=Encrypted(), **parameters)


@pytest.mark.parametrize("prediction", ["auto", "one_round", "classical", 1, 3])
@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_every_way_to_predict_gives_the_votes_of_the_encoded_forest(
    prediction: Any, voting: str
) -> None:
    X = numbers()
    encoded, encrypted = both(prediction=prediction, voting=voting)
    wanted = encoded.fit(X, labels(X)).predict_proba(X[:40])
    assert np.array_equal(encrypted.fit(X, labels(X)).predict_proba(X[:40]), wanted)
    assert encrypted.prediction_cost(X[:40]).n_exchanges > encoded.prediction_cost(X[:40])[0]


@pytest.mark.parametrize("kind", [classifier, regressor])
def test_a_forest_grows_on_encrypted_as_the_encoded_one_does(kind: Any) -> None:
    X = numbers()
    y = labels(X) if kind is classifier else amounts(X)
    encoded, encrypted = both(kind, oob_score=True, n_estimators=3)
    for forest in (encoded, encrypted):
        forest.fit(X, y).set_params(warm_start=True, n_estimators=8).fit(X, y)
    assert encrypted.n_trees_ == 8
    assert whole_file(encrypted) == whole_file(encoded)
    assert np.array_equal(encrypted.oob_curve_, encoded.oob_curve_)


def test_early_stopping_keeps_as_many_trees() -> None:
    X = numbers()
    wishes = {"n_estimators": 30, "early_stopping": True, "n_iter_no_change": 3}
    encoded, encrypted = both(**wishes)
    n_trees = encoded.fit(X, labels(X)).n_trees_
    assert encrypted.fit(X, labels(X)).n_trees_ == n_trees < 30
    assert np.array_equal(encrypted.predict(X), encoded.predict(X))


@pytest.mark.parametrize("first", ["encoded", Encrypted()])
def test_a_warm_start_in_another_protection_is_refused(first: Any) -> None:
    X = numbers()
    forest = classifier(labels=first, warm_start=True).fit(X, labels(X))
    other = Encrypted() if first == "encoded" else "encoded"
    forest.set_params(labels=other, n_estimators=9)
    with pytest.raises(ConfigurationError, match="encrypted if those of earlier fits were"):
        forest.fit(X, labels(X))
    assert forest.n_trees_ == 6


def test_hundreds_of_classes_are_encrypted() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(800) % 400
    X = np.column_stack([y + rng.normal(0, 2, 800), rng.standard_normal(800)])
    settings: dict[str, Any] = {"n_estimators": 1, "max_depth": 2, "max_bins": 6, "parties": 2}
    encoded = VerticalForestClassifier(random_state=0, **settings).fit(X, y)
    encrypted = VerticalForestClassifier(random_state=0, labels=Encrypted(), **settings).fit(X, y)
    assert whole_file(encrypted) == whole_file(encoded)


def test_a_label_party_without_columns_decides_for_the_others() -> None:
    X, tables = numbers(), {"bank": numbers()[:, :2], "owner": numbers()[:, :0]}
    wishes: dict[str, Any] = {"label_party": "owner", "oob_score": True}
    tables["shop"] = X[:, 2:]
    encoded = classifier(**wishes).fit(tables, labels(X))
    encrypted = classifier(labels=Encrypted(), **wishes).fit(tables, labels(X))
    assert np.array_equal(encrypted.predict_proba(tables), encoded.predict_proba(tables))
    assert encrypted.oob_score_ == encoded.oob_score_


def test_the_coordinators_part_says_nothing_of_leaves_and_the_label_partys_does() -> None:
    X = numbers()
    encrypted = both()[1].fit(X, labels(X))
    model = encrypted._model
    assert not model.outline.has_leaves
    assert not model.outline.decrease.any()
    holders = [party for party, share in model.shares.items() if share.outline is not None]
    assert holders == [encrypted.label_party_]


def test_partial_forests_are_stored_with_leaves_at_the_label_party_and_predict_again() -> None:
    X = numbers()
    for encrypted, y in (
        (both()[1], labels(X)),
        (both(regressor)[1], amounts(X)),
    ):
        files = encrypted.fit(X, y).to_partial_forests()
        again = type(encrypted).from_partial_forests(files)
        assert isinstance(again.labels, Encrypted)
        assert np.array_equal(again.predict(X), encrypted.predict(X))
        assert np.array_equal(again.feature_importances_, encrypted.feature_importances_)
        assert pickle.loads(pickle.dumps(again)).predict(X).tolist() == again.predict(X).tolist()


def test_a_label_partys_file_without_leaves_is_refused() -> None:
    X = numbers()
    encrypted, encoded = (
        VerticalForestClassifier(n_estimators=2, random_state=0, parties=2, labels=how)
        for how in (Encrypted(), "encoded")
    )
    files = encrypted.fit(X, labels(X)).to_partial_forests()
    encoded_files = encoded.fit(X, labels(X)).to_partial_forests()
    for role in files:
        with pytest.raises((DamagedModelError, FederationError)):
            VerticalForestClassifier.from_partial_forests({**files, role: encoded_files[role]})


def test_the_report_says_that_only_the_label_party_reads_labels() -> None:
    X = numbers()
    for forest, y in ((both()[1], labels(X)), (both(regressor)[1], amounts(X))):
        forest.fit(X, y)
        report = forest.leakage_
        for who in (COORDINATOR, EVERY_PARTY):
            told = " ".join(report.about(who))
            assert "class number of every row" not in told
            assert "target of every row" not in told
            assert "gain of every split" not in told
        assert "the gain of every split" in " ".join(report.about(LABEL_PARTY))
        assert "encryption" in forest.privacy_spent_["protected"]


def test_without_the_extra_nothing_begins_and_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if ".homomorphic." in name or ".encrypted." in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rbcl", None)
    X = numbers()
    with pytest.raises(ConfigurationError, match=r"rbcl.*pip install \"fedforest\[encrypted"):
        regressor(labels=Encrypted()).fit(X, amounts(X))


def test_columns_of_words_and_rows_without_weight_give_the_encoded_forest() -> None:
    rng = np.random.default_rng(2)
    X = pandas.DataFrame(numbers(), columns=[f"n{k}" for k in range(numbers().shape[1])])
    X["city"] = rng.choice(["Bern", "Genf", "Köln", None], len(X))  # type: ignore[arg-type] # a gap
    weights = np.where(np.arange(len(X)) % 9 == 3, 0.0, 1.0 + np.arange(len(X)) % 3)
    for kind, y in ((classifier, labels(numbers())), (regressor, amounts(numbers()))):
        encoded, encrypted = both(kind, oob_score=True)
        for forest in (encoded, encrypted):
            forest.fit(X, y, sample_weight=weights)
        assert whole_file(encrypted) == whole_file(encoded)
        assert np.array_equal(encrypted.predict(X), encoded.predict(X))
        assert "which rows weigh nothing" in " ".join(encrypted.leakage_.about(EVERY_PARTY))


def test_a_class_without_weight_is_refused_and_the_fitted_forest_stays() -> None:
    X = numbers()
    forest = VerticalForestClassifier(
        n_estimators=2, random_state=0, labels=Encrypted(), parties=2, class_weight={"blue": 1.0}
    )
    before = forest.fit(X, labels(X)).predict(X)
    with pytest.raises(FederationError, match="class"):
        forest.set_params(class_weight={"blue": 0.0}).fit(X, labels(X))
    assert np.array_equal(forest.set_params(class_weight=None).predict(X), before)
