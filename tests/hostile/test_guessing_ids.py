"""What a coordinator tries, alone or with a party, to find out if another party has an id.

Whoever gets a party to blind the point of a guess can look for the product in that party's list. So
a party blinds the declared lists of the parties it meets, once, and nothing else.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import (
    DataError,
    FederationError,
    MaskingError,
    PolicyRefusal,
    ProtocolError,
    RemoteProtocolError,
)
from fedforest.masking.blinding import hash_to_points
from fedforest.protocol.alignment.messages import (
    REQUESTS,
    BlindIds,
    BlindLists,
    GiveList,
    IdsBlinded,
    ListGiven,
    ListsBlinded,
    TakeMatches,
)
from fedforest.protocol.alignment.payloads import NO_REST, BlindedIds, IdCounts, ListSeal
from fedforest.protocol.alignment.psi_party import IntersectionAligner
from fedforest.protocol.asking import Message
from fedforest.runtime.party.approval import RunAccountant
from fedforest.runtime.party.policy import DataSetRules
from fedforest.transport.codec import decode, encode
from tests.protocol.alignment.federations import Aligning

IDS = {
    "bank": [b"anna", b"ben", b"carla", b"dan"],
    "shop": [b"ben", b"carla", b"emma"],
    "clinic": [b"carla", b"ben", b"frida", b"gus"],
}
REPLIES = tuple(request.reply for request in REQUESTS)


def meet(seed: int = 0) -> Aligning:
    return Aligning(IDS, seed=seed, method="psi")


def handler(parties: Aligning, party: str) -> IntersectionAligner:
    found = parties.parties[party]
    assert isinstance(found, IntersectionAligner)
    return found


def run_of(parties: Aligning) -> bytes:
    return handler(parties, "bank")._meeting.session().id


def write_points(points: list[bytes]) -> BlindedIds:
    return BlindedIds(len(points), 0, memoryview(NO_REST), memoryview(b"".join(sorted(points))))


def declared(parties: Aligning, party: str) -> ListGiven:
    reply = decode(parties.listener.replies[3][party], (ListGiven,))
    assert isinstance(reply, ListGiven)
    return reply


def lie(parties: Aligning, to: str, change: Callable[[BlindLists], BlindLists]) -> None:
    """Have the coordinator give one party other lists to blind."""

    def changed(party: str, data: bytes) -> bytes:
        request = decode(data, REQUESTS)
        is_meant = isinstance(request, BlindLists) and party == to
        return encode(change(request)) if is_meant else data  # type: ignore[arg-type] # tested

    parties.listener.change = changed


def spoil(parties: Aligning, party: str, change: Callable[[Any], Message]) -> None:
    """Have a party send another reply than an honest one."""
    honest = parties.listener.endpoints[party]
    parties.listener.endpoints = {
        **parties.listener.endpoints,
        party: lambda data: encode(change(decode(honest(data), REPLIES))),
    }


def declare(parties: Aligning, party: str, points: Callable[[], list[bytes]]) -> None:
    """Have a party declare points of its own choice, properly sealed."""

    def change(reply: Message) -> Message:
        if isinstance(reply, IdsBlinded):
            return IdsBlinded(IdCounts(len(points()), 0))
        if not isinstance(reply, ListGiven):
            return reply
        data = memoryview(b"".join(points()))
        chosen = BlindedIds(len(points()), 0, memoryview(NO_REST), data)
        seal = handler(parties, party)._seal(party, "bank", chosen)
        return ListGiven(chosen, (ListSeal(memoryview(seal)),))

    spoil(parties, party, change)


def answered(parties: Aligning, party: str) -> bool:
    """Whether the party has blinded a list of others in this run."""
    return bool(handler(parties, party)._theirs)


def test_a_coordinator_cannot_have_guesses_blinded_in_place_of_a_list() -> None:
    parties = meet()

    def guess(request: BlindLists) -> BlindLists:
        guesses = hash_to_points(run_of(parties), [b"anna", b"dan", b"zoe"])
        return BlindLists((write_points(guesses), *request.lists[1:]), request.seals)

    lie(parties, "bank", guess)
    with pytest.raises(MaskingError, match="'shop' is not the one it declared"):
        parties.align()
    assert not answered(parties, "bank")


def test_a_coordinator_cannot_add_a_guess_to_a_list() -> None:
    parties = meet()

    def add(request: BlindLists) -> BlindLists:
        [guess] = hash_to_points(run_of(parties), [b"anna"])
        [own] = request.lists
        data = bytes(own.data)
        entries = [data[i : i + 32] for i in range(0, len(data), 32)]
        return BlindLists((write_points([*entries, guess]),), request.seals)

    lie(parties, "clinic", add)
    with pytest.raises(MaskingError, match="'bank' is not the one it declared"):
        parties.align()
    assert not answered(parties, "clinic")


def test_a_party_does_not_blind_its_own_list_once_more() -> None:
    parties = meet()

    def reflect(_request: BlindLists) -> BlindLists:
        own = declared(parties, "bank")
        return BlindLists((own.points, own.points), own.seals)

    lie(parties, "bank", reflect)
    with pytest.raises(MaskingError, match="'shop' is not the one it declared"):
        parties.align()
    assert not answered(parties, "bank")


def test_a_list_is_not_taken_for_that_of_another_party() -> None:
    parties = meet()
    lie(parties, "bank", lambda asked: BlindLists(asked.lists[::-1], asked.seals[::-1]))
    with pytest.raises(MaskingError, match="'shop' is not the one it declared"):
        parties.align()
    assert not answered(parties, "bank")


def test_parties_that_do_not_meet_cannot_be_made_to() -> None:
    """Shop and clinic meet bank only; nobody compares their lists with each other."""
    parties = meet()

    def bring(_request: BlindLists) -> BlindLists:
        theirs = declared(parties, "clinic")
        return BlindLists((theirs.points,), theirs.seals)

    lie(parties, "shop", bring)
    with pytest.raises(MaskingError, match="'bank' is not the one it declared"):
        parties.align()
    assert not answered(parties, "shop")


def test_a_list_of_an_earlier_run_is_refused() -> None:
    before, parties = meet(seed=1), meet()
    before.members = parties.members
    before.put_together()
    before.align()
    old = [declared(before, name) for name in ("shop", "clinic")]

    def replay(_request: BlindLists) -> BlindLists:
        return BlindLists(tuple(each.points for each in old), tuple(each.seals[0] for each in old))

    lie(parties, "bank", replay)
    with pytest.raises(MaskingError, match="'shop' is not the one it declared"):
        parties.align()


@pytest.mark.parametrize("again", [BlindIds, GiveList, BlindLists, TakeMatches])
def test_nothing_is_blinded_or_told_twice_in_a_run(again: type[Message]) -> None:
    parties = meet()
    refused: list[str] = []

    def ask_again(party: str, data: bytes) -> bytes:
        for step in parties.listener.requests[:-1]:
            if isinstance(decode(step[party], REQUESTS), again):
                with pytest.raises(ProtocolError) as caught:
                    parties.listener.endpoints[party](step[party])
                refused.append(str(caught.value))
        return data

    parties.listener.change = ask_again
    parties.align()
    assert refused
    words = (again.__name__, "all ids were blinded", "the list was given", "out of turn")
    assert all(any(each in text for each in words) for text in refused), refused


def test_a_party_in_league_with_the_coordinator_spends_an_entry_for_every_guess() -> None:
    """What may be known: shop's own entries. Bank blinds as many points as shop declared."""
    parties = meet()
    guesses = [b"anna", b"zoe"]
    declare(parties, "shop", lambda: sorted(hash_to_points(run_of(parties), guesses)))
    with pytest.raises(FederationError):
        parties.align()  # shop's list has nothing that all have
    told = decode(parties.listener.replies[4]["bank"], (ListsBlinded,))
    assert isinstance(told, ListsBlinded)
    sizes = [len(each.data) // 32 for each in told.lists]
    assert sizes == [len(guesses), len(IDS["clinic"])]
    told = decode(parties.listener.replies[4]["clinic"], (ListsBlinded,))
    assert isinstance(told, ListsBlinded)
    assert [bytes(each.data) for each in told.lists] == [
        bytes(handler(parties, "clinic")._theirs["bank"].points().tobytes())
    ]


def owned(parties: Aligning, party: str, **rules: int) -> None:
    """Give a party the accountant that its service makes of these rules."""
    rules = {"least_aligned_ids": 0, "least_common_ids": 1, **rules}
    accountant = RunAccountant(DataSetRules(**rules), lambda _: None, bytes(32))  # type: ignore[arg-type] # numbers
    parties.accountants = {party: accountant}
    parties.put_together()


def test_a_list_of_one_id_is_not_compared_where_the_policy_wants_more() -> None:
    parties = Aligning({**IDS, "shop": [b"anna"]}, method="psi")
    owned(parties, "bank", least_aligned_ids=3)
    with pytest.raises(PolicyRefusal, match="a list of fewer than 3 ids"):
        parties.align()
    assert not answered(parties, "bank")


def test_a_guess_among_made_up_ids_is_not_told_where_the_policy_wants_more_in_common() -> None:
    parties = Aligning({**IDS, "shop": [b"ben", b"a", b"b", b"c", b"d"]}, method="psi")
    owned(parties, "bank", least_common_ids=2)
    with pytest.raises(DataError, match="fewer than 2 ids in common"):
        parties.align()
    assert len(parties.listener.requests) == 5  # nobody was told which


def test_a_coordinator_that_tells_of_few_common_rows_is_refused() -> None:
    parties = Aligning({**IDS, "shop": [b"ben", b"a", b"b", b"c", b"d"]}, method="psi")
    owned(parties, "bank", least_common_ids=2)

    def hide(reply: Any) -> Message:
        if not isinstance(reply, IdsBlinded):
            return reply  # type: ignore[no-any-return] # a message
        return IdsBlinded(msgspec.structs.replace(reply.counts, least_common=1))

    spoil(parties, "bank", hide)
    with pytest.raises(PolicyRefusal, match="fewer than 2 ids in common"):
        parties.align()
    with pytest.raises(ProtocolError, match="not aligned yet"):
        _ = parties.parties["bank"].rows


SPOILED = {
    "the neutral point": lambda _: [bytes(32)],
    "no point": lambda _: [b"\x01" + bytes(31)],
    "another form of a point": lambda run: [
        (point := hash_to_points(run, [b"anna"])[0])[:-1] + bytes([point[-1] | 0x80])
    ],
}


@pytest.mark.parametrize("points", SPOILED.values(), ids=SPOILED.keys())
def test_entries_that_are_no_points_do_not_lead_to_the_key(
    points: Callable[[bytes], list[bytes]],
) -> None:
    parties = meet()
    declare(parties, "shop", lambda: points(run_of(parties)))
    with pytest.raises(MaskingError, match="an entry in the list of party 'shop'"):
        parties.align()
    assert not answered(parties, "bank")


def test_a_party_that_repeats_an_entry_is_refused() -> None:
    parties = meet()
    declare(parties, "shop", lambda: hash_to_points(run_of(parties), [b"anna"]) * 2)
    with pytest.raises(RemoteProtocolError, match="out of order, or repeated") as caught:
        parties.align()
    assert caught.value.party == "shop"


def test_a_coordinator_cannot_put_other_rows_together() -> None:
    parties = meet()

    def change(party: str, data: bytes) -> bytes:
        request = decode(data, REQUESTS)
        if not isinstance(request, TakeMatches) or party == "clinic":
            return data
        first = np.frombuffer(request.places[0], "<i4")[::-1]
        return encode(
            TakeMatches(request.common, (memoryview(first.tobytes()), *request.places[1:]))
        )

    parties.listener.change = change
    with pytest.raises(MaskingError, match="took other rows than this one"):
        parties.align()
    with pytest.raises(ProtocolError, match="not aligned yet"):
        _ = parties.parties["bank"].rows


def test_a_coordinator_cannot_make_up_a_common_row() -> None:
    """Anna is at the bank only; a shop that is told it has her does not get a row for her."""
    parties = meet()

    def change(_party: str, data: bytes) -> bytes:
        request = decode(data, REQUESTS)
        if not isinstance(request, TakeMatches):
            return data
        bits = np.unpackbits(np.frombuffer(request.common, np.uint8), bitorder="little")
        bits[:4] = 1, 1, 1, 0
        places = np.arange(3, dtype="<i4").tobytes()
        common = memoryview(np.packbits(bits, bitorder="little").tobytes())
        return encode(TakeMatches(common, tuple(memoryview(places) for _ in request.places)))

    parties.listener.change = change
    with pytest.raises(MaskingError, match="took other rows than this one"):
        parties.align()
