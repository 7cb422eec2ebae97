"""Files of linear models: a party's share, with what it learned of its columns; an intercept.

Coefficients, means, scales and categories are the party's own, and its file never leaves it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedforest.protocol.linear.coordinator import LinearTrained
from fedforest.protocol.linear.design import Design, Term
from fedforest.protocol.linear.party import LinearShare
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.container import decode_model, encode_model

_SHARE, _INTERCEPT = "linear-share", "linear-intercept"
NO_COLUMNS = LinearShare(Design((), (), ()), np.zeros(0))  # of a party that only has labels


class StoredLinearShare(NamedTuple):
    """A party's share and, at the label party, what its classes are."""

    share: LinearShare
    classes: JsonValue


def encode_linear_share(share: LinearShare, about: Mapping[str, JsonValue]) -> bytes:
    """The one encoding of a party's share."""
    design = share.design
    described: dict[str, JsonValue] = {
        "about": about,
        "names": list(design.names),
        "is_categorical": list(design.is_categorical),
        "categories": [term.category for term in design.terms],
    }
    arrays = {
        "feature": np.array([term.feature for term in design.terms], np.int64),
        "mean": np.array([term.mean for term in design.terms], np.float64),
        "scale": np.array([term.scale for term in design.terms], np.float64),
        "coefficients": share.coefficients,
    }
    return encode_model(_SHARE, described, arrays)


def decode_linear_share(data: bytes) -> StoredLinearShare:
    """A party's share again; raises `ModelFileError` where it is another kind of file."""
    file = decode_model(data, expected_kind=_SHARE)
    about: Any = file.metadata
    terms = tuple(
        Term(int(feature), category, float(mean), float(scale))
        for feature, category, mean, scale in zip(
            file.arrays["feature"],
            about["categories"],
            file.arrays["mean"],
            file.arrays["scale"],
            strict=True,
        )
    )
    design = Design(tuple(about["names"]), terms, tuple(about["is_categorical"]))
    share = LinearShare(design, file.arrays["coefficients"].copy())
    kept = about["about"]
    return StoredLinearShare(share, kept["classes"])


class LinearIntercept(NamedTuple):
    """The part of a linear model with which the coordinator predicts."""

    intercept: float
    parties: tuple[str, ...]
    holders: tuple[str, ...]  # parties that have columns, in order


def encode_intercept(model: str, trained: LinearTrained) -> bytes:
    """The one encoding of the coordinator's share."""
    about: dict[str, JsonValue] = {
        "model": model,
        "parties": list(trained.columns_per_party),
        "holders": list(trained.holders),
    }
    return encode_model(_INTERCEPT, about, {"intercept": np.array([trained.intercept])})


def decode_intercept(data: bytes) -> LinearIntercept:
    """The coordinator's share again."""
    file = decode_model(data, expected_kind=_INTERCEPT)
    about: Any = file.metadata
    intercept = float(file.arrays["intercept"][0])
    return LinearIntercept(intercept, tuple(about["parties"]), tuple(about["holders"]))
