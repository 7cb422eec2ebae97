"""A coordinator asks parties in the name of a user who asked for something else, or for nothing.

The parties pin the user's key. Certificates help the coordinator nothing: it has the key of the
authority and makes what it likes.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as change

from fedforest.errors import FederationError, PolicyRefusal
from fedforest.protocol.asking import Message
from fedforest.protocol.vertical.prediction.messages import RouteRows
from fedforest.runtime.membership.pins import UserPins
from fedforest.runtime.messages.envelope import derive_part, derive_prediction
from fedforest.runtime.messages.orders import (
    AlignRows,
    AnyOrder,
    DescribeTables,
    PredictVertical,
    StandingName,
    TrainVertical,
)
from fedforest.runtime.messages.party_requests import (
    BeginPrediction,
    BeginRun,
    CountRows,
    DescribeData,
    FindPlaces,
    GiveShare,
    InPrediction,
)
from fedforest.runtime.messages.results import (
    Alignment,
    Predictions,
    TablesDescribed,
    VerticalResult,
)
from fedforest.runtime.messages.roles import AlignmentRole, HorizontalRole, RowChoice, VerticalRole
from fedforest.runtime.messages.signed_orders import (
    LONGEST_SECONDS,
    SignedOrder,
    read_signed,
    sign_request,
)
from fedforest.runtime.messages.terms import Terms
from fedforest.transport.authority import make_authority
from fedforest.transport.codec import decode, encode
from fedforest.transport.tls import Credentials
from tests.integration.federation_folder import DAY
from tests.integration.local_federation import make_party
from tests.runtime.partly_shared import PARTIES, make_pattern, vertical_order
from tests.runtime.service_recordings import kind_of
from tests.runtime.signing_users import SigningFederation, issue, signing_federation

DATA = dict.fromkeys(PARTIES[:2], "people")
PARAMETERS = replace(vertical_order().parameters, n_estimators=1, max_depth=2)
ORDER = vertical_order(data=DATA, parameters=PARAMETERS, align=False, validation=None)
OTHER = bytes([9]) * 16
BANK = "bank"


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[SigningFederation]:
    with signing_federation(tmp_path / "local", make_pattern(tmp_path / "pattern")) as federation:
        yield federation


def say(federation: SigningFederation, request: Message) -> bytes:
    return federation.parties[BANK].answer(encode(request))


def heard(federation: SigningFederation, order: AnyOrder, kind: type, wanted: type[Message]) -> Any:
    """What the bank is asked first of one kind, in an honest run or prediction of ann's."""
    bank, kept = federation.parties[BANK], []

    def listen(data: bytes) -> bytes:
        if kind_of(data) is wanted:
            kept.append(decode(data, (wanted,)))
        return bank.answer(data)

    federation.hub.endpoints[BANK] = listen
    federation.ask_signed(order, kind)
    federation.hub.endpoints[BANK] = bank.answer
    return kept[0]


def forget(federation: SigningFederation) -> None:
    """Have the bank's records of runs pruned, and its service begun anew."""
    federation.parties[BANK].close()
    shutil.rmtree(federation.homes[BANK] / "runs")
    shutil.rmtree(federation.homes[BANK] / "models")
    federation.parties[BANK] = make_party(federation.homes[BANK])


def test_a_user_that_asked_for_nothing_is_named_in_vain(federation: SigningFederation) -> None:
    """So is a user of a web token: the refusal says what is missing."""
    role, terms = VerticalRole(data="people"), Terms(asker="ann", n_parties=2)
    for request in (
        BeginRun(OTHER, role, terms),
        DescribeData("people", "ann"),
        DescribeData("people", "nobody"),
    ):
        with pytest.raises(PolicyRefusal, match=r"sign.*asker_proof.*only the coordinator's word"):
            say(federation, request)
    with pytest.raises(PolicyRefusal, match="not by a web token"):
        federation.ask(DescribeTables(data=DATA), TablesDescribed, user="ann")


def test_a_pinned_user_is_never_vouched_for_whatever_the_rules_say(
    federation: SigningFederation,
) -> None:
    federation.demand_proof("vouched")
    say(federation, DescribeData("people", "ben"))
    with pytest.raises(PolicyRefusal, match="only the coordinator's word"):
        say(federation, DescribeData("people", "ann"))


