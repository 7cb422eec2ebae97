"""Standing alignments over services: kept, used, extended, limited by policies, removed."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from fedforest.errors import ConfigurationError, DataError, PolicyRefusal
from fedforest.runtime.coordinator import standing_alignments as at_coordinator
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.messages.orders import (
    AlignRows,
    ListAlignments,
    PredictVertical,
    RemoveAlignment,
    ShowRun,
    StandingName,
    TrainVertical,
)
from fedforest.runtime.messages.results import (
    Alignment,
    AlignmentList,
    Predictions,
    RunDetails,
    VerticalResult,
)
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.spending import AlignmentQuota
from fedforest.runtime.party.standing_alignments import PartyStandingAlignments
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.federation_folder import FederationFolder
from tests.integration.local_federation import LocalFederation, local_federation, make_party
from tests.runtime.partly_shared import (
    PARTIES,
    REGRESSION,
    common_people,
    make_pattern,
    make_tables,
    members,
    vertical_order,
)
from tests.runtime.ruled_federations import demand

PEOPLE = dict.fromkeys(PARTIES, "people")
NAME = StandingName("people")
DAY = 86_400.0
PARAMETERS = ForestParameters(n_estimators=4, max_depth=3, min_samples_leaf=5)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> FederationFolder:
    return make_pattern(tmp_path_factory.mktemp("pattern"))


@pytest.fixture
def federation(pattern: FederationFolder, tmp_path: Path) -> Iterator[LocalFederation]:
    with local_federation(tmp_path, pattern) as federation:
        yield federation


def make(federation: LocalFederation, number: int = 1, days: int | None = None) -> Alignment:
    order = AlignRows(data=PEOPLE, method="psi", name="people", days=days)
    made = federation.ask(order, Alignment, bytes([number]) * 16)
    assert isinstance(made, Alignment)
    return made


def extend(federation: LocalFederation, number: int) -> Alignment:
    order = AlignRows(data=PEOPLE, method="psi", extends="people")
    extended = federation.ask(order, Alignment, bytes([number]) * 16)
    assert isinstance(extended, Alignment)
    return extended


def train(federation: LocalFederation, number: int) -> VerticalResult:
    order = vertical_order(align=NAME, validation=None, parameters=PARAMETERS)
    result = federation.ask(order, VerticalResult, bytes([number]) * 16)
    assert isinstance(result, VerticalResult)
    return result


def keep_only(federation: LocalFederation, party: str, rows: Sequence[int]) -> None:
    """Give a party a table of these rows of its own, in this order."""
    table = make_tables()[party]["people"].take(pyarrow.array(rows))
    pyarrow.parquet.write_table(table, federation.homes[party] / "people.parquet")
    restart(federation, party)


def restart(federation: LocalFederation, party: str) -> None:
    federation.parties[party].close()
    federation.parties[party] = make_party(federation.homes[party])
    federation.hub.endpoints[party] = federation.parties[party].answer


def people_of(
    federation: LocalFederation, party: str, alignment: Alignment | None, rows: Sequence[int]
) -> list[int]:
    assert alignment is not None
    kept = Alignments(federation.homes[party] / "alignments").read(alignment.id)
    return [members(party)[rows[place]] for place in kept.rows()]


def kept_by(federation: LocalFederation, party: str) -> PartyStandingAlignments:
    return PartyStandingAlignments(federation.homes[party])


def test_a_training_and_a_prediction_use_the_rows_of_a_standing_alignment(
    federation: LocalFederation,
) -> None:
    made = make(federation)
    assert made.n_common == len(common_people())
    assert made.standing == "people"
    result = train(federation, 2)
    every = range(len(members("bank")))
    taken = {party: people_of(federation, party, result.alignment, every) for party in PARTIES}
    assert taken["bank"] == taken["shop"] == taken["clinic"]
    assert set(taken["bank"]) == common_people()
    order = PredictVertical(data=PEOPLE, model=result.model, align=NAME)
    predictions = federation.ask(order, Predictions)
    assert isinstance(predictions, Predictions)
    assert predictions.alignment is not None
    assert predictions.alignment.standing == "people"
    assert people_of(federation, "shop", predictions.alignment, every) == taken["bank"]


def test_ids_that_are_new_are_compared_and_rows_that_moved_are_found(
    federation: LocalFederation,
) -> None:
    half = list(range(0, 300, 2))
    keep_only(federation, "bank", half)
    first = make(federation)
    rows = list(range(299, -1, -1))
    keep_only(federation, "bank", rows)
    extended = extend(federation, 2)
    assert first.n_common < extended.n_common == len(common_people())
    assert extended.expires == first.expires
    result = train(federation, 3)
    taken = people_of(federation, "bank", result.alignment, rows)
    assert taken == people_of(federation, "shop", result.alignment, range(300))
    assert set(taken) == common_people()


def test_rows_that_are_gone_are_left_out(federation: LocalFederation) -> None:
    make(federation)
    keep_only(federation, "clinic", list(range(200)))
    result = train(federation, 2)
    assert result.n_rows == len(common_people() & set(members("clinic")[:200]))


def test_a_standing_alignment_survives_restarts_of_every_role(federation: LocalFederation) -> None:
    made = make(federation)
    for party in PARTIES:
        restart(federation, party)
    federation.coordinator.close()
    federation.coordinator = CoordinatorService(
        federation.homes["coordinator"], federation.hub, randomness=federation.draw
    )
    federation.coordinator.start()
    assert train(federation, 2).n_rows == made.n_common
    assert extend(federation, 3).n_common == made.n_common


def test_names_are_unique_and_mean_the_same_parties(federation: LocalFederation) -> None:
    make(federation)
    with pytest.raises(ConfigurationError, match="there is a standing alignment 'people' already"):
        make(federation, 2)
    with pytest.raises(ConfigurationError, match="there is no standing alignment 'others'"):
        federation.ask(AlignRows(data=PEOPLE, method="psi", extends="others"), Alignment)
    two = dict.fromkeys(PARTIES[:2], "people")
    with pytest.raises(ConfigurationError, match="is of other parties: bank, shop, clinic"):
        federation.ask(AlignRows(data=two, method="psi", extends="people"), Alignment)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (AlignRows(data=PEOPLE, method="keyed-hash", name="x"), "is an intersection"),
        (AlignRows(data=PEOPLE, days=3), "give it a name"),
        (AlignRows(data=PEOPLE, method="psi", name="x", extends="y"), "either made"),
        (AlignRows(data=PEOPLE, method="psi", extends="y", days=3), "does not change how long"),
    ],
)
def test_orders_that_contradict_themselves_are_refused(
    federation: LocalFederation, order: AlignRows, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        federation.ask(order, Alignment)


def test_a_removed_alignment_is_gone_at_every_role(federation: LocalFederation) -> None:
    make(federation)
    removed = federation.ask(RemoveAlignment("people"), AlignmentList)
    assert removed == AlignmentList([], [])
    for party in PARTIES:
        assert not list(kept_by(federation, party).files())
    assert not list((federation.homes["coordinator"] / "alignments").iterdir())
    with pytest.raises(ConfigurationError, match="there is no standing alignment 'people'"):
        train(federation, 2)


def test_who_was_away_when_an_alignment_was_removed_is_named(federation: LocalFederation) -> None:
    make(federation)
    del federation.hub.endpoints["clinic"]
    assert federation.ask(RemoveAlignment("people"), AlignmentList) == AlignmentList([], ["clinic"])
    assert [file.name for _, file in kept_by(federation, "clinic").files()] == ["people"]


def test_an_owner_removes_a_standing_alignment_without_asking(federation: LocalFederation) -> None:
    make(federation)
    store = kept_by(federation, "shop")
    [(version, _)] = store.files()
    store.remove(version)
    with pytest.raises(DataError, match=r"'shop'.* no standing alignment"):
        train(federation, 2)


def test_an_alignment_whose_time_is_over_is_used_by_nobody_and_its_key_is_gone(
    federation: LocalFederation,
) -> None:
    make(federation, days=2)
    home = federation.homes["bank"]
    later = PartyStandingAlignments(home, clock=lambda: time.time() + 3 * DAY)
    assert not list((home / "standing").iterdir())
    with pytest.raises(DataError, match="no standing alignment"):
        later.read("00" * 16)
    with pytest.raises(DataError, match=r"'bank'.* no standing alignment"):
        train(federation, 2)
    coordinator = at_coordinator.CoordinatorStandingAlignments(
        federation.homes["coordinator"], clock=lambda: time.time() + 3 * DAY
    )
    assert coordinator.list() == []
    assert not list((federation.homes["coordinator"] / "alignments").iterdir())


def test_a_policy_says_for_how_long_and_by_whom(federation: LocalFederation) -> None:
    demand(federation, "standing_days = 10")
    with pytest.raises(PolicyRefusal, match=r"'bank': .* lives for at most 10 days"):
        make(federation)
    demand(federation, 'standing_askers = ["anna"]')
    with pytest.raises(PolicyRefusal, match="makes and extends no standing alignments"):
        make(federation, 2)
    demand(federation, 'standing_askers = ["user"]')
    make(federation, 3)
    demand(federation, 'standing_askers = ["anna"]')
    with pytest.raises(PolicyRefusal, match="makes and extends no standing alignments"):
        extend(federation, 4)
    assert train(federation, 5).n_rows == len(common_people())


def test_a_policy_that_was_tightened_ends_what_it_would_not_allow(
    federation: LocalFederation,
) -> None:
    make(federation)
    demand(federation, "standing_days = 0")
    with pytest.raises(PolicyRefusal, match="at most 0 days"):
        train(federation, 2)
    demand(federation, "standing_days = 1")
    assert train(federation, 3).n_rows == len(common_people())


def test_every_use_and_every_extension_counts_as_an_alignment(federation: LocalFederation) -> None:
    demand(federation, "alignments_per_day = 3")
    make(federation)
    extend(federation, 2)
    train(federation, 3)
    assert AlignmentQuota(federation.homes["bank"]).count_of("people") == 3
    with pytest.raises(PolicyRefusal, match="at most 3 alignments a day"):
        extend(federation, 4)


def test_versions_before_the_last_two_are_removed(federation: LocalFederation) -> None:
    make(federation)
    for number in (2, 3, 4):
        extend(federation, number)
    for party in PARTIES:
        assert len(list(kept_by(federation, party).files())) == 2
    points = list((federation.homes["coordinator"] / "alignments").glob("*.points"))
    assert len(points) == 1


def test_the_leakage_report_tells_of_every_kind_of_alignment(federation: LocalFederation) -> None:
    make(federation)
    reports = {}
    for number, align in enumerate((True, "psi", NAME), start=2):
        order: TrainVertical = vertical_order(align=align, validation=None)
        result = federation.ask(order, VerticalResult, bytes([number]) * 16)
        assert isinstance(result, VerticalResult)
        details = federation.ask(ShowRun(run=result.model), RunDetails)
        assert isinstance(details, RunDetails)
        reports[number] = str(details.leakage)
    assert "guessing ids" in reports[2]
    assert "guessing ids" not in reports[3] + reports[4]
    assert "asking by made-up lists" in reports[3]
    assert "following ids over time" in reports[4]
    assert "following ids over time" not in reports[3]


def test_standing_alignments_are_listed(federation: LocalFederation) -> None:
    assert federation.ask(ListAlignments(), AlignmentList) == AlignmentList([])
    made = make(federation, days=7)
    listed = federation.ask(ListAlignments(), AlignmentList)
    assert isinstance(listed, AlignmentList)
    [state] = listed.alignments
    assert (state.name, state.user, state.data) == ("people", "user", PEOPLE)
    assert state.expires == made.expires == state.created + 7 * DAY


def test_ids_are_compared_under_the_rules_of_the_data_set_that_they_are_of(
    federation: LocalFederation,
) -> None:
    """An entry with loose rules is no way round those of the one whose ids are kept."""
    make(federation)
    rules = '[data.people]\nleast_aligned_ids = 300\naskers = ["anna"]\n'
    (federation.homes["bank"] / "policy.toml").write_text(rules)
    other = {**PEOPLE, "bank": "people_measured"}
    with pytest.raises(DataError, match=r"'bank': the standing alignment .* another data set"):
        federation.ask(AlignRows(data=other, method="psi", extends="people"), Alignment)
    parameters = replace(REGRESSION, min_samples_leaf=5)
    order = vertical_order(data=other, align=NAME, validation=None, parameters=parameters)
    with pytest.raises(PolicyRefusal, match="'bank'"):
        federation.ask(order, VerticalResult, bytes([2]) * 16)
    (federation.homes["bank"] / "policy.toml").unlink()
    result = federation.ask(order, VerticalResult, bytes([3]) * 16)
    assert isinstance(result, VerticalResult)
    assert result.n_rows == len(common_people())
