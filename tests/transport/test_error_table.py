"""Which errors travel, what they say, and as what they are raised."""

import inspect
from typing import Any

import pytest

from fedforest import errors
from fedforest.error_texts import (
    FIELDS,
    PUBLIC_TEXT_OF_CLASS,
    TEXTS,
    Sight,
    fields_of,
    join,
    render,
)
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
    fill_in,
    join_refusals,
    refuse,
)
from fedforest.transport.frames import Refusal, decode_frame, encode_frame

SAME_AT_COORDINATOR = (ConfigurationError, DataError, BudgetExhausted, MaskingError, TransportError)
PLANTED = "planted-name-4711"  # a name, a value or a row of somebody's data


def every_class() -> list[type[FederationError]]:
    found = inspect.getmembers(errors, inspect.isclass)
    return [kind for _, kind in found if issubclass(kind, FederationError)]


def make(kind: type[FederationError], text: str) -> FederationError:
    is_named = issubclass(kind, PartyLost | RemoteProtocolError)
    return kind(text, "shop") if is_named else kind(text)


def every_error() -> list[FederationError]:
    plain = [make(kind, "something is wrong") for kind in every_class()]
    coded = [kind.of("run.unknown", party="shop", run="ab") for kind in every_class()]
    return [*plain, *coded]


def travel(error: BaseException, *, hides_names: bool) -> tuple[Refusal, bytes]:
    data = encode_frame(refuse(1, error, hides_names=hides_names))
    refusal = decode_frame(data)
    assert isinstance(refusal, Refusal)
    return refusal, data


@pytest.mark.parametrize("kind", every_class())
def test_nothing_of_a_plain_sentence_reaches_a_peer(kind: type[FederationError]) -> None:
    refusal, data = travel(make(kind, f"column {PLANTED} of row {PLANTED}"), hides_names=True)
    assert PLANTED.encode() not in data
    told = str(error_of_party(refusal, "bank"))
    assert told.startswith("party 'bank': ")
    assert PUBLIC_TEXT_OF_CLASS[kind.__name__] in told


@pytest.mark.parametrize("code", TEXTS)
@pytest.mark.parametrize("kind", every_class())
def test_no_name_value_or_row_in_any_code_of_any_class_reaches_a_peer(
    kind: type[FederationError], code: str
) -> None:
    hidden = {name for name in fields_of(code) if FIELDS[name].sight is not Sight.SHARED}
    fields: dict[str, Any] = dict.fromkeys(fields_of(code), 7)
    error = kind.of(code, party="shop", **{**fields, **dict.fromkeys(hidden, PLANTED)})
    assert (PLANTED in str(error)) == bool(hidden)  # the owner is told
    refusal, data = travel(error, hides_names=True)
    assert PLANTED.encode() not in data
    told = str(error_of_party(refusal, "bank"))
    assert PLANTED not in told
    assert "{" not in told
    assert join(render(code, dict.fromkeys(fields_of(code) - hidden, 7))) in told


def test_every_class_has_a_public_text_and_every_field_of_a_text_is_known() -> None:
    assert PUBLIC_TEXT_OF_CLASS.keys() == {kind.__name__ for kind in every_class()}
    assert {name for code in TEXTS for name in fields_of(code)} == FIELDS.keys()
    for name, field in FIELDS.items():
        assert (field.hidden == "") == (field.sight is Sight.SHARED), name


@pytest.mark.parametrize("kind", SAME_AT_COORDINATOR)
def test_an_error_of_a_party_keeps_its_class_and_names_the_party(
    kind: type[FederationError],
) -> None:
    refusal, _ = travel(kind.stating("the budget is spent"), hides_names=True)
    error = error_of_party(refusal, "bank")
    assert type(error) is kind
    assert str(error) == "party 'bank': the budget is spent"
    assert (error.party, error.code) == ("bank", "stated")


@pytest.mark.parametrize(
    "error",
    [
        ProtocolError.stating("wrong step"),
        LocalProtocolError.stating("wrong step"),
        RemoteProtocolError.stating("wrong step", party="coordinator"),
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


def test_a_party_cannot_fill_in_what_the_asker_named() -> None:
    forged = Refusal(1, "DataError", "data_set.unknown", {"data_set": PLANTED, "odd": 1})
    assert PLANTED not in str(error_of_party(forged, "bank"))


@pytest.mark.parametrize("code", ["data_set.unknown", "odd"])
def test_a_code_without_its_fields_or_without_meaning_is_still_told(code: str) -> None:
    told = error_of_party(Refusal(1, "DataError", code, {}), "bank")
    assert isinstance(told, DataError)
    assert "log" in str(told)


@pytest.mark.parametrize(
    "error", every_error(), ids=lambda error: f"{type(error).__name__} {error.code}"
)
def test_a_user_sees_the_errors_of_the_coordinator_as_they_are(error: FederationError) -> None:
    refusal, _ = travel(error, hides_names=False)
    raised = error_of_coordinator(refusal)
    assert (type(raised), str(raised), vars(raised)) == (type(error), str(error), vars(error))


class SecretError(DataError):
    pass


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("row 17"), KeyError("income"), SecretError("x"), MemoryError()]
)
def test_nothing_is_told_of_an_error_that_is_not_in_the_table(error: Exception) -> None:
    refusal = refuse(3, error, hides_names=False)
    assert refusal == Refusal(3, INTERNAL)
    at_coordinator = error_of_party(refusal, "bank")
    assert isinstance(at_coordinator, RemoteProtocolError)
    assert str(at_coordinator) == "party 'bank': internal error at the party, see its log"
    assert "see its log" in str(error_of_coordinator(refusal))


def test_an_unknown_kind_is_an_internal_error() -> None:
    strange = Refusal(1, "SystemExit", "stated", {"statement": "leave"})
    assert isinstance(error_of_party(strange, "bank"), RemoteProtocolError)


def test_long_texts_are_cut_to_what_a_frame_takes() -> None:
    for error in (DataError("x" * 10_000), DataError.stating("x" * 10_000)):
        for hides_names in (False, True):
            refusal = refuse(1, error, hides_names=hides_names)
            assert decode_frame(encode_frame(refusal)) == refusal


def refused(party: str, **given: str) -> FederationError:
    error = DataError.of("data_set.no_id", data_set="hidden")
    return fill_in(error_of_party(refuse(1, error, hides_names=True), party), given)


def test_what_the_asker_named_itself_is_filled_in_again() -> None:
    assert str(refused("bank")).startswith("party 'bank': data set (named in its log) has no id")
    told = refused("bank", data_set="customers", column="not in this text")
    assert str(told).startswith("party 'bank': data set 'customers' has no id column")
    assert (told.party, told.fields) == ("bank", {"data_set": "customers"})


def test_who_refuses_for_the_same_reason_is_named_together_and_advice_is_given_once() -> None:
    same = join_refusals([refused("bank"), refused("shop")])
    assert str(same).startswith("parties 'bank', 'shop': data set (named in its log) has no id")
    assert [error.party for error in same.refusals] == ["bank", "shop"]
    other = join_refusals([refused("bank", data_set="a"), refused("shop", data_set="b")])
    assert str(other) == (
        "party 'bank': data set 'a' has no id column, and rows are to be matched by ids; "
        "party 'shop': data set 'b' has no id column, and rows are to be matched by ids; "
        "its owner names one with `fedforest party data add --id COLUMN --replace`"
    )