def test_a_certificate_that_the_coordinator_makes_itself_is_not_the_pinned_key(
    federation: SigningFederation,
) -> None:
    order = DescribeTables(data=DATA)
    forged = sign_request(order, issue(federation.pattern, "ann"))
    for rules in ("pinned", "vouched"):
        federation.demand_proof(rules)
        with pytest.raises(PolicyRefusal, match="ann is pinned there by another key"):
            say(federation, DescribeData("people", "ann", forged))
    federation.demand_proof("pinned")
    stranger = sign_request(order, issue(federation.pattern, "ben"))
    with pytest.raises(PolicyRefusal, match="the key of user ben must be pinned"):
        say(federation, DescribeData("people", "ben", stranger))
    for party in federation.parties:
        UserPins(federation.homes[party]).distrust("ann")
    with pytest.raises(PolicyRefusal, match="the key of user ann must be pinned"):
        say(federation, DescribeData("people", "ann", forged))


def test_a_run_is_begun_once_by_one_order(federation: SigningFederation) -> None:
    honest = heard(federation, ORDER, VerticalResult, BeginRun)
    say(federation, honest)  # repeated: it does nothing more
    with pytest.raises(PolicyRefusal, match="asked for something else"):
        say(federation, BeginRun(OTHER, honest.role, honest.terms, honest.proof))
    forget(federation)
    with pytest.raises(PolicyRefusal, match="carried out before"):
        say(federation, honest)


def test_a_prediction_is_begun_once_under_each_of_few_ids(federation: SigningFederation) -> None:
    model = federation.ask_signed(ORDER, VerticalResult)
    assert isinstance(model, VerticalResult)
    order = PredictVertical(data=DATA, model=model.model, lookahead=1)
    honest = heard(federation, order, Predictions, InPrediction)
    federation.parties[BANK].close()
    federation.parties[BANK] = make_party(federation.homes[BANK])  # it forgot the prediction
    with pytest.raises(PolicyRefusal, match="carried out before"):
        say(federation, honest)
    again = change(honest, prediction=OTHER)
    with pytest.raises(PolicyRefusal, match="asked for something else"):
        say(federation, again)


def altered_runs() -> dict[str, Callable[[BeginRun], BeginRun]]:
    def role(**changes: Any) -> Callable[[BeginRun], BeginRun]:
        return lambda asked: change(asked, role=change(asked.role, **changes))

    def terms(**changes: Any) -> Callable[[BeginRun], BeginRun]:
        return lambda asked: change(asked, terms=change(asked.terms, **changes))

    align = AlignmentRole(data="people", peers=("shop",))
    return {
        "another label": role(label="x0"),
        "a weight": role(weight="x0"),
        "another data set": role(data="people_measured"),
        "a continued model": role(continues="0" * 32),
        "chosen rows": role(rows=RowChoice(held_out=0.5, seed=3)),
        "another protocol": lambda asked: change(
            asked, role=HorizontalRole(data="people", label="label")
        ),
        "an alignment": lambda asked: change(asked, role=align),
        "smaller leaves": terms(forest=replace(PARAMETERS, min_samples_leaf=2)),
        "more trees": terms(forest=replace(PARAMETERS, n_estimators=2)),
        "noise": terms(label_epsilon=9.0),
        "fewer parties": terms(n_parties=1),
        "scores": terms(validates=True),
        "votes": terms(tells_votes=True),
        "a part": terms(part_of=OTHER.hex()),
        "another user": terms(asker="ben"),
    }


@pytest.mark.parametrize("how", altered_runs())
def test_a_run_is_begun_as_its_user_signed_it_or_not_at_all(
    federation: SigningFederation, how: str
) -> None:
    proof = sign_request(ORDER, federation.ann)
    role = VerticalRole(data="people", label="label")
    terms = Terms(asker="ann", n_parties=2, forest=PARAMETERS)
    honest = BeginRun(read_signed(proof).id, role, terms, proof)
    with pytest.raises(FederationError, match=r"proves nothing|is no part|not agreed on|no model"):
        say(federation, altered_runs()[how](honest))
    say(federation, honest)


