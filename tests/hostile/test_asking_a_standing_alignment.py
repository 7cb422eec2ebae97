"""The coordinator wants to know who is among the common ids, and chosen rows, beyond the policy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fedforest.errors import DataError, FederationError, PolicyRefusal, ProtocolError
from fedforest.protocol.vertical.prediction.messages import RouteRows, RowsRouted
from fedforest.runtime.messages.envelope import RUN_ID_BYTES
from fedforest.runtime.messages.orders import AlignRows, StandingName
from fedforest.runtime.messages.party_requests import (
    BeginPrediction,
    FindPlaces,
    InPrediction,
    PlacesFound,
)
from fedforest.runtime.messages.results import Alignment, VerticalResult
from fedforest.runtime.messages.roles import RowChoice
from fedforest.runtime.party.standing_alignments import PartyStandingAlignments
from fedforest.transport.codec import decode, encode
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.local_federation import LocalFederation, local_federation
from tests.runtime.partly_shared import PARTIES, common_people, make_pattern, vertical_order
from tests.runtime.ruled_federations import demand

PEOPLE = dict.fromkeys(PARTIES, "people")
MODEL = bytes([2] * 16).hex()
SHOP, CLINIC = "shop", "clinic"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFederation]:
    pattern = make_pattern(tmp_path_factory.mktemp("pattern"))
    with local_federation(tmp_path_factory.mktemp("federation"), pattern) as federation:
        align = AlignRows(data=PEOPLE, method="psi", name="people")
        federation.ask(align, Alignment, bytes([1] * 16))
        order = vertical_order(
            align=StandingName("people"),
            validation=None,
            parameters=ForestParameters(n_estimators=3, max_depth=3, min_samples_leaf=5),
        )
        federation.ask(order, VerticalResult, bytes.fromhex(MODEL))
        yield federation


@pytest.fixture
def federation(kept: LocalFederation) -> LocalFederation:
    for party in PARTIES:
        demand(kept, 'standing_serving = "ids"', party)
        (kept.homes[party] / "prediction_rows.json").unlink(missing_ok=True)
    return kept


def version(federation: LocalFederation) -> str:
    """The id under which the shop keeps the standing alignment."""
    [(version, _)] = PartyStandingAlignments(federation.homes[SHOP]).files()
    return version


def find(federation: LocalFederation, ids: list[str], **changes: Any) -> list[int]:
    asked = {"standing": version(federation), "data": "people", "asker": "user", **changes}
    answer = federation.parties[SHOP].answer(encode(FindPlaces(ids=[ids], **asked)))
    found = decode(answer, (PlacesFound,))
    assert isinstance(found, PlacesFound)
    places: list[int] = np.frombuffer(found.places, "<i4").tolist()
    return places


def begin(federation: LocalFederation, places: list[int], **changes: Any) -> bytes:
    """Ask the shop which way its splits send rows at these places."""
    rows = memoryview(np.array(places, "<i4").tobytes())
    settings: dict[str, Any] = {"asker": "user", "standing": version(federation), "rows": rows}
    beginning = BeginPrediction(model=MODEL, data="people", **settings | changes)
    first = RouteRows(0, max(1, len(places)), 3)
    number = np.random.default_rng(len(changes)).bytes(RUN_ID_BYTES)
    asked = InPrediction(number, 1, beginning, memoryview(encode(first)))
    return federation.parties[SHOP].answer(encode(asked))


def some_ids(n: int) -> list[str]:
    return [f"person {person}" for person in sorted(common_people())[:n]]


def test_an_honest_coordinator_is_answered(federation: LocalFederation) -> None:
    places = find(federation, some_ids(3))
    assert min(places) >= 0
    assert isinstance(decode(begin(federation, places), (RowsRouted,)), RowsRouted)


def test_guessing_ids_takes_the_quota_of_rows(federation: LocalFederation) -> None:
    demand(federation, 'standing_serving = "ids"\nprediction_rows_per_day_total = 10', SHOP)
    guesses = [f"person {number}" for number in range(10_000, 10_011)]
    with pytest.raises(PolicyRefusal, match="of all askers together"):
        find(federation, guesses)
    find(federation, guesses[:10])
    for asker in ("user", "another"):
        with pytest.raises(PolicyRefusal, match="of all askers together"):
            find(federation, guesses[:1], asker=asker)


def test_ids_are_found_for_nobody_where_only_rows_are_served(
    federation: LocalFederation,
) -> None:
    demand(federation, 'standing_serving = "rows"', SHOP)
    with pytest.raises(PolicyRefusal, match="serves no ids"):
        find(federation, some_ids(1))


def test_refusals_are_the_same_for_ids_that_are_there_and_others(
    federation: LocalFederation,
) -> None:
    """A refusal that comes after the lookup would tell what it found."""
    demand(federation, 'standing_serving = "rows"', SHOP)
    told = set()
    for ids in (some_ids(1), ["nobody"]):
        with pytest.raises(PolicyRefusal) as refused:
            find(federation, ids)
        told.add(str(refused.value))
    assert len(told) == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"rows": None}, ProtocolError),
        ({"choice": RowChoice(alignment="1" * 32)}, ProtocolError),
        ({"choice": RowChoice(held_out=0.5, seed=1)}, ProtocolError),
        ({"standing": "0" * 32}, DataError),
        ({"standing": MODEL}, DataError),
        ({"asker": "stranger"}, PolicyRefusal),
    ],
)
def test_rows_are_served_in_one_way_only(
    federation: LocalFederation, changes: dict[str, Any], error: type[FederationError]
) -> None:
    demand(federation, 'standing_serving = "rows"\naskers = ["user"]', SHOP)
    with pytest.raises(error):
        begin(federation, [0, 1], **changes)


@pytest.mark.parametrize("places", [[-1], [10_000], [0, 0], [2**31 - 1], []])
def test_places_are_those_of_the_common_order_each_once(
    federation: LocalFederation, places: list[int]
) -> None:
    with pytest.raises(FederationError):
        begin(federation, places)


def test_an_alignment_of_another_data_set_is_no_way_around_its_rules(
    federation: LocalFederation,
) -> None:
    """The rules of the data set whose ids were aligned hold for every use of them."""
    rules = '[default]\nstanding_serving = "ids"\n[data.people]\nstanding_serving = "nothing"\n'
    (federation.homes[SHOP] / "policy.toml").write_text(rules)
    with pytest.raises(PolicyRefusal, match="serves no ids"):
        find(federation, some_ids(1), data="people_measured")
