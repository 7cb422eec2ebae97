"""In whose name a party answers: every request by every kind of asker under every rule."""

import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from msgspec.structs import replace as changed

from docs.book.pages import GENERATORS
from fedforest.errors import PolicyRefusal, PredictionForgotten, ProtocolError
from fedforest.runtime.membership.revocations import sign_revocation
from fedforest.runtime.messages.envelope import RunRequest, derive_part, derive_prediction
from fedforest.runtime.messages.orders import (
    AlignRows,
    AnyOrder,
    CompleteModel,
    DescribeTables,
    PredictLinear,
    PredictVertical,
    StandingName,
    TrainLinear,
)
from fedforest.runtime.messages.party_requests import (
    TO_PARTY,
    Asked,
    BeginRun,
    CountRows,
    DropModel,
    EndRun,
    InPrediction,
    KeepRevocations,
)
from fedforest.runtime.messages.results import (
    Alignment,
    HorizontalResult,
    LinearResult,
    ModelFile,
    Predictions,
    TablesDescribed,
    VerticalResult,
)
from fedforest.runtime.messages.roles import AlignmentRole
from fedforest.runtime.messages.signed_orders import read_signed, sign_request
from fedforest.runtime.party.policy import AskerProof
from fedforest.transport.authority import Authority, make_authority
from fedforest.transport.codec import decode, encode
from fedforest.transport.tls import Credentials
from tests.integration.federation_folder import DAY
from tests.runtime.partly_shared import PARTIES, horizontal_order, make_pattern, vertical_order
from tests.runtime.signing_users import SigningFederation, issue, signing_federation

GUIDE = Path(__file__).parents[4] / "docs" / "how-to" / "users.md"
DATA = dict.fromkeys(PARTIES[:2], "people")
RULES: tuple[AskerProof, ...] = get_args(AskerProof)
# Who asks -> whether the bank answers with asker_proof = vouched, signed, pinned. A party knows no
# roles: to it, vic (a viewer), sue (a service), sam (a scientist) and oda (an operator) are users.
ALWAYS, SIGNED, VOUCHED = (True, True, True), (True, True, False), (True, False, False)
NEVER = (False, False, False)
ANSWERED = {
    "nobody": VOUCHED,
    "vic, that the coordinator vouches for": VOUCHED,
    "sue, that the coordinator vouches for": VOUCHED,
    "sam, that the coordinator vouches for": VOUCHED,
    "oda, that the coordinator vouches for": VOUCHED,
    "vic, who signed": SIGNED,
    "sue, who signed": SIGNED,
    "sam, who signed": SIGNED,
    "oda, who signed": SIGNED,
    "ann, pinned and the owner, that the coordinator vouches for": NEVER,
    "ann, pinned and the owner, who signed": ALWAYS,
    "ann, pinned and the owner, by another key": NEVER,
    "bob, of another federation, who signed": NEVER,
    "ben, revoked, that the coordinator vouches for": NEVER,
    "ben, revoked, who signed": NEVER,
    "gus, revoked and pinned, who signed": NEVER,
}
# What the bank is asked in a user's name, and as what it is logged.
IN_NAMES = {
    "BeginRun, vertical": "BeginRun",
    "BeginRun, horizontal": "BeginRun",
    "BeginRun, linear": "BeginRun",
    "BeginRun, alignment": "BeginRun",
    "CountRows": "CountRows",
    "InPrediction": "BeginPrediction",
    "InPrediction, by ids": "BeginPrediction",
    "InPrediction, linear": "BeginPrediction",
    "FindPlaces": "FindPlaces",
    "DescribeData": "DescribeData",
    "GiveShare": "GiveShare",
}
IN_OWN_NAME = {
    "RunRequest",
    "EndRun",
    "DropModel",
    "WithdrawPart",
    "DropAlignment",
    "KeepRevocations",
}


class Honest(NamedTuple):
    """What a user ordered, and what the coordinator asked the bank then."""

    order: AnyOrder
    request: Any