def altered_signatures(ann: Credentials) -> dict[str, tuple[SignedOrder, str]]:
    signed = read_signed(sign_request(DescribeTables(data=DATA), ann))
    other = read_signed(sign_request(DescribeTables(data={BANK: "rows"}), ann))
    key = "not that of its certificate"
    return {
        "another order": (change(signed, order=other.order), key),
        "longer life": (change(signed, expires=signed.expires + 9), key),
        "another nonce": (change(signed, nonce=bytes(16)), key),
        "no signature": (change(signed, signature=b""), key),
        "another certificate": (change(signed, certificate=b"x"), "cannot be read"),
        "another federation": (change(signed, federation="other"), "for another federation"),
    }


@pytest.mark.parametrize(
    "how",
    [
        "another order",
        "longer life",
        "another nonce",
        "no signature",
        "another certificate",
        "another federation",
    ],
)
def test_what_was_signed_cannot_be_changed(federation: SigningFederation, how: str) -> None:
    signed, reason = altered_signatures(federation.ann)[how]
    with pytest.raises(PolicyRefusal, match=reason):
        say(federation, DescribeData("people", "ann", msgspec.msgpack.encode(signed)))


def test_an_order_for_another_federation_is_of_no_use_here(federation: SigningFederation) -> None:
    """Also if ann has the same key there, and that federation the same name."""
    for name, reason in (("clinics", "another federation"), ("tests", "not of this federation")):
        there = make_authority(name, DAY)
        ann = there.issue("user", "ann", DAY)
        federation.pin(ann)
        proof = sign_request(DescribeTables(data=DATA), ann)
        with pytest.raises(PolicyRefusal, match=reason):
            say(federation, DescribeData("people", "ann", proof))


def test_an_order_begins_nothing_before_or_after_its_time(federation: SigningFederation) -> None:
    now = time.time()
    for made, reason in ((now - 3700, "time is over"), (now + 900, "in the future")):
        proof = sign_request(DescribeTables(data=DATA), federation.ann, made)
        with pytest.raises(PolicyRefusal, match=reason):
            say(federation, DescribeData("people", "ann", proof))
    signed = read_signed(sign_request(ORDER, federation.ann))
    assert signed.expires - signed.made < LONGEST_SECONDS


def test_an_order_is_for_no_other_kind_of_request(federation: SigningFederation) -> None:
    model = federation.ask_signed(ORDER, VerticalResult)
    assert isinstance(model, VerticalResult)
    proof = sign_request(DescribeTables(data=DATA), federation.ann)
    for request in (
        CountRows(model.model, "people", None, "ann", proof),
        GiveShare(model.model, "ann", proof),
        DescribeData("rows", "ann", proof),
        InPrediction(
            OTHER,
            1,
            BeginPrediction(model.model, "people", None, None, "ann", proof=proof),
            memoryview(encode(RouteRows(0, 1, 1))),
        ),
    ):
        with pytest.raises(PolicyRefusal, match=r"asked for something else|complete_model"):
            say(federation, request)


def test_a_prediction_is_of_the_rows_and_the_model_that_were_signed(
    federation: SigningFederation,
) -> None:
    model = federation.ask_signed(ORDER, VerticalResult)
    assert isinstance(model, VerticalResult)
    order = PredictVertical(data=DATA, model=model.model, rows=[1, 2], lookahead=1)
    proof = sign_request(order, federation.ann)
    two = memoryview((1).to_bytes(4, "little") + (2).to_bytes(4, "little"))
    three = memoryview(bytes(two) + (3).to_bytes(4, "little"))
    begin = BeginPrediction(model.model, "people", two, None, "ann", proof=proof)
    for changes in (
        {"rows": three},
        {"rows": None},
        {"choice": RowChoice(held_out=0.2, seed=1)},
        {"part_of": model.model},
    ):
        with pytest.raises(PolicyRefusal, match="asked for something else"):
            say(
                federation,
                InPrediction(OTHER, 1, change(begin, **changes), memoryview(b"")),
            )


