"""How coordinators ask and who is to blame for what."""

import pytest

from fedforest.errors import (
    ConfigurationError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
)
from fedforest.protocol.asking import Accepted, Message, answer, blame, check


class Greet(Message, frozen=True):
    """A request."""

    name: str


class Leave(Message, frozen=True):
    """Another."""


def test_a_rule_that_holds_is_nothing_and_a_broken_one_is_named() -> None:
    check(True, "never said")  # noqa: FBT003 - the rule itself
    with pytest.raises(ProtocolError, match="rows are missing"):
        check(False, "rows are missing")  # noqa: FBT003 - the rule itself


def test_a_broken_rule_is_the_fault_of_the_peer_that_is_named() -> None:
    with (
        pytest.raises(RemoteProtocolError, match="party 'bank': too short") as caught,
        blame("bank"),
    ):
        raise ProtocolError("too short")
    assert caught.value.party == "bank"


def test_the_first_to_be_blamed_stays_blamed() -> None:
    with pytest.raises(RemoteProtocolError) as caught, blame("coordinator"), blame("bank"):
        raise ProtocolError("too short")
    assert caught.value.party == "bank"


def test_a_mistake_of_our_own_is_blamed_on_nobody_else() -> None:
    with pytest.raises(LocalProtocolError, match="a bug here"), blame("bank"):
        raise LocalProtocolError("a bug here")


def test_errors_that_are_no_breach_of_protocol_pass_through() -> None:
    with pytest.raises(ConfigurationError, match="too many"), blame("bank"):
        raise ConfigurationError("too many")


def test_a_request_goes_to_its_handler() -> None:
    heard = []

    def greet(request: Greet) -> Accepted:
        heard.append(request.name)
        return Accepted()

    assert isinstance(answer({Greet: greet}, Greet("shop")), Accepted)
    assert heard == ["shop"]


def test_a_request_of_another_protocol_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="Leave") as caught:
        answer({Greet: lambda _: Accepted()}, Leave())
    assert caught.value.party == "coordinator"