class Asker(NamedTuple):
    """In whose name the bank is asked, and by whose key it was signed; None: by nobody's."""

    name: str
    key: Credentials | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """A federation, everybody who asks, and honest requests of every kind."""

    federation: SigningFederation
    askers: dict[str, Asker]
    honest: dict[str, Honest]

    def rule(self, proof: str) -> None:
        self.federation.demand_proof(proof)
        for party in DATA:
            with (self.federation.homes[party] / "policy.toml").open("a") as file:
                file.write('complete_model = true\nstanding_serving = "ids"\n')

    def is_answered(self, name: str, who: str) -> bool:
        """Ask the bank the same in the name of another asker, as a run or prediction of its own."""
        bank, asker = self.federation.parties["bank"], self.askers[who]
        request = _ask_for(self.honest[name], asker)
        try:
            bank.answer(encode(request))
        except PolicyRefusal:
            return False
        if isinstance(request, BeginRun):
            bank.answer(encode(EndRun(request.run, None)))
        return True


def _ask_for(honest: Honest, asker: Asker) -> Any:
    order, request = honest
    proof = b"" if asker.key is None else sign_request(order, asker.key)
    signed = read_signed(proof).id if proof else secrets.token_bytes(16)
    if isinstance(request, BeginRun):
        is_alignment = isinstance(request.role, AlignmentRole)
        run = derive_part(signed, "alignment") if is_alignment else signed
        part_of = signed.hex() if is_alignment else ""
        terms = changed(request.terms, asker=asker.name, part_of=part_of)
        return changed(request, run=run, terms=terms, proof=proof)
    if isinstance(request, InPrediction):
        assert request.begin is not None
        begin = changed(request.begin, asker=asker.name, proof=proof)
        return changed(request, prediction=derive_prediction(signed, 0), begin=begin)
    return changed(request, asker=asker.name, proof=proof)


def _record(federation: SigningFederation) -> dict[str, Honest]:
    """Have ann order one of everything; return what the bank was asked first for each."""
    asked: list[Any] = []
    answer = federation.parties["bank"].answer

    def listen(data: bytes) -> bytes:
        asked.append(decode(data, TO_PARTY))
        return answer(data)

    federation.hub.endpoints["bank"] = listen
    kept: dict[str, Honest] = {}

    def order(what: AnyOrder, kind: type, **names: type) -> Any:
        asked.clear()
        result = federation.ask_signed(what, kind)
        for name, request in names.items():
            first = next(each for each in asked if isinstance(each, request))
            kept[name.replace("_", ", ", 1).replace("_", " ")] = Honest(what, first)
        return result

    small = replace(vertical_order().parameters, n_estimators=2, max_depth=2)
    vertical = vertical_order(data=DATA, parameters=small, align=False, validation=None)
    model = order(vertical, VerticalResult, BeginRun_vertical=BeginRun).model
    rows = dict.fromkeys(DATA, "rows")
    horizontal = horizontal_order(data=rows, validation=None, alone=False)
    order(horizontal, HorizontalResult, BeginRun_horizontal=BeginRun)
    linear = TrainLinear(
        data=DATA,
        label="label",
        label_party="bank",
        is_regression=False,
        penalty=1.0,
        max_iter=1,
        tol=0.0,
    )
    linear_model = order(linear, LinearResult, BeginRun_linear=BeginRun).model
    align = AlignRows(data=DATA, method="psi", name="people", days=3)
    order(align, Alignment, BeginRun_alignment=BeginRun)
    whole = PredictVertical(data=DATA, model=model)
    order(whole, Predictions, CountRows=CountRows, InPrediction=InPrediction)
    ids = [[f"person {number}" for number in range(20)]]
    by_ids = PredictVertical(
        data=DATA, model=model, align=StandingName("people"), ids=ids, id_party="bank"
    )
    find = next(kind for kind in TO_PARTY if kind.__name__ == "FindPlaces")
    order(by_ids, Predictions, FindPlaces=find, InPrediction_by_ids=InPrediction)
    scores = PredictLinear(data=DATA, model=linear_model)
    order(scores, Predictions, InPrediction_linear=InPrediction)
    describe, give = (
        next(kind for kind in TO_PARTY if kind.__name__ == name)
        for name in ("DescribeData", "GiveShare")
    )
    order(DescribeTables(data=DATA), TablesDescribed, DescribeData=describe)
    order(CompleteModel(model=model), ModelFile, GiveShare=give)
    return kept


