"""A user wants an order to fill records, logs and memory."""

from typing import Any

import msgspec
import pytest

from fedforest.errors import ConfigurationError
from fedforest.runtime.messages.orders import OptionChoice, ResumeRun, decode_order, encode_order
from tests.runtime.service_recordings import horizontal_order, vertical_order

LONG = "x" * 10**6
VERTICAL: dict[str, Any] = {
    "many parties": {"data": {f"party {number}": "rows" for number in range(10**5)}},
    "a long party": {"data": {LONG: "rows"}},
    "a long data set": {"data": {"bank": LONG}},
    "a long label": {"label": LONG},
    "a long label party": {"label_party": LONG},
    "a long weight": {"weight": LONG},
    "a long model": {"continues": LONG},
    "many class weights": {"class_weight": [(number, 1.0) for number in range(10**5)]},
    "a long class": {"class_weight": [(LONG, 1.0)]},
    "a long name": {"name": LONG},
}


@pytest.mark.parametrize("changes", VERTICAL.values(), ids=VERTICAL.keys())
def test_an_order_beyond_all_measure_is_refused_before_anything_is_kept(changes: Any) -> None:
    order = msgspec.structs.replace(vertical_order(), **changes)
    with pytest.raises(ConfigurationError) as caught:
        decode_order(encode_order(order))
    assert len(str(caught.value)) < 1000


def test_options_and_wishes_have_a_measure_as_well() -> None:
    for settings in ({"k": [1.0] * 10**5}, {LONG: 1}, {f"{n}": 1 for n in range(100)}):
        choice = OptionChoice("Masked", settings)  # type: ignore[arg-type] # each is one kind
        order = msgspec.structs.replace(horizontal_order(), aggregation=choice)
        with pytest.raises(ConfigurationError):
            decode_order(encode_order(order))
    with pytest.raises(ConfigurationError):
        decode_order(encode_order(ResumeRun(run="0" * 32, without=["x"] * 10**5)))
