"""A vertical forest as one file for each role, bound together by the id of the model.

The coordinator's file knows no column and no class by name; a party's file knows nothing of other
parties; class names and class weights are with the label party. The id is a keyed digest of the
coordinator's file, so that a party cannot use it to test guesses about who split what. Neither
seeds nor votes are stored: with them, a reader could tell which rows each tree drew.
"""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from fedforest.errors import ConfigurationError, DamagedModelError, DataError, ModelFileError
from fedforest.estimators.inputs.declarations import stored_parameters
from fedforest.estimators.inputs.party_tables import ColumnDivision, Heading
from fedforest.estimators.vertical.model import VerticalModel
from fedforest.estimators.vertical.options import read_options
from fedforest.privacy.encrypted_labels import Encrypted
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.vertical.party import PartyModel
from fedforest.runtime.trainings.warm_start import CoordinatorModel
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.forests import (
    StoredOutline,
    StoredPartial,
    decode_outline,
    decode_partial,
    encode_forest,
    encode_outline,
    encode_partial,
)
from fedforest.tree.forest.partial import ForestOutline, union
from fedforest.tree.table.class_labels import pack_labels, unpack_labels
from fedforest.tree.table.frames import list_names

COORDINATOR = "coordinator"
_AT_THE_LABEL_PARTY = {"class_weight"}  # classes go by name

Estimator = TypeVar("Estimator", bound=BaseEstimator)
Stored = TypeVar("Stored")


def store_partial_forests(estimator: Any, model: VerticalModel) -> dict[str, bytes]:
    """Return the file of the coordinator and of every party."""
    if COORDINATOR in model.division.parties:
        raise ModelFileError(
            f"cannot store the model: a party is called {COORDINATOR!r}, which is another role; "
            "rename the party"
        )
    model_id = _identify(model.outline, model.salt)
    is_divided = model.division.shares is not None
    about: dict[str, JsonValue] = {
        "estimator": type(estimator).__name__,
        "parameters": _describe_parameters(estimator),
        "parties": list(model.division.parties),
        "label_party": model.label_party,
        "columns_of_table": model.division.n_features if is_divided else None,
        "salt": f"{model.salt:016x}",
        "model": model_id,
    }
    files = {COORDINATOR: encode_outline(model.outline, None, about)}
    for number, party in enumerate(model.division.parties):
        own: dict[str, JsonValue] = {"party": party, "model": model_id, "positions": None}
        if model.division.shares is not None:
            own["positions"] = list(model.division.shares[number])
        if party == model.label_party:
            own |= _describe_classes(estimator)
        share = model.shares[party]
        files[party] = encode_partial(share.partial, share.bins, own, share.outline)
    return files


def store_complete_model(
    estimator: Any, model: VerticalModel, consent: Mapping[str, bool]
) -> bytes:
    """Return one file with all splits, bins and column names, if every party consents."""
    forest, bins = model.unite(consent)
    about: dict[str, JsonValue] = {
        "estimator": type(estimator).__name__,
        "parameters": _describe_parameters(estimator),
        "parties": list(model.division.parties),
        "columns_per_party": [
            model.shares[party].bins.n_features for party in model.division.parties
        ],
    }
    return encode_forest(forest, bins, getattr(estimator, "classes_", None), about)


def restore(
    kind: type[Estimator], files: Mapping[str, bytes]
) -> tuple[Estimator, VerticalModel, dict[str, Any]]:
    """Return an estimator, its model and the fitted attributes that follow from the files."""
    if COORDINATOR not in files:
        raise ModelFileError(f"the file of the {COORDINATOR} is missing; pass those of all roles")
    outline = _read_outline(files[COORDINATOR], kind.__name__)
    about = outline.metadata
    parties = _read_parties(about)
    stored = {party: _read_partial(files, party, about) for party in parties}
    unknown = [role for role in files if role != COORDINATOR and role not in parties]
    if unknown:
        raise ModelFileError(
            f"there are files of {list_names(unknown)}, but the parties of the model are "
            f"{list_names(parties)}"
        )
    _check_union(outline.outline, stored)
    label_party = about.get("label_party")
    if not isinstance(label_party, str) or label_party not in parties:
        raise _damaged("its label party is none of its parties")
    division = _read_division(about.get("columns_of_table"), stored)
    n_trees = outline.outline.shape.n_trees
    is_encrypted = _check_leaves(outline.outline, stored, label_party)
    coordinator = CoordinatorModel(
        outline.outline,
        parties,
        n_trees,
        None,
        label_party=label_party,
        is_encrypted=is_encrypted,
    )
    shares = {
        party: PartyModel(share.bins, share.partial, outline=share.outline)
        for party, share in stored.items()
    }
    model = VerticalModel(coordinator, shares, division, _read_salt(about))
    labels = stored[label_party].metadata
    attributes = {
        "feature_importances_": division.join(model.importances()),
        **_read_classes(labels, outline.outline.n_classes),
    }
    given = {"parties": _name_parties(division), **_read_class_weight(labels)}
    return _make_estimator(kind, about, given), model, attributes