def _make_askers(federation: SigningFederation) -> dict[str, Asker]:
    pattern = federation.pattern
    keys = {name: issue(pattern, name) for name in ("vic", "sue", "sam", "oda", "ben", "gus")}
    federation.pin(keys["gus"])
    key = Authority.load(pattern.folder / "authority").key
    revoked = [sign_revocation(keys[name].identity, key) for name in ("ben", "gus")]
    federation.parties["bank"].answer(encode(KeepRevocations(revoked)))
    elsewhere = make_authority("elsewhere", DAY).issue("user", "bob", DAY)
    keys |= {"ann": federation.ann, "bob": elsewhere}
    askers = {}
    for who in ANSWERED:
        name = who.partition(",")[0]
        signs = who.endswith("signed")
        askers[who] = Asker(name, keys[name] if signs else None)
    askers["nobody"] = Asker("", None)
    askers["ann, pinned and the owner, by another key"] = Asker("ann", issue(pattern, "ann"))
    return askers


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    folder = tmp_path_factory.mktemp("matrix")
    with signing_federation(folder / "local", make_pattern(folder / "pattern")) as federation:
        made = Matrix(federation, {}, {})
        made.rule("pinned")
        made.honest.update(_record(federation))
        made.askers.update(_make_askers(federation))
        yield made


@pytest.mark.parametrize("name", IN_NAMES)
def test_every_asker_is_answered_or_refused_as_it_is_written_down_and_logged(
    matrix: Matrix, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedforest")
    for place, rule in enumerate(RULES):
        matrix.rule(rule)
        for who, answered in ANSWERED.items():
            caplog.clear()
            assert matrix.is_answered(name, who) == answered[place], (who, rule)
            told = [
                (record.getMessage(), vars(record)["fedforest_fields"])
                for record in caplog.records
                if record.getMessage() in {"asked", "refused by policy"}
            ]
            ((event, fields),) = told
            assert event == ("asked" if answered[place] else "refused by policy")
            assert fields["user"] == matrix.askers[who].name
            assert fields["what"] in {"run", "prediction", "export"}
            assert fields.get("kind") == (IN_NAMES[name] if answered[place] else None)


@pytest.mark.parametrize("name", IN_NAMES)
def test_who_is_no_asker_of_the_policy_is_refused_though_it_signed(
    matrix: Matrix, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedforest")
    matrix.rule("signed")
    with (matrix.federation.homes["bank"] / "policy.toml").open("a") as file:
        file.write('askers = ["ann"]\n')
    assert matrix.is_answered(name, "ann, pinned and the owner, who signed")
    caplog.clear()
    assert not matrix.is_answered(name, "sam, who signed")
    events = {record.getMessage(): vars(record) for record in caplog.records}
    assert events["refused by policy"]["fedforest_fields"]["asker"] == "sam"


def test_a_request_is_made_in_a_users_name_or_in_the_coordinators() -> None:
    kinds = {kind.__name__ for kind in TO_PARTY}
    in_names = {name.partition(",")[0] for name in IN_NAMES}
    assert in_names | IN_OWN_NAME == kinds
    assert set(IN_NAMES.values()) == {kind.__name__ for kind in get_args(Asked)}
    for kind in TO_PARTY:
        if kind.__name__ in IN_OWN_NAME:
            assert not {"proof", "asker"} & set(kind.__struct_fields__)


def test_in_its_own_name_a_coordinator_begins_nothing(matrix: Matrix) -> None:
    bank, model = matrix.federation.parties["bank"], matrix.honest["CountRows"].request.model
    begin = matrix.honest["InPrediction"].request
    for request in (
        RunRequest(b"1" * 16, 1, memoryview(b"")),
        DropModel(model),
        changed(begin, prediction=b"2" * 16, begin=None),
    ):
        with pytest.raises((ProtocolError, PredictionForgotten)):
            bank.answer(encode(request))


def test_the_guide_shows_the_tables_of_the_code() -> None:
    text = GUIDE.read_text()
    for name in ("askers of parties", "requests to parties"):
        assert f"<!-- generated: {name} -->" in text
    shown = {
        line.split("|")[1].strip(): tuple(cell.strip() == "yes" for cell in line.split("|")[2:-1])
        for line in GENERATORS["askers of parties"]().splitlines()[2:]
    }
    assert shown == {
        "anybody, as the coordinator says": ANSWERED["nobody"],
        "a user who signed, not pinned here": ANSWERED["sam, who signed"],
        "a pinned user, as the coordinator says": NEVER,
        "a pinned user, signed by another key": NEVER,
        "a pinned user, signed by the pinned key": ALWAYS,
    }
    for line in GENERATORS["requests to parties"]().splitlines()[2:]:
        name, in_name_of = (cell.strip() for cell in line.split("|")[1:3])
        assert (in_name_of == "the coordinator") == (name.strip("`") in IN_OWN_NAME)
