"""Shares of linear models come back from their files as they were."""

import numpy as np
import pytest

from fedforest.errors import ModelFileError
from fedforest.protocol.linear.coordinator import LinearTrained
from fedforest.protocol.linear.design import fit_design
from fedforest.protocol.linear.party import LinearShare
from fedforest.runtime.recovery.linear_files import (
    NO_COLUMNS,
    LinearIntercept,
    decode_intercept,
    decode_linear_share,
    encode_intercept,
    encode_linear_share,
)
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.table.frames import read_table

ABOUT: dict[str, JsonValue] = {
    "model": "0" * 32,
    "classes": {"dtype": "int64", "labels": [0, 1]},
}


def make_share() -> LinearShare:
    table = read_table({"age": [31.0, np.nan, 28.5, 40.0], "town": ["a", "b", "a", "c"]})
    design = fit_design(table)
    return LinearShare(design, np.arange(1.0, 1.0 + len(design.terms)) / 3.0)


def test_a_share_with_numbers_and_categories_is_the_same_again() -> None:
    share = make_share()
    stored = decode_linear_share(encode_linear_share(share, ABOUT))
    assert stored.share.design.names == share.design.names
    assert stored.share.design.terms == share.design.terms
    assert stored.share.design.is_categorical == share.design.is_categorical
    assert stored.share.coefficients.tobytes() == share.coefficients.tobytes()
    assert stored.classes == ABOUT["classes"]


def test_a_label_party_without_columns_keeps_its_classes() -> None:
    stored = decode_linear_share(encode_linear_share(NO_COLUMNS, ABOUT))
    assert stored.share.design.names == ()
    assert stored.classes == ABOUT["classes"]


def test_an_intercept_is_the_same_again_and_no_share() -> None:
    trained = LinearTrained(
        0.1, ("shop",), 3, has_converged=True, columns_per_party={"bank": 0, "shop": 2}, n_rows=4
    )
    data = encode_intercept("0" * 32, trained)
    assert decode_intercept(data) == LinearIntercept(0.1, ("bank", "shop"), ("shop",))
    with pytest.raises(ModelFileError):
        decode_linear_share(data)
