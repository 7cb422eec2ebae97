"""Predictions of chosen rows under a standing alignment: by number, by id, and what is refused."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from fedforest.errors import ConfigurationError, DataError, FederationError, PolicyRefusal
from fedforest.runtime.messages.orders import (
    AlignRows,
    PredictVertical,
    RemoveAlignment,
    StandingName,
    WithdrawModel,
)
from fedforest.runtime.messages.results import (
    Alignment,
    AlignmentList,
    ModelList,
    Predictions,
    VerticalResult,
)
from fedforest.runtime.party.alignments import Alignments
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.federation_folder import FederationFolder
from tests.integration.local_federation import LocalFederation, local_federation
from tests.runtime.partly_shared import (
    PARTIES,
    common_people,
    make_pattern,
    make_tables,
    members,
    vertical_order,
)
from tests.runtime.ruled_federations import demand

PEOPLE = dict.fromkeys(PARTIES, "people")
NAME = StandingName("people")
PARAMETERS = ForestParameters(n_estimators=4, max_depth=3, min_samples_leaf=5)
MODEL = bytes([2] * 16)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> FederationFolder:
    return make_pattern(tmp_path_factory.mktemp("pattern"))


@pytest.fixture(scope="module")
def kept(
    pattern: FederationFolder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalFederation]:
    with local_federation(tmp_path_factory.mktemp("kept"), pattern) as federation:
        align = AlignRows(data=PEOPLE, method="psi", name="people")
        federation.ask(align, Alignment, bytes([1] * 16))
        order = vertical_order(align=NAME, validation=None, parameters=PARAMETERS)
        federation.ask(order, VerticalResult, MODEL)
        yield federation


@pytest.fixture
def federation(kept: LocalFederation) -> LocalFederation:
    """The federation with its tables and policies as they were; quotas of the day begin anew."""
    for party, tables in make_tables().items():
        demand(kept, 'standing_serving = "ids"', party)
        (kept.homes[party] / "prediction_rows.json").unlink(missing_ok=True)
        pyarrow.parquet.write_table(tables["people"], kept.homes[party] / "people.parquet")
    return kept


def predict(federation: LocalFederation, **asked: Any) -> Predictions:
    order = PredictVertical(data=PEOPLE, model=MODEL.hex(), align=NAME, **asked)
    told = federation.ask(order, Predictions)
    assert isinstance(told, Predictions)
    return told


def ids_of(people: list[int]) -> list[list[str]]:
    return [[f" person {person}" for person in people]]


def votes_by_person(federation: LocalFederation) -> dict[int, list[float]]:
    """What a prediction of all aligned rows says, which does not choose rows."""
    told = predict(federation)
    assert told.alignment is not None
    kept = Alignments(federation.homes["bank"] / "alignments").read(told.alignment.id)
    people = [members("bank")[row] for row in kept.rows()]
    return dict(zip(people, told.read().tolist(), strict=True))


def test_rows_named_by_ids_get_the_votes_of_these_people(federation: LocalFederation) -> None:
    expected = votes_by_person(federation)
    people = sorted(common_people())[:7][::-1]
    for party in ("", "shop", "clinic"):
        told = predict(federation, ids=ids_of(people), id_party=party)
        assert told.read().tolist() == [expected[person] for person in people]
        assert told.classes == ["no", "yes"]
    assert predict(federation, ids=ids_of([people[0]] * 2)).read().shape == (2, 2)


def test_ids_that_not_all_parties_have_get_no_prediction(federation: LocalFederation) -> None:
    expected = votes_by_person(federation)
    common = sorted(common_people())[0]
    alone = min(set(members("bank")) - common_people())
    told = predict(federation, ids=ids_of([alone, common, 10_000]))
    assert told.found is not None
    assert np.unpackbits(np.frombuffer(told.found, np.uint8), count=3).tolist() == [0, 1, 0]
    assert told.read().tolist() == [expected[common]]
    nobody = predict(federation, ids=ids_of([10_000]))
    assert nobody.read().shape == (0, 2)


def test_numbers_of_the_common_order_stay_while_data_sets_change(
    federation: LocalFederation,
) -> None:
    before = predict(federation, rows=[3, 0, 3]).read()
    for party in ("bank", "clinic"):
        turned = make_tables()[party]["people"].take(pyarrow.array(range(299, -1, -1)))
        pyarrow.parquet.write_table(turned, federation.homes[party] / "people.parquet")
    assert predict(federation, rows=[3, 0, 3]).read().tolist() == before.tolist()
    with pytest.raises(ConfigurationError, match="numbered from 0 on"):
        predict(federation, rows=[100_000])


def test_rows_that_a_party_no_longer_has_are_refused_without_saying_which(
    federation: LocalFederation,
) -> None:
    gone = min(common_people())
    kept = [row for row, person in enumerate(members("clinic")) if person != gone]
    table = make_tables()["clinic"]["people"].take(pyarrow.array(kept))
    pyarrow.parquet.write_table(table, federation.homes["clinic"] / "people.parquet")
    with pytest.raises(DataError, match="no longer in the data set 'people'") as error:
        predict(federation, ids=ids_of([gone]))
    assert f"person {gone}" not in str(error.value)


@pytest.mark.parametrize("party", PARTIES)
def test_the_policy_of_every_party_says_what_an_alignment_serves(
    federation: LocalFederation, party: str
) -> None:
    ids = ids_of(sorted(common_people())[:1])
    demand(federation, 'standing_serving = "rows"', party)
    assert len(predict(federation, rows=[0]).read()) == 1
    with pytest.raises(PolicyRefusal, match="serves no ids here"):
        predict(federation, ids=ids, id_party=party)
    demand(federation, 'standing_serving = "nothing"', party)
    with pytest.raises(PolicyRefusal, match="serves no rows here"):
        predict(federation, rows=[0])
    demand(federation, 'standing_serving = "ids"\naskers = ["other"]', party)
    with pytest.raises(PolicyRefusal, match="not among those who may"):
        predict(federation, rows=[0])


def test_every_id_and_row_counts_in_the_quota(federation: LocalFederation) -> None:
    demand(federation, 'standing_serving = "ids"\nprediction_rows_per_day = 5', "bank")
    ids = ids_of(sorted(common_people())[:2])
    assert len(predict(federation, ids=ids).read()) == 2  # two ids and two rows
    with pytest.raises(PolicyRefusal, match="at most 5 rows a day"):
        predict(federation, ids=ids)


def test_an_alignment_of_the_past_serves_nothing_at_a_party_by_its_own_clock(
    federation: LocalFederation,
) -> None:
    predict(federation, rows=[0])
    demand(federation, 'standing_serving = "ids"\nstanding_days = 0', "shop")
    with pytest.raises(PolicyRefusal, match="standing_days"):
        predict(federation, rows=[0])


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"rows": [0], "ids": [["x"]]}, "leave one out"),
        ({"ids": [["x"]], "id_party": "nobody"}, "none of the parties"),
        ({"ids": [["x"], ["y", "z"]]}, "some have fewer"),
        ({"ids": [["x"], ["y"]]}, "an id of the .* has 1 column"),
    ],
)
def test_requests_that_name_rows_in_two_ways_or_wrongly_are_refused(
    federation: LocalFederation, asked: dict[str, Any], reason: str
) -> None:
    with pytest.raises(FederationError, match=reason):
        predict(federation, **asked)


def test_a_withdrawn_model_and_a_removed_alignment_serve_nothing_from_the_next_request_on(
    federation: LocalFederation,
) -> None:
    predict(federation, rows=[0])
    federation.ask(RemoveAlignment("people"), AlignmentList)
    with pytest.raises(ConfigurationError, match="no standing alignment"):
        predict(federation, rows=[0])
    federation.ask(WithdrawModel(model=MODEL.hex()), ModelList)
    with pytest.raises(FederationError, match="withdr"):
        predict(federation, rows=[0])