def _identify(outline: ForestOutline, salt: int) -> str:
    key = salt.to_bytes(8, "little")
    return blake2b(encode_outline(outline), key=key, digest_size=16).hexdigest()


def _describe_parameters(estimator: Any) -> dict[str, JsonValue]:
    """Parameters that name no column and no class."""
    names = stored_parameters(type(estimator)) - _AT_THE_LABEL_PARTY
    return {name: _plain(getattr(estimator, name)) for name in sorted(names)}


def _plain(value: Any) -> JsonValue:
    if isinstance(value, RandomizedResponse):
        return {"epsilon": float(value.epsilon)}
    if isinstance(value, Encrypted):
        return {"encrypted": True}
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    return int(value) if isinstance(value, Integral) else float(value)


def _describe_classes(estimator: Any) -> dict[str, JsonValue]:
    """Describe the classes, which only the label party stores."""
    if not hasattr(estimator, "classes_"):
        return {}
    described: dict[str, JsonValue] = {"classes": pack_labels(estimator.classes_)}
    weight = estimator.class_weight
    if not isinstance(weight, Mapping):
        return described | {"class_weight": weight}
    by_class = [float(weight.get(label, 1.0)) for label in estimator.classes_.tolist()]
    return described | {"class_weight": by_class}


def _read_outline(data: bytes, kind: str) -> StoredOutline:
    stored = _decode(decode_outline, data, COORDINATOR)
    if stored.metadata.get("estimator") != kind:
        raise ModelFileError(
            f"the files are not those of a {kind}; load them with the class that stored them"
        )
    if _identify(stored.outline, _read_salt(stored.metadata)) != stored.metadata.get("model"):
        raise _damaged("its id is not that of its trees")
    return stored


def _decode(decode: Callable[[bytes], Stored], data: Any, role: str) -> Stored:
    """Decode a role's file; errors say whose it is."""
    if not isinstance(data, bytes):
        raise ModelFileError(f"the file of {role!r} is no bytes; pass all of to_partial_forests()")
    try:
        return decode(data)
    except ModelFileError as error:
        raise type(error)(f"the file of {role!r}: {error}") from None


def _read_salt(about: Mapping[str, JsonValue]) -> int:
    text = about.get("salt")
    if not isinstance(text, str) or len(text) != 16 or set(text) - set("0123456789abcdef"):
        raise _damaged("its salt is missing")
    return int(text, 16)


def _read_parties(about: Mapping[str, JsonValue]) -> tuple[str, ...]:
    parties = about.get("parties")
    if not isinstance(parties, list) or not parties:
        raise _damaged("its parties are missing")
    names = tuple(party for party in parties if isinstance(party, str) and party)
    if not len(set(names)) == len(names) == len(parties) or COORDINATOR in names:
        raise _damaged("its parties are not distinct names")
    return names


def _read_partial(
    files: Mapping[str, bytes], party: str, about: Mapping[str, JsonValue]
) -> StoredPartial:
    if party not in files:
        raise ModelFileError(f"the file of party {party!r} is missing; pass those of all roles")
    stored = _decode(decode_partial, files[party], party)
    if stored.metadata.get("model") != about.get("model"):
        raise ModelFileError(
            f"the file of party {party!r} is of another model than the coordinator's; pass the "
            "files of one to_partial_forests()"
        )
    owner = stored.metadata.get("party")
    if owner != party:
        raise ModelFileError(f"the file given for party {party!r} is that of {owner!r}")
    if stored.partial.splits.cut.dtype != np.uint8:
        raise _damaged("its cuts are not bins")
    return stored


