"""What a coordinator that extends a standing alignment again and again learns, alone or in league.

The key of a party lives as long as the alignment, so every extension is a question to it. Each is
held to the limits of an alignment of its own: a guess costs an entry of a list of a party, lists
are as long as the policy wants, and have as much in common.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedforest.errors import DataError, FederationError, MaskingError, PolicyRefusal, ProtocolError
from fedforest.masking.blinding import hash_to_points
from fedforest.protocol.alignment.messages import (
    REQUESTS,
    BlindLists,
    IdsBlinded,
    ListGiven,
    ListsBlinded,
    RowsFound,
    TakeMatches,
)
from fedforest.protocol.alignment.payloads import (
    NO_REST,
    BlindedIds,
    FoundIds,
    IdCounts,
    ListSeal,
    pack_bits,
)
from fedforest.protocol.alignment.psi_party import IntersectionAligner
from fedforest.protocol.asking import Message
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.messages.orders import AlignRows
from fedforest.runtime.messages.party_requests import TO_PARTY
from fedforest.runtime.messages.results import Alignment
from fedforest.runtime.party.approval import RunAccountant
from fedforest.runtime.party.policy import DataSetRules
from fedforest.transport.codec import decode, encode
from tests.integration.local_federation import local_federation, make_party
from tests.protocol.alignment.federations import Aligning
from tests.protocol.alignment.standing import StandingRuns, pieces_of
from tests.runtime.partly_shared import PARTIES, make_pattern

BANK = [b"anna", b"ben", b"carla", b"dan", b"emma", b"frida"]
SHOP = [b"ben", b"carla", b"dan", b"gus", b"hanna"]
REPLIES = tuple(request.reply for request in REQUESTS)


def standing(**rules: Any) -> StandingRuns:
    """An alignment that bank and shop made; from then on the bank has these rules."""
    runs = StandingRuns()
    runs.compare({"bank": BANK, "shop": SHOP})
    rules = {"least_aligned_ids": 0, "least_common_ids": 1, **rules}
    accountant = RunAccountant(DataSetRules(**rules), lambda _: None, bytes(32))
    runs.accountants = {"bank": accountant}
    return runs


def change_requests(kind: type[Message], to: str, change: Callable[[Any], Message]) -> Any:
    """Have the coordinator send a party other requests of one kind."""

    def changed(party: str, data: bytes) -> bytes:
        request = decode(data, REQUESTS)
        return encode(change(request)) if isinstance(request, kind) and party == to else data

    return lambda parties: setattr(parties.listener, "change", changed)


def change_replies(party: str, change: Callable[[Aligning, Any], Message]) -> Any:
    """Have a party reply something else."""

    def prepare(parties: Aligning) -> None:
        honest = parties.listener.endpoints[party]
        parties.listener.endpoints = {
            **parties.listener.endpoints,
            party: lambda data: encode(change(parties, decode(honest(data), REPLIES))),
        }

    return prepare


def blinded_by(parties: Aligning, party: str) -> int:
    """How many points of others a party has blinded in a run."""
    replies = [decode(step[party], REPLIES) for step in parties.listener.replies if party in step]
    lists = [each for reply in replies if isinstance(reply, ListsBlinded) for each in reply.lists]
    return sum(len(each.data) // 32 for each in lists)


def test_guesses_of_a_coordinator_are_blinded_by_no_extension() -> None:
    runs = standing()
    for guess in (b"anna", b"zoe", b"emma"):

        def add(request: BlindLists, guess: bytes = guess) -> BlindLists:
            [point] = hash_to_points(runs.kept["bank"].root, [guess])
            piece = BlindedIds(1, 0, memoryview(NO_REST), memoryview(point))
            return BlindLists((piece,), request.seals)

        with pytest.raises(MaskingError, match="'shop' is not the one it declared"):
            runs.compare(
                {"bank": BANK, "shop": [*SHOP, b"ida"]}, change_requests(BlindLists, "bank", add)
            )
        assert blinded_by(runs.last, "bank") == 0


def test_a_list_of_an_earlier_extension_is_not_blinded_again() -> None:
    runs = standing()
    first = runs.compare({"bank": BANK, "shop": [*SHOP, b"anna", b"ida"]})
    [old] = [
        given
        for step in first.listener.replies
        if isinstance(given := decode(step["shop"], REPLIES), ListGiven)
    ]
    with pytest.raises(MaskingError, match="'shop' is not the one it declared"):
        runs.compare(
            {"bank": BANK, "shop": [*SHOP, b"anna", b"ida", b"zoe"]},
            change_requests(BlindLists, "bank", lambda _: BlindLists((old.points,), old.seals)),
        )
    assert blinded_by(runs.last, "bank") == 0


def test_a_party_in_league_spends_an_entry_for_every_guess_of_every_extension() -> None:
    runs, spent = standing(), 0
    for number, guess in enumerate([b"anna", b"zoe", b"frida"], start=1):
        known = [*SHOP, *[b"anna", b"zoe", b"frida"][: number - 1]]
        parties = runs.compare({"bank": BANK, "shop": [*known, guess]})
        spent += blinded_by(parties, "bank")
    assert spent == 3
    assert len(runs.common()) == 5  # ben, carla and dan, then anna and frida


def test_an_extension_by_one_id_is_refused_where_lists_must_be_longer() -> None:
    runs = standing(least_aligned_ids=3)
    with pytest.raises(PolicyRefusal, match="a list of fewer than 3 ids"):
        runs.compare({"bank": BANK, "shop": [*SHOP, b"anna"]})
    assert blinded_by(runs.last, "bank") == 0
    runs.compare({"bank": BANK, "shop": [*SHOP, b"anna", b"emma", b"ida"]})
    assert len(runs.common()) == 5


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"least_common_ids": 2}, "fewer than 2 ids in common"),
        ({"least_common_fraction": 0.5}, "less than a fraction of 0.5"),
    ],
)
def test_a_guess_among_made_up_ids_is_told_in_no_extension(
    rules: dict[str, Any], reason: str
) -> None:
    """What the first alignment has in common does not count for those that follow."""
    runs = standing(**rules)
    made_up = [b"anna", b"x1", b"x2", b"x3"]
    for _ in range(2):
        with pytest.raises(DataError, match=reason):
            runs.compare({"bank": BANK, "shop": [*SHOP, *made_up]})
        told = [
            decode(each, REQUESTS) for step in runs.last.listener.requests for each in step.values()
        ]
        assert not any(isinstance(each, TakeMatches) for each in told)


@pytest.mark.parametrize("rule", ["least_common_ids", "least_common_fraction"])
def test_a_coordinator_that_hides_the_rule_is_refused_by_the_party(rule: str) -> None:
    runs = standing(**{rule: 2 if rule == "least_common_ids" else 0.5})

    def hide(_parties: Aligning, reply: Any) -> Message:
        if not isinstance(reply, IdsBlinded):
            return reply  # type: ignore[no-any-return] # a message
        counts = reply.counts
        return IdsBlinded(IdCounts(counts.n_rows, counts.n_left_out, n_known=counts.n_known))

    with pytest.raises(PolicyRefusal, match="in common"):
        runs.compare(
            {"bank": BANK, "shop": [*SHOP, b"anna", b"x1", b"x2", b"x3"]},
            change_replies("bank", hide),
        )


def test_a_list_cannot_be_chosen_by_what_its_first_pieces_told() -> None:
    """A party in league would ask what to guess next: its first piece fixes all others."""
    runs = standing()
    ids = {"bank": BANK, "shop": [*SHOP, b"ida", b"jo", b"kim", b"lea"]}

    def adapt(parties: Aligning, reply: Any) -> Message:
        if not isinstance(reply, ListGiven) or reply.points.start == 0:
            return reply  # type: ignore[no-any-return] # a message
        shop = parties.parties["shop"]
        assert isinstance(shop, IntersectionAligner)
        guesses = sorted(hash_to_points(runs.kept["bank"].root, [b"anna", b"emma"]))
        piece = BlindedIds(4, 2, memoryview(NO_REST), memoryview(b"".join(guesses)))
        return ListGiven(piece, (ListSeal(memoryview(shop._seal("shop", "bank", piece))),))

    with pieces_of(2), pytest.raises(FederationError, match="a list changed after it was declared"):
        runs.compare(ids, change_replies("shop", adapt))
    assert blinded_by(runs.last, "bank") == 2


def test_rows_that_were_told_are_not_told_again() -> None:
    runs = standing()

    before = runs.common()
    told = np.zeros(len(BANK), np.bool_)
    told[before] = True
    places = memoryview(np.arange(len(before), dtype="<i4").tobytes())

    def repeat(_request: TakeMatches) -> TakeMatches:
        return TakeMatches(pack_bits(told), (places,))

    with pytest.raises(FederationError, match="named before"):
        runs.compare({"bank": BANK, "shop": SHOP}, change_requests(TakeMatches, "bank", repeat))
    assert runs.common() == before


def test_a_recall_names_no_row_that_a_party_does_not_have() -> None:
    runs = standing()
    parties = runs.meet({"bank": BANK, "shop": [b"ben"]}, recalls=True)

    def claim(_parties: Aligning, reply: Any) -> Message:
        if not isinstance(reply, RowsFound):
            return reply  # type: ignore[no-any-return] # a message
        return RowsFound(reply.counts, FoundIds(memoryview(b"\x07")))

    change_replies("shop", claim)(parties)
    with pytest.raises(ProtocolError, match="rows are named that this party does not have"):
        parties.recall(len(runs.common()))


def test_a_recall_asks_about_nobody_who_was_not_told_of_before() -> None:
    """Anna is the bank's, and was never in the shop's list: a row of her own tells nothing."""
    runs = standing(least_common_ids=3, least_aligned_ids=3)
    parties = runs.meet({"bank": BANK, "shop": [b"anna", b"ben"]}, recalls=True)
    parties.recall(len(runs.common()))
    assert parties.common_ids()["shop"] == [b"ben"]
    with pytest.raises(DataError, match="no id in common"):
        runs.meet({"bank": BANK, "shop": [b"anna"]}, recalls=True).recall(len(runs.common()))


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_restarted_party_blinds_no_list_again_and_no_other_in_its_place(
    tmp_path: Path, is_changed: bool
) -> None:
    """What a party blinded before it was killed, it knows after it."""
    refused: list[str] = []
    with local_federation(tmp_path / "local", make_pattern(tmp_path / "pattern")) as federation:

        def answer(data: bytes) -> bytes:
            reply = federation.parties["bank"].answer(data)
            request = decode(data, TO_PARTY)
            if isinstance(request, RunRequest):
                asked = decode(request.payload, REQUESTS)
                if isinstance(asked, BlindLists):
                    federation.parties["bank"].close()
                    federation.parties["bank"] = make_party(federation.homes["bank"])
                    refused.append(ask_again(request, asked))
            return reply

        def ask_again(request: RunRequest, asked: BlindLists) -> str:
            """The same list under the next number, or another list under the same."""
            number = request.sequence if is_changed else request.sequence + 1
            other = BlindLists(asked.lists[::-1], asked.seals[::-1]) if is_changed else asked
            repeated = RunRequest(request.run, number, memoryview(encode(other)))
            with pytest.raises(ProtocolError) as caught:
                federation.parties["bank"].answer(encode(repeated))
            return str(caught.value)

        federation.hub.endpoints["bank"] = answer
        order = AlignRows(data=dict.fromkeys(PARTIES, "people"), method="psi")
        federation.ask(order, Alignment, bytes([1]) * 16)
    [text] = refused
    assert ("another request in place of" if is_changed else "out of turn") in text
