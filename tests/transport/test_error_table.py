"""Which errors travel, what they say, and as what they are raised."""

import inspect

import pytest

from fedforest import errors
from fedforest.errors import (
    BudgetExhausted,
    ConfigurationError,
    DataError,
    FederationError,
    LocalProtocolError,
    MaskingError,
    PartyLost,
    ProtocolError,
    RemoteProtocolError,
    TransportError,
)
from fedforest.transport.error_table import (
    INTERNAL,
    error_of_coordinator,
    error_of_party,
    refuse,
)
from fedforest.transport.frames import decode_frame, encode_frame

SAME_AT_COORDINATOR = (ConfigurationError, DataError, BudgetExhausted, MaskingError, TransportError)


def every_error() -> list[FederationError]:
    made: list[FederationError] = []
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, PartyLost | RemoteProtocolError):
            made.append(kind("something is wrong", "shop"))
        elif issubclass(kind, FederationError):
            made.append(kind("something is wrong"))
    return made


@pytest.mark.parametrize("kind", SAME_AT_COORDINATOR)
def test_an_error_of_a_party_keeps_its_class_and_names_the_party(
    kind: type[FederationError],
) -> None:
    error = error_of_party(refuse(1, kind("the budget is spent"), hides_names=True), "bank")
    assert type(error) is kind
    assert str(error) == "party 'bank': the budget is spent"


@pytest.mark.parametrize(
    "error",
    [
        ProtocolError("wrong step"),
        LocalProtocolError("wrong step"),
        RemoteProtocolError("wrong step", "coordinator"),
    ],
)
def test_a_broken_protocol_names_the_party_that_says_so(error: ProtocolError) -> None:
    raised = error_of_party(refuse(1, error, hides_names=True), "bank")
    assert isinstance(raised, RemoteProtocolError)
    assert raised.party == "bank"
    assert str(raised) == "party 'bank': refused the request: wrong step"


def test_a_party_can_speak_for_itself_only() -> None:
    raised = error_of_party(refuse(1, PartyLost("gone", "shop"), hides_names=True), "bank")
    assert isinstance(raised, PartyLost)
    assert raised.party == "bank"


@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
def test_a_user_sees_the_errors_of_the_coordinator_as_they_are(error: FederationError) -> None:
    refusal = decode_frame(encode_frame(refuse(0, error, hides_names=False)))
    raised = error_of_coordinator(refusal)  # type: ignore[arg-type] # as it left
    assert (type(raised), str(raised), vars(raised)) == (type(error), str(error), vars(error))


class SecretError(DataError):
    pass


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("row 17"), KeyError("income"), SecretError("x"), MemoryError()]
)
def test_nothing_is_told_of_an_error_that_is_not_in_the_table(error: Exception) -> None:
    refusal = refuse(3, error, hides_names=False)
    assert (refusal.kind, refusal.text, refusal.party) == (INTERNAL, "", "")
    at_coordinator = error_of_party(refusal, "bank")
    assert isinstance(at_coordinator, RemoteProtocolError)
    assert str(at_coordinator) == "party 'bank': internal error at the party, see its log"
    assert "see its log" in str(error_of_coordinator(refusal))


@pytest.mark.parametrize("name", ["income", "client's debt", 'the "best" one', 'it\'s "odd"'])
def test_names_of_columns_stay_with_their_owner(name: str) -> None:
    error = DataError(f"column {name!r} was numeric in training, not text; don't change it")
    refusal = refuse(1, error, hides_names=True)
    assert refusal.text == (
        "column (named in its log) was numeric in training, not text; don't change it"
    )
    assert refuse(1, error, hides_names=False).text == str(error)


def test_an_unknown_kind_is_an_internal_error() -> None:
    refusal = refuse(1, DataError("x"), hides_names=True)
    strange = type(refusal)(refusal.request_id, "SystemExit", refusal.text)
    assert isinstance(error_of_party(strange, "bank"), RemoteProtocolError)


def test_long_texts_are_cut_to_what_a_frame_takes() -> None:
    refusal = refuse(1, DataError("x" * 10_000), hides_names=True)
    assert decode_frame(encode_frame(refusal)) == refusal
