"""Who asked hears which words of the order a party refused, and nothing that is not there."""

from typing import Any

import pytest

from fedforest.errors import DataError, FederationError, MaskingError, PolicyRefusal, UnknownColumn
from fedforest.runtime.coordinator.refusal_texts import in_own_words
from fedforest.runtime.messages.orders import AlignRows, PredictVertical
from fedforest.transport.error_table import error_of_party, join_refusals, refuse
from tests.runtime.partly_shared import horizontal_order, vertical_order


def refused(error: FederationError, party: str = "shop") -> FederationError:
    """An error as it comes to the coordinator from a party."""
    return error_of_party(refuse(1, error, hides_names=True), party)


NO_DATA = DataError.of("data_set.unknown", data_set="people")
NO_COLUMN = UnknownColumn.of("data_set.no_column", data_set="people", column="label")
NO_USE = PolicyRefusal.of("policy.data_set", what="run", data_set="people")
HIDDEN = PolicyRefusal.of("policy.column", what="run", column="label")


@pytest.mark.parametrize(
    ("error", "order", "party", "text"),
    [
        (NO_DATA, vertical_order(), "shop", "there is no data set 'people' at this party"),
        (NO_DATA, AlignRows(data={"shop": "x"}), "shop", "there is no data set 'x' at this party"),
        (NO_COLUMN, vertical_order(), "bank", "data set 'people' has no column 'label' (label)"),
        (
            NO_COLUMN,
            horizontal_order(weight="kilos"),
            "clinic",
            "data set 'rows' has no column 'label' (label) or 'kilos' (weight)",
        ),
        (
            NO_USE,
            vertical_order(),
            "shop",
            "its policy does not allow this run: the data set 'people' is not for use",
        ),
        (
            HIDDEN,
            vertical_order(),
            "bank",
            "its policy does not allow this run: column 'label' (label) is not for use",
        ),
    ],
    ids=["data set", "alignment", "label", "label or weight", "policy", "hidden label"],
)
def test_words_of_the_order_stand_where_the_party_left_them_out(
    error: FederationError, order: Any, party: str, text: str
) -> None:
    told = in_own_words(refused(error, party), order)
    assert (type(told), told.party, str(told)) == (type(error), party, f"party {party!r}: {text}")


def test_a_column_that_a_model_needs_is_nobody_elses_word() -> None:
    error = DataError.of("data_set.lacks", data_set="people", own_columns="'income'")
    order = PredictVertical(data={"shop": "new"}, model="ab" * 16)
    assert str(in_own_words(refused(error), order)) == (
        "party 'shop': data set 'new' has no column (named in its log), which the model needs"
    )


def test_every_refusal_is_put_in_the_words_about_its_own_party() -> None:
    order = AlignRows(data={"bank": "customers", "shop": "baskets"})
    error = join_refusals([refused(NO_DATA, "bank"), refused(NO_DATA, "shop")])
    assert str(in_own_words(error, order)) == (
        "party 'bank': there is no data set 'customers' at this party; "
        "party 'shop': there is no data set 'baskets' at this party"
    )


@pytest.mark.parametrize("error", [MaskingError("no pin of 'bank'"), DataError("'x' is odd")])
def test_other_errors_stay_as_they_are(error: FederationError) -> None:
    told = refused(error)
    assert str(in_own_words(told, vertical_order())) == str(told)
