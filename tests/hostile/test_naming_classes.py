"""A label party wants its user's estimator to fail, or to show names that nobody can read."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import DataError, RemoteProtocolError
from fedforest.protocol.asking import Message
from fedforest.runtime.messages.orders import ShowRun
from fedforest.runtime.messages.party_requests import EndRun
from fedforest.runtime.messages.results import RunDetails
from fedforest.runtime.trainings.class_names import check_own_classes
from tests.hostile.lying_parties import federation_with, let_lie
from tests.integration.processes import result_type
from tests.runtime.service_recordings import horizontal_order, linear_order, vertical_order

RUN = bytes(15) + b"\x05"
NESTED: Any = []
for _ in range(50):
    NESTED = [NESTED]


def named(labels: Any, dtype: Any = "string") -> Any:
    return {"dtype": dtype, "labels": labels}


HOSTILE = {
    "nested": named([NESTED, NESTED]),
    "a million labels": named([f"class {number}" for number in range(10**6)]),
    "more than there are": named(["a", "b", "c"]),
    "fewer than there are": named(["a"]),
    "twice the same": named(["a", "a"]),
    "none": None,
    "no labels": named(None),
    "numbers as text": named([1, 2]),
    "wide": named(["a", "b"], "U99999999"),
    "of no type": named(["a", "b"], "x" * 10**6),
    "long": named(["a", "b" * 10**6]),
    "control characters": named(["a", "\x1b[2Jb"]),
    "lines": named(["a", "b\nc"]),
    "marks of direction": named(["a", "\u202eb"]),
    "other fields": named(["a", "b"]) | {"more": 1},
}


def say(names: Any) -> Any:
    """End runs with these names of classes."""

    def lie(request: Message, honest: bytes) -> bytes:
        if not isinstance(request, EndRun):
            return honest
        done = msgspec.msgpack.decode(honest)
        return msgspec.msgpack.encode([done[0], names, *done[2:]])

    return lie


@pytest.mark.parametrize("names", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("make", [vertical_order, linear_order], ids=["vertical", "linear"])
def test_names_that_no_estimator_can_use_end_the_run_under_the_partys_name(
    tmp_path: Path, make: Any, names: Any
) -> None:
    order = make()
    with federation_with(tmp_path) as federation:
        let_lie(federation, "bank", say(names))
        with pytest.raises(RemoteProtocolError) as caught:
            federation.ask(order, result_type(order), RUN)
        details = federation.ask(ShowRun(run=RUN.hex()), RunDetails)
    assert caught.value.party == "bank"
    assert isinstance(details, RunDetails)
    assert details.state.state == "paused"
    assert "bank" in details.state.doing
    assert len(details.state.doing) < 1000


def test_a_party_without_labels_names_no_classes(tmp_path: Path) -> None:
    order = vertical_order()
    with federation_with(tmp_path) as federation:
        let_lie(federation, "shop", say(named(["a", "b"])))
        with pytest.raises(RemoteProtocolError, match="names classes") as caught:
            federation.ask(order, result_type(order), RUN)
    assert caught.value.party == "shop"


@pytest.mark.parametrize("label", ["a\nb", "\u202eb", "\x1b[2J", "x" * 5000])
def test_an_honest_label_party_hears_of_it_before_it_trains(label: str) -> None:
    with pytest.raises(DataError, match="name the class anew"):
        check_own_classes(np.array(["a", label]))


DECLARED = {
    "a million labels": {1: [f"class {number}" for number in range(10**6)]},
    "a long label": {1: ["a", "b" * 10**6]},
    "twice the same": {1: ["a", "a"]},
    "lines": {1: ["a", "b\nc"]},
    "marks of direction": {1: ["a", "\u202eb"]},
    "of no type": {0: "x" * 10**6},
}


def declare(changes: dict[int, Any]) -> Any:
    """Declare the table with other labels: their type, or their classes."""

    def lie(_: Message, honest: bytes) -> bytes:
        reply = msgspec.msgpack.decode(honest)
        if reply[0] == "TableDeclared":
            labels = reply[3]
            reply[3] = [changes.get(place, part) for place, part in enumerate(labels)]
        return msgspec.msgpack.encode(reply)

    return lie


@pytest.mark.parametrize("changes", DECLARED.values(), ids=DECLARED.keys())
def test_declared_classes_that_no_estimator_can_use_end_the_run_at_its_beginning(
    tmp_path: Path, changes: dict[int, Any]
) -> None:
    order = horizontal_order()
    with federation_with(tmp_path) as federation:
        let_lie(federation, "shop", declare(changes))
        with pytest.raises(RemoteProtocolError) as caught:
            federation.ask(order, result_type(order), RUN)
    assert caught.value.party == "shop"


def test_a_column_name_has_a_measure(tmp_path: Path) -> None:
    def lie(_: Message, honest: bytes) -> bytes:
        reply = msgspec.msgpack.decode(honest)
        if reply[0] == "TableDeclared":
            reply[2][0][0] = "x" * 10**6
        return msgspec.msgpack.encode(reply)

    order = horizontal_order()
    with federation_with(tmp_path) as federation:
        let_lie(federation, "shop", lie)
        with pytest.raises(RemoteProtocolError, match="not a valid TableDeclared") as caught:
            federation.ask(order, result_type(order), RUN)
    assert caught.value.party == "shop"
