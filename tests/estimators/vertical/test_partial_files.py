"""Vertical forests as one file per role, and as a whole if everybody consents."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest import RandomizedResponse, VerticalForestClassifier, VerticalForestRegressor
from fedforest.errors import ConfigurationError, DamagedModelError, ModelFileError, PrivacyError
from fedforest.estimators.pooled import PooledForest
from fedforest.tree.files.forests import (
    decode_forest,
    decode_outline,
    decode_partial,
    encode_forest,
    encode_outline,
    encode_partial,
)
from tests.estimators.vertical_samples import (
    amounts,
    by_party,
    classifier,
    consent_of,
    forest_bytes,
    frame_labels,
    labels,
    mixed_frame,
    numbers,
    regressor,
)


def _frames() -> tuple[dict[str, pd.DataFrame], Any]:
    frame = mixed_frame()
    tables = {"bank": frame[["age", "income"]], "shop": frame[["city", "size", "visits"]]}
    return tables, np.array(["Alpha", "Bravo", "Charlie"])[frame_labels(frame)]


def test_a_forest_read_from_its_files_predicts_identically() -> None:
    tables, y = _frames()
    forest = classifier(
        label_party="shop", class_weight={"Alpha": 2.0}, voting="hard", max_depth=4
    ).fit(tables, y)
    again = VerticalForestClassifier.from_partial_forests(forest.to_partial_forests())
    assert again.predict(tables).tolist() == forest.predict(tables).tolist()
    assert again.predict_proba(tables).tolist() == forest.predict_proba(tables).tolist()
    assert again.apply(tables).tolist() == forest.apply(tables).tolist()
    assert again.classes_.tolist() == forest.classes_.tolist()
    assert again.classes_.dtype == forest.classes_.dtype
    for name in ("n_features_in_", "n_classes_", "parties_", "label_party_", "columns_by_party_"):
        assert getattr(again, name) == getattr(forest, name)
    assert again.feature_names_in_.tolist() == forest.feature_names_in_.tolist()
    assert again.feature_importances_.tolist() == forest.feature_importances_.tolist()
    assert again.get_params() == forest.get_params() | {
        "random_state": None,
        "class_weight": {"Alpha": 2.0, "Bravo": 1.0, "Charlie": 1.0},
    }
    assert again.to_partial_forests() == forest.to_partial_forests()


def test_a_regression_forest_is_stored_too() -> None:
    X = numbers()
    forest = regressor(parties=3).fit(X, amounts(X))
    again = VerticalForestRegressor.from_partial_forests(forest.to_partial_forests())
    assert again.predict(X).tolist() == forest.predict(X).tolist()
    assert again.fit(X, amounts(X)).predict(X).shape == (len(X),)


def test_a_divided_table_with_columns_that_nobody_holds_is_divided_alike_after_loading() -> None:
    frame = mixed_frame()
    forest = classifier(
        parties={"shop": ["visits", "city"], "bank": ["age"], "registry": []},
        labels=RandomizedResponse(4.0),
    ).fit(frame, frame_labels(frame))
    again = VerticalForestClassifier.from_partial_forests(forest.to_partial_forests())
    assert again.predict(frame).tolist() == forest.predict(frame).tolist()
    assert again.parties == {"shop": [5, 2], "bank": [0], "registry": []}
    assert again.labels == RandomizedResponse(4.0)
    renamed = frame.rename(columns={"income": "wealth"})  # nobody holds it
    assert again.predict(renamed).tolist() == forest.predict(frame).tolist()
    with pytest.raises(ValueError, match="unseen at fit time:\n- years"):
        again.predict(frame.rename(columns={"age": "years"}))


def test_the_coordinators_file_names_no_column_and_no_class() -> None:
    tables, y = _frames()
    files = classifier(class_weight={"Alpha": 2.0}).fit(tables, y).to_partial_forests()
    secret = ["Alpha", "Bravo", "age", "income", "city", "visits", "Lyon"]
    assert not [word for word in secret if word.encode() in files["coordinator"]]
    assert decode_outline(files["coordinator"]).metadata["parties"] == ["bank", "shop"]


def test_a_partys_file_knows_nothing_of_the_others() -> None:
    tables, y = _frames()
    forest = classifier(label_party="shop", class_weight="balanced").fit(tables, y)
    files = forest.to_partial_forests()
    foreign = ["shop", "city", "size", "visits", "Lyon", "Alpha", "balanced", "leaf_value", "owner"]
    assert not [word for word in foreign if word.encode() in files["bank"]]
    assert not [word for word in ("bank", "age", "income") if word.encode() in files["shop"]]
    assert b"Alpha" in files["shop"]
    assert decode_partial(files["bank"]).bins.names == ("age", "income")


def test_files_hold_no_seed() -> None:
    X = numbers()
    forest = classifier(random_state=123456789).fit(by_party(X), labels(X))
    assert not any(b"random_state" in file for file in forest.to_partial_forests().values())
    again = VerticalForestClassifier.from_partial_forests(forest.to_partial_forests())
    with pytest.raises(ConfigurationError, match="files hold no seed"):
        again.set_params(warm_start=True, n_estimators=9).fit(by_party(X), labels(X))


def test_the_same_training_gives_the_same_files_and_another_one_none_of_them() -> None:
    X = numbers()
    files, same, other = (
        classifier(random_state=seed).fit(by_party(X), labels(X)).to_partial_forests()
        for seed in (0, 0, 1)
    )
    assert files == same
    assert not set(files.values()) & set(other.values())


def test_the_id_that_binds_files_cannot_be_recomputed_without_the_coordinators_salt() -> None:
    """Else a party could test guesses about who split which node."""
    X = numbers()
    model = classifier(max_depth=1).fit(by_party(X), labels(X))._model
    ids = set()
    for seed in range(2):
        forest = classifier(max_depth=1, random_state=seed).fit(by_party(X), labels(X))
        forest._model = type(model)(
            model.coordinator, model.shares, model.division, forest._model.salt
        )
        ids.add(decode_partial(forest.to_partial_forests()["bank"]).metadata["model"])
    assert len(ids) == 2


def test_files_that_are_missing_swapped_or_of_other_models_are_named() -> None:
    X = numbers()
    files = classifier().fit(by_party(X), labels(X)).to_partial_forests()
    other = classifier(random_state=1).fit(by_party(X), labels(X)).to_partial_forests()
    wrong: dict[str, dict[str, Any]] = {
        "coordinator is missing": {"bank": files["bank"], "shop": files["shop"]},
        "party 'shop' is missing": {k: v for k, v in files.items() if k != "shop"},
        "file given for party 'bank' is that of 'shop'": {
            **files,
            "bank": files["shop"],
            "shop": files["bank"],
        },
        "party 'shop' is of another model": {**files, "shop": other["shop"]},
        "party 'bank' is of another model": {**files, "coordinator": other["coordinator"]},
        "files of 'clinic'": {**files, "clinic": files["bank"]},
        "file of 'coordinator': .*partial-forest": {**files, "coordinator": files["bank"]},
        "file of 'bank': .*forest-outline": {**files, "bank": files["coordinator"]},
        "file of 'bank' is no bytes": {**files, "bank": "text"},
        "file of 'shop'": {**files, "shop": b""},
    }
    for message, given_files in wrong.items():
        with pytest.raises(ModelFileError, match=message):
            VerticalForestClassifier.from_partial_forests(given_files)
    with pytest.raises(ModelFileError, match="not those of a VerticalForestRegressor"):
        VerticalForestRegressor.from_partial_forests(files)


@settings(max_examples=60)
@given(st.data())
def test_damaged_files_are_refused_by_name(data: st.DataObject) -> None:
    files = _FILES
    role = data.draw(st.sampled_from(sorted(files)))
    place = data.draw(st.integers(0, len(files[role]) - 1))
    damaged = bytearray(files[role])
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ModelFileError, match=role):
        VerticalForestClassifier.from_partial_forests({**files, role: bytes(damaged)})


_FILES = (
    classifier(n_estimators=2, max_depth=2)
    .fit(by_party(numbers()), labels(numbers()))
    .to_partial_forests()
)


def _with_outline(**about: Any) -> dict[str, bytes]:
    stored = decode_outline(_FILES["coordinator"])
    return {
        **_FILES,
        "coordinator": encode_outline(stored.outline, None, {**stored.metadata, **about}),
    }


def _with_partial(party: str, **about: Any) -> dict[str, bytes]:
    stored = decode_partial(_FILES[party])
    return {
        **_FILES,
        party: encode_partial(stored.partial, stored.bins, {**stored.metadata, **about}),
    }


@pytest.mark.parametrize(
    "files",
    [
        _with_outline(parties=["bank"]),
        _with_outline(parties=["bank", "bank"]),
        _with_outline(parties=["shop", "bank"]),
        _with_outline(parties="bank"),
        _with_outline(parties=[1, 2]),
        _with_outline(label_party="clinic"),
        _with_outline(label_party=None),
        _with_outline(label_party="shop"),
        _with_outline(salt="00"),
        _with_outline(salt="0" * 16),
        _with_outline(parameters={}),
        _with_outline(parameters=None),
        _with_outline(columns_of_table=-1),
        _with_outline(columns_of_table=4),
        _with_outline(columns_of_table="4"),
        _with_partial("bank", classes=None),
        _with_partial("bank", classes={"dtype": "int64", "labels": [1]}),
        _with_partial("bank", class_weight=[1.0]),
        _with_partial("bank", class_weight="heavy"),
    ],
)
def test_files_that_contradict_themselves_are_damaged(files: dict[str, bytes]) -> None:
    with pytest.raises(ModelFileError):
        VerticalForestClassifier.from_partial_forests(files)


@pytest.mark.parametrize("positions", [[0], [0, 0], [0, 4], [0, -1], [0, "1"], [0, 2], None])
def test_places_of_columns_must_fit_the_table(positions: Any) -> None:
    X = numbers()
    files = classifier(parties=2).fit(X, labels(X)).to_partial_forests()
    stored = decode_partial(files["party_0"])
    about = {**stored.metadata, "positions": positions}
    files["party_0"] = encode_partial(stored.partial, stored.bins, about)
    with pytest.raises(DamagedModelError):
        VerticalForestClassifier.from_partial_forests(files)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_estimators", 0), ("labels", {"epsilon": -1.0}), ("labels", {}), ("voting", [1]), ("x", 1)],
)
def test_parameters_of_a_file_are_checked_like_a_users(name: str, value: Any) -> None:
    parameters = decode_outline(_FILES["coordinator"]).metadata["parameters"]
    assert isinstance(parameters, dict)
    files = _with_outline(parameters={**parameters, name: value})
    with pytest.raises(DamagedModelError, match="parameters"):
        VerticalForestClassifier.from_partial_forests(files)


def test_a_party_called_like_the_other_role_cannot_be_stored() -> None:
    X = numbers()
    forest = classifier().fit({"coordinator": X}, labels(X))
    with pytest.raises(ModelFileError, match="rename the party"):
        forest.to_partial_forests()


def test_a_complete_model_needs_the_consent_of_every_party() -> None:
    X = numbers()
    forest = classifier().fit(by_party(X), labels(X))
    for consent in ({}, {"bank": True}, {"bank": True, "shop": False}, {"bank": True, "shop": 1}):
        with pytest.raises(PrivacyError, match="has not consented"):
            forest.complete_model(consent)  # type: ignore[arg-type] # 1 is no consent
        with pytest.raises(PrivacyError):
            forest.union(consent)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="party 'bank' has not consented"):
        forest.complete_model({"shop": True})
    with pytest.raises(ConfigurationError, match="'clinic', but the parties are 'bank', 'shop'"):
        forest.complete_model({"clinic": True})
    with pytest.raises(ConfigurationError, match="a mapping from every party to True"):
        forest.complete_model(True)  # type: ignore[arg-type] # noqa: FBT003 - the mistake itself


def test_a_complete_model_is_the_pooled_forest() -> None:
    tables, y = _frames()
    joined = pd.concat(tables.values(), axis=1)
    pooled = decode_forest(PooledForest(n_estimators=6).fit(joined, y).to_bytes())
    forest = classifier().fit(tables, y)
    whole = decode_forest(forest.complete_model(consent_of(forest)))
    assert encode_forest(whole.forest, whole.bins, whole.classes) == encode_forest(
        pooled.forest, pooled.bins, pooled.classes
    )
    assert encode_forest(whole.forest, whole.bins) == forest_bytes(forest)
    assert whole.metadata["columns_per_party"] == [2, 3]


@pytest.mark.parametrize("name", ["leakage_", "privacy_spent_", "fit_log_", "bytes_sent_"])
def test_what_only_a_training_tells_is_explained_where_it_is_missing(name: str) -> None:
    X = numbers()
    forest = classifier().fit(X, labels(X))
    again = VerticalForestClassifier.from_partial_forests(forest.to_partial_forests())
    assert not hasattr(again, name)
    with pytest.raises(AttributeError, match=f"'{name}': the model was read from a file"):
        getattr(again, name)
    with pytest.raises(AttributeError, match=f"'{name}'$"):
        getattr(classifier(), name)
    with pytest.raises(AttributeError, match=r"'no_such_name'$"):
        again.no_such_name  # noqa: B018 - it is the asking that counts
