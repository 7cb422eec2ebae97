"""The form writes a run.toml that the reader of users' files understands as it was meant."""

import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ConfigurationError
from fedforest.estimators.run_files import order_run
from fedforest.runtime.client.run_files import read_run_text
from fedforest.runtime.trainings.registry import training_of
from fedforest.web.dashboard.run_form import DEFAULTS, quote, read_order, write_run_file

PARTIES = {"data.bank": "customers", "data.shop": "clients"}
VERTICAL = {**DEFAULTS, **PARTIES, "label": "left", "name": "churn"}
HORIZONTAL = {**VERTICAL, "protocol": "horizontal", "label": "left"}


def order_of(form: dict[str, str]) -> Any:
    return order_run(read_run_text(write_run_file(form)))


def test_the_form_as_it_opens_needs_only_data_sets_and_a_label() -> None:
    order = order_of({**DEFAULTS, **PARTIES, "label": "left"})
    assert order.data == {"bank": "customers", "shop": "clients"}
    assert order.validation.share == 0.2
    assert order.align == "keyed-hash"


@pytest.mark.parametrize(
    "form",
    [
        VERTICAL,
        {**VERTICAL, "protection": "RandomizedResponse", "label_epsilon": "1.5"},
        {**VERTICAL, "protection": "Encrypted", "label_party": "shop", "oob": "on"},
        {**VERTICAL, "task": "regression", "align": "", "max_depth": "4", "alone": ""},
        {**VERTICAL, "validation": "", "trees": "7", "min_samples_leaf": "9"},
        HORIZONTAL,
        {**HORIZONTAL, "aggregation": "Shamir", "privacy": "LocalDP", "privacy_epsilon": "0.5"},
        {**HORIZONTAL, "aggregation": "plain", "task": "regression"},
    ],
)
def test_an_earlier_run_fills_the_form_that_orders_it_again(form: dict[str, str]) -> None:
    order = order_of(form)
    told = msgspec.json.decode(msgspec.json.encode(order))
    again = order_of(read_order(told, training_of(order).protocol))
    assert again == order


@pytest.mark.parametrize("field", ["label", "name", "data.bank", 'data.ev"il', "label_party"])
@pytest.mark.parametrize("text", ['"\nalign = false #', "a\\", "\x7f\x00\x1b", "é😀", "]"])
def test_what_is_typed_stays_a_text_in_its_place(field: str, text: str) -> None:
    """It cannot become a key of the file; where such a text is not allowed, the reader says so."""
    try:
        file = read_run_text(write_run_file({**VERTICAL, field: text}))
    except ConfigurationError:
        return
    assert file.run.align == "keyed-hash"
    places = {"label": file.run.label.column, "name": file.run.name}
    found = places.get(field, file.run.parties.get(field.removeprefix("data."), text))
    assert found == text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_every_text_is_read_as_it_was_typed(text: str) -> None:
    assert tomllib.loads(f"key = {quote(text)}")["key"] == text


@pytest.mark.parametrize("text", ["x", "1\nseed = 3", "nan]", "0x10", "1_0", "٣"])
def test_what_is_no_number_is_refused_and_not_written_as_one(text: str) -> None:
    with pytest.raises(ConfigurationError):
        order_of({**VERTICAL, "trees": text})


def test_a_whole_file_takes_the_place_of_the_fields() -> None:
    text = write_run_file(VERTICAL)
    assert write_run_file({"text": text.replace("\n", "\r\n"), "label": "other"}) == text
