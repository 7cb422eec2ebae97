"""A coordinator that sends nonsense: a party refuses with a named error and stays as it was."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import FederationError, MaskingError, RemoteProtocolError
from fedforest.protocol.aggregation.messages import (
    REQUESTS,
    AddShares,
    Delivery,
    Part,
    PassOn,
)
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.payloads import SealedShares
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.transport.codec import decode
from tests.protocol.aggregation.federations import Federation, federation, some_vectors
from tests.protocol.vertical.mutations import little_memory, mutate

FEW, MANY = 200, 5_000
GROUPS = [("p0", "p1", "p2", "p3"), ("p1", "p3"), ("p2", "p0", "p1")]
HEARD: list[tuple[Plug, str]] = [
    ("plain", "Count"),
    (Masked(), "Introduce"),
    (Masked(), "MeetPeers"),
    (Masked(), "TakeSeeds"),
    (Masked(k=1), "CountMasked"),
    (Ring(), "MeetPeers"),
    (Ring(), "PassOn"),
    (Shamir(3), "ShareOut"),
    (Shamir(3), "AddShares"),
]


def make_federation(plug: Plug) -> Federation:
    return federation(plug, some_vectors(4, lengths=(5, 3, 2)))


@dataclass(frozen=True, eq=False)
class Recording:
    """What party p1 was asked in an honest run, what it said, and how to get it back."""

    plug: Plug
    requests: list[bytes]
    replies: list[bytes]

    def steps_of(self, kind: str) -> list[int]:
        kinds = [type(decode(request, REQUESTS)).__name__ for request in self.requests]
        return [step for step, heard in enumerate(kinds) if heard == kind]

    def request(self, step: int) -> Any:
        return decode(self.requests[step], REQUESTS)

    def party_before(self, step: int) -> Callable[[bytes], bytes]:
        party = make_federation(self.plug).network.endpoints["p1"]
        for request, reply in zip(self.requests[:step], self.replies[:step], strict=True):
            assert party(request) == reply
        return party


@cache
def recording(plug: Plug) -> Recording:
    together = make_federation(plug).introduce()
    segments = [together.segment(b"q%d" % place, group) for place, group in enumerate(GROUPS)]
    together.gather(1, segments)
    together.gather(2, segments[::-1])
    sent = zip(together.network.requests, together.network.replies, strict=True)
    heard = [(requests["p1"], replies["p1"]) for requests, replies in sent if "p1" in requests]
    return Recording(plug, [request for request, _ in heard], [reply for _, reply in heard])


def assert_refuses_mutants(plug: Plug, kind: str, n_mutants: int) -> None:
    """Mutants are refused by name or are requests in their own right; refusals change nothing."""
    recorded = recording(plug)
    steps = recorded.steps_of(kind)
    rng = np.random.default_rng(17)
    n_refused = sum(attack(recorded, step, n_mutants // len(steps), rng) for step in steps)
    assert n_refused > n_mutants // 4


def attack(recorded: Recording, step: int, n_mutants: int, rng: np.random.Generator) -> int:
    party, n_refused = recorded.party_before(step), 0
    for _ in range(n_mutants):
        mutant = mutate(recorded.requests[step], rng)
        try:
            party(mutant)
        except FederationError as refusal:
            assert_names_somebody(refusal)
            n_refused += 1
        else:  # a request that could have been meant, or that was only written differently
            party = recorded.party_before(step)
    for request, reply in zip(recorded.requests[step:], recorded.replies[step:], strict=True):
        assert party(request) == reply
    return n_refused


def assert_names_somebody(refusal: FederationError) -> None:
    """The coordinator; or the party whose key or seal is not what it should be."""
    if isinstance(refusal, MaskingError):
        assert "party '" in str(refusal)
    else:
        assert isinstance(refusal, RemoteProtocolError)
        assert refusal.party == "coordinator"


@pytest.mark.parametrize(("plug", "kind"), HEARD, ids=str)
def test_a_party_survives_mutated_requests(plug: Plug, kind: str) -> None:
    with little_memory():
        assert_refuses_mutants(plug, kind, FEW)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("plug", "kind"), HEARD, ids=str)
def test_a_party_survives_many_mutated_requests(plug: Plug, kind: str) -> None:
    with little_memory():
        assert_refuses_mutants(plug, kind, MANY)


def refuse(plug: Plug, kind: str, reason: str, **changes: Any) -> RemoteProtocolError:
    """Change fields of an honest request; the honest one is answered afterwards."""
    together = make_federation(plug)
    recorded = recording(plug)
    step = recorded.steps_of(kind)[0]
    for request in recorded.requests[:step]:
        together.network.endpoints["p1"](request)
    request = recorded.request(step)
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        together.parties["p1"].handle(msgspec.structs.replace(request, **changes))
    assert together.network.endpoints["p1"](recorded.requests[step]) == recorded.replies[step]
    return caught.value


def ring_request() -> PassOn:
    recorded = recording(Ring())
    request = recorded.request(recorded.steps_of("PassOn")[0])
    assert isinstance(request, PassOn)
    return request


@pytest.mark.parametrize("n_bytes", [0, 1, 23, 25, 32])
def test_the_first_of_a_ring_refuses_numbers_that_are_not_as_many_as_its_own(n_bytes: int) -> None:
    request = ring_request()
    assert [part.participants[0] for part in request.parts] == ["p1"]
    totals = (memoryview(bytes(n_bytes)),)
    assert refuse(Ring(), "PassOn", "total of the ring", totals=totals).party == "coordinator"


def test_a_ring_has_one_total_for_every_part_and_one_place_for_a_party() -> None:
    request = ring_request()
    refuse(Ring(), "PassOn", "not one total", totals=())
    refuse(Ring(), "PassOn", "not one total", totals=request.totals * 2)
    elsewhere = Part(("p0", "p1"), memoryview(b"q1"))
    refuse(
        Ring(),
        "PassOn",
        "different places",
        parts=(*request.parts, elsewhere),
        totals=request.totals * 2,
    )


def added_shares() -> AddShares:
    recorded = recording(Shamir(3))
    request = recorded.request(recorded.steps_of("AddShares")[0])
    assert isinstance(request, AddShares)
    return request


def changed_delivery(**changes: Any) -> tuple[Delivery, ...]:
    first, *rest = added_shares().deliveries
    assert first.is_returned
    return (msgspec.structs.replace(first, **changes), *rest)


def test_deliveries_of_shares_that_cannot_be_are_refused() -> None:
    first = added_shares().deliveries[0]
    for reason, deliveries in (
        ("not given out", ()),
        ("not given out", added_shares().deliveries[1:]),
        ("not one share", changed_delivery(sealed=first.sealed[1:])),
        ("not one share", changed_delivery(sealed=(*first.sealed, first.sealed[0]))),
        ("shares: 41 bytes", changed_delivery(zeros=memoryview(bytes(41)))),
        ("not in the field", changed_delivery(zeros=memoryview(b"\xff" * 40))),
    ):
        refuse(Shamir(3), "AddShares", reason, deliveries=deliveries)
    refuse(Shamir(3), "AddShares", "not given out", step=2)


def test_shares_are_not_added_up_before_they_were_given_out() -> None:
    together = make_federation(Shamir(3)).introduce()
    with pytest.raises(RemoteProtocolError, match="not given out"):
        together.parties["p1"].handle(added_shares())


def test_shares_of_a_step_are_not_added_up_in_another_run() -> None:
    together = make_federation(Shamir(3)).introduce()
    recorded = recording(Shamir(3))
    together.parties["p1"].handle(recorded.request(recorded.steps_of("ShareOut")[0]))
    together.aggregation = make_other_run(together)
    together.introduce()
    with pytest.raises(RemoteProtocolError, match="not given out"):
        together.parties["p1"].handle(added_shares())


def make_other_run(together: Federation) -> Any:
    vectors = {name: answers.vectors for name, answers in together.answers.items()}
    return federation(Shamir(3), vectors, run=b"run number 2").aggregation


@pytest.mark.parametrize("place", range(3))
def test_shares_that_were_changed_on_their_way_name_their_sender(place: int) -> None:
    together = make_federation(Shamir(3))
    recorded = recording(Shamir(3))
    step = recorded.steps_of("AddShares")[0]
    for request in recorded.requests[:step]:
        together.network.endpoints["p1"](request)
    sealed = list(added_shares().deliveries[0].sealed)
    damaged = bytearray(sealed[place].data)
    damaged[-1] ^= 1
    sealed[place] = SealedShares(memoryview(damaged))
    bad = AddShares(1, changed_delivery(sealed=tuple(sealed)))
    sender = ("p0", "p2", "p3")[place]
    with pytest.raises(MaskingError, match=f"what party '{sender}' sealed for 'p1'"):
        together.parties["p1"].handle(bad)
    assert together.network.endpoints["p1"](recorded.requests[step]) == recorded.replies[step]


def test_a_total_that_was_changed_on_its_way_names_its_sender() -> None:
    together = make_federation(Ring()).introduce()
    honest = dict(together.network.endpoints)

    def tamper(data: bytes) -> bytes:
        request = decode(data, REQUESTS)
        assert isinstance(request, PassOn)
        total = bytearray(request.totals[0])
        total[3] ^= 128
        changed = msgspec.structs.replace(request, totals=(memoryview(total),))
        return honest["p2"](msgspec.msgpack.encode(changed))

    together.network.endpoints = {**honest, "p2": tamper}
    with pytest.raises(MaskingError, match="what party 'p1' sealed for 'p2'"):
        together.gather(1, [together.segment(b"q0")])


def test_a_total_of_another_step_is_refused() -> None:
    """The coordinator cannot make a party add its vector to something it may know."""
    together = make_federation(Ring()).introduce()
    together.gather(1, [together.segment(b"q0")])
    old = decode(together.network.requests[-2]["p2"], REQUESTS)
    assert isinstance(old, PassOn)
    with pytest.raises(MaskingError, match="what party 'p1' sealed for 'p2'"):
        together.parties["p2"].handle(msgspec.structs.replace(old, step=2))


@pytest.mark.parametrize("plug", ["plain", Masked(), Ring(), Shamir(2)], ids=str)
def test_a_request_of_another_plug_is_refused(plug: Plug) -> None:
    together = make_federation(plug)
    own = {kind for other, kind in HEARD if type(other) is type(plug)}
    own |= {"MeetPeers"} if plug != "plain" else set()
    foreign = {kind: other for other, kind in HEARD if kind not in {*own, "Introduce"}}
    assert len(foreign) >= 3
    for kind, other in foreign.items():
        recorded = recording(other)
        request = recorded.request(recorded.steps_of(kind)[0])
        with pytest.raises(RemoteProtocolError, match="no request of this protocol"):
            together.parties["p1"].handle(request)


@pytest.mark.parametrize("plug", [Masked(), Ring(), Shamir(3)], ids=str)
def test_participants_that_were_accepted_once_do_not_make_others_acceptable(plug: Plug) -> None:
    together = make_federation(plug).introduce()
    together.gather(1, [together.segment(b"q0", GROUPS[0])])
    [request] = asked_last(together)
    for participants, reason in (
        (("p0", "p2"), "takes no part"),
        (("p0", "p1", "p0"), "named twice"),
        (("p0", "p1", "nobody"), "stranger"),
        (("p1",), "fewer than 2"),
    ):
        parts = tuple(Part(participants, part.question) for part in request.parts)
        changed = msgspec.structs.replace(request, step=2, parts=parts)
        for _ in range(2):  # a refusal is not remembered as anything else
            with pytest.raises(RemoteProtocolError, match=reason):
                together.parties["p1"].handle(changed)


def asked_last(together: Federation) -> list[Any]:
    """The last request for a sum that party p1 heard."""
    heard = [decode(sent["p1"], REQUESTS) for sent in together.network.requests if "p1" in sent]
    return [request for request in heard if hasattr(request, "parts")][-1:]