def test_an_order_without_data_sets_is_about_those_of_the_model_and_no_others(
    federation: SigningFederation,
) -> None:
    model = federation.ask_signed(ORDER, VerticalResult)
    assert isinstance(model, VerticalResult)
    order = PredictVertical(data={}, model=model.model)
    begun = heard(federation, order, Predictions, InPrediction)  # of the data of the training
    assert begun.begin.data == "people"
    proof = sign_request(order, federation.ann)
    signed = read_signed(proof)
    say(federation, CountRows(model.model, "people", None, "ann", proof))
    begin = BeginPrediction(model.model, "people", None, None, "ann", proof=proof)
    first = derive_prediction(signed.id, 0)
    for other in ("rows", "people_twice"):  # which have the columns of the model, too
        for request in (
            CountRows(model.model, other, None, "ann", proof),
            InPrediction(first, 1, change(begin, data=other), begun.payload),
            DescribeData(other, "ann", proof),
        ):
            with pytest.raises(PolicyRefusal, match="asked for something else"):
                say(federation, request)
    assert say(federation, InPrediction(first, 1, begin, begun.payload))


def test_an_order_without_data_sets_begins_no_run_and_describes_no_table(
    federation: SigningFederation,
) -> None:
    for order in (change(ORDER, data={}), DescribeTables(data={}), AlignRows(data={})):
        proof = sign_request(order, federation.ann)
        run, terms = read_signed(proof).id, Terms(asker="ann", n_parties=1)
        for request in (
            BeginRun(run, VerticalRole(data="people", label="label"), terms, proof),
            BeginRun(derive_part(run, "alignment"), AlignmentRole(data="people"), terms, proof),
            DescribeData("people", "ann", proof),
        ):
            with pytest.raises(PolicyRefusal, match="asked for something else"):
                say(federation, request)


def test_an_order_without_data_sets_finds_ids_in_the_data_of_its_alignment_only(
    federation: SigningFederation,
) -> None:
    for party in DATA:
        with (federation.homes[party] / "policy.toml").open("a") as file:
            file.write('standing_serving = "ids"\n')
    trained = federation.ask_signed(ORDER, VerticalResult)
    assert isinstance(trained, VerticalResult)
    federation.ask_signed(AlignRows(data=DATA, method="psi", name="known", days=3), Alignment)
    order = PredictVertical(
        data={},
        model=trained.model,
        align=StandingName("known"),
        ids=[["person 1", "person 2"]],
        id_party=BANK,
    )
    found = heard(federation, order, Predictions, FindPlaces)
    assert found.data == "people"
    with pytest.raises(PolicyRefusal, match="asked for something else"):
        say(federation, change(found, data="people_twice"))
    with pytest.raises(PolicyRefusal, match="asked for something else"):
        say(federation, change(found, ids=[["person 3", "person 2"]]))


def test_an_alignment_is_of_the_parties_and_for_the_purpose_that_were_signed(
    federation: SigningFederation,
) -> None:
    order = AlignRows(data=DATA, method="psi")
    proof = sign_request(order, federation.ann)
    signed = read_signed(proof)
    terms = Terms(asker="ann", n_parties=2, aligns=True, part_of=signed.id.hex())
    role = AlignmentRole(data="people", peers=("shop",), method="psi")
    for wrong in (
        change(role, peers=("clinic",)),
        change(role, peers=("shop", "clinic")),
        change(role, method="keyed-hash"),
        change(role, name="kept", days=30),
        change(role, label="label"),
    ):
        with pytest.raises(PolicyRefusal, match="asked for something else"):
            say(federation, BeginRun(OTHER, wrong, terms, proof))
    with pytest.raises(PolicyRefusal, match="asked for something else"):
        say(federation, BeginRun(OTHER, role, terms, proof))  # not the id that follows


def test_the_coordinator_takes_no_order_that_another_user_signed(
    federation: SigningFederation,
) -> None:
    """What it takes it can prove; what one user sends in the name of another it refuses."""
    data = sign_request(ORDER, federation.ann)
    with pytest.raises(FederationError, match="not signed by user ben"):
        federation.submit(data, VerticalResult, user="ben")
    federation.submit(data, VerticalResult)
    with pytest.raises(FederationError, match="begun a run already"):
        federation.submit(data, VerticalResult)
    assert isinstance(ORDER, TrainVertical)