def _check_union(outline: ForestOutline, stored: Mapping[str, StoredPartial]) -> None:
    """Every node was split by the owner that the coordinator knows."""
    try:
        union(outline, [share.partial for share in stored.values()])
    except DataError as error:
        raise DamagedModelError(str(error)) from None


def _check_leaves(
    outline: ForestOutline, stored: Mapping[str, StoredPartial], label_party: str
) -> bool:
    """Tell whether leaves are with the label party; one role alone must have them."""
    holders = [party for party, share in stored.items() if share.outline is not None]
    if holders != ([] if outline.has_leaves else [label_party]):
        raise _damaged("what its leaves say is missing, or with the wrong role")
    of_leaves = stored[label_party].outline
    if of_leaves is not None and of_leaves.n_classes != outline.n_classes:
        raise _damaged("it has another number of classes")
    return bool(holders)


def _read_division(width: JsonValue, stored: Mapping[str, StoredPartial]) -> ColumnDivision:
    """Read how tables to predict are divided; `width` is None where they come by party."""
    all_bins = [share.bins for share in stored.values()]
    if width is None:
        headings = tuple(Heading(bins.names, bins.has_names) for bins in all_bins)
        return ColumnDivision(tuple(stored), headings, None)
    if type(width) is not int or not 0 < width < 2**31:
        raise _damaged("the number of its columns is out of range")
    names: dict[int, str] = {}
    shares: list[tuple[int, ...]] = []
    for share in stored.values():
        places = share.metadata.get("positions")
        if not isinstance(places, list) or len(places) != share.bins.n_features:
            raise _damaged("the places of a party's columns are missing")
        own = tuple(place for place in places if type(place) is int and 0 <= place < width)
        if len(own) != len(places):
            raise _damaged("the place of a column is out of range")
        names.update(zip(own, share.bins.names, strict=True))
        shares.append(own)
    if len(names) != sum(map(len, shares)):
        raise _damaged("a column has two owners")
    forgotten = frozenset(place for place in range(width) if place not in names)
    # a party without columns cannot tell whether the table had names
    has_names = all(bins.has_names for bins in all_bins if bins.n_features)
    texts = tuple(names.get(place, f"(column {place})") for place in range(width))
    return ColumnDivision(tuple(stored), (Heading(texts, has_names, forgotten),), tuple(shares))


def _name_parties(division: ColumnDivision) -> Any:
    """`parties` as a user could have given it."""
    if division.shares is None:
        return None
    return dict(zip(division.parties, map(list, division.shares), strict=True))


def _read_classes(labels: Mapping[str, JsonValue], n_classes: int) -> dict[str, Any]:
    if n_classes == 0:
        return {}
    classes = unpack_labels(labels.get("classes"))
    if len(classes) != n_classes:
        raise _damaged("it has another number of class labels")
    return {"classes_": classes, "n_classes_": n_classes}


def _read_class_weight(labels: Mapping[str, JsonValue]) -> dict[str, Any]:
    if "class_weight" not in labels:
        return {}
    weight = labels["class_weight"]
    if not isinstance(weight, list):
        return {"class_weight": weight}
    classes = unpack_labels(labels.get("classes")).tolist()
    if len(weight) != len(classes):
        raise _damaged("it has another number of class weights")
    return {"class_weight": dict(zip(classes, weight, strict=True))}


def _make_estimator(
    kind: type[Estimator], about: Mapping[str, JsonValue], given: Mapping[str, Any]
) -> Estimator:
    stored = about.get("parameters")
    estimator: Estimator = kind()
    names = stored_parameters(kind) - _AT_THE_LABEL_PARTY
    if not isinstance(stored, dict) or stored.keys() != names:
        raise _damaged("its parameters are incomplete")
    values: dict[str, Any] = {**stored, **given}
    labels = values["labels"]
    if labels == {"encrypted": True}:
        values["labels"] = Encrypted()
    elif isinstance(labels, dict):
        values["labels"] = RandomizedResponse(labels.get("epsilon"))  # type: ignore[arg-type] # checked next
    try:
        estimator.set_params(**values)
        read_options(estimator, kind._task)
    except (ConfigurationError, ValueError):
        raise _damaged("its parameters cannot be") from None
    return estimator


def _damaged(reason: str) -> DamagedModelError:
    return DamagedModelError(f"the stored forest is damaged: {reason}; get a fresh copy")
