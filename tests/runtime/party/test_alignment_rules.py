"""What a policy says about alignment holds at the party's service; an intersection resumes."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from fedforest.errors import DataError, PolicyRefusal
from fedforest.runtime.messages.orders import AlignmentMethod, AlignRows
from fedforest.runtime.messages.results import Alignment
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.party.spending import AlignmentQuota
from tests.integration.federation_folder import FederationFolder
from tests.integration.local_federation import LocalFederation, local_federation, make_party
from tests.runtime.partly_shared import PARTIES, common_people, make_pattern, make_tables
from tests.runtime.ruled_federations import demand

METHODS = pytest.mark.parametrize("method", ["keyed-hash", "psi"])
N_COMMON = len(common_people())


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> FederationFolder:
    return make_pattern(tmp_path_factory.mktemp("pattern"))


@pytest.fixture
def federation(pattern: FederationFolder, tmp_path: Path) -> Iterator[LocalFederation]:
    with local_federation(tmp_path, pattern) as federation:
        yield federation


def align(federation: LocalFederation, method: AlignmentMethod, number: int = 1) -> Alignment:
    order = AlignRows(data=dict.fromkeys(PARTIES, "people"), method=method)
    alignment = federation.ask(order, Alignment, bytes([number]) * 16)
    assert isinstance(alignment, Alignment)
    return alignment


def test_a_policy_says_by_which_methods_rows_are_aligned(federation: LocalFederation) -> None:
    demand(federation, 'alignment_methods = ["psi"]')
    with pytest.raises(PolicyRefusal, match=r"party 'bank': .* must be by one of: psi"):
        align(federation, "keyed-hash")
    assert align(federation, "psi", 2).n_common == N_COMMON


@METHODS
def test_a_list_that_is_too_short_is_refused(
    federation: LocalFederation, method: AlignmentMethod
) -> None:
    demand(federation, "least_aligned_ids = 301")
    with pytest.raises(PolicyRefusal, match="fewer than 301 ids"):
        align(federation, method)
    demand(federation, "least_aligned_ids = 300")
    assert align(federation, method, 2).n_common == N_COMMON


@METHODS
def test_a_data_set_of_one_row_is_no_question_about_one_person(
    federation: LocalFederation, method: AlignmentMethod
) -> None:
    """Without any policy file: the asking party has one row, and the others refuse to compare."""
    for party, home in federation.homes.items():
        if party != "coordinator":
            (home / "policy.toml").unlink()
    table = make_tables()["shop"]["people"].slice(0, 1)
    pyarrow.parquet.write_table(table, federation.homes["shop"] / "people.parquet")
    with pytest.raises(PolicyRefusal, match="fewer than 10 ids"):
        align(federation, method)
    for home in federation.homes.values():
        assert not list(home.glob("alignments/*"))


@METHODS
def test_common_rows_that_are_too_few_are_told_to_nobody(
    federation: LocalFederation, method: AlignmentMethod
) -> None:
    demand(federation, f"least_common_ids = {N_COMMON + 1}", "clinic")
    with pytest.raises(DataError, match=rf"fewer than {N_COMMON + 1} ids .* 'clinic'"):
        align(federation, method)
    for home in federation.homes.values():
        assert not list(home.glob("alignments/*"))
    demand(federation, f"least_common_ids = {N_COMMON}", "clinic")
    assert align(federation, method, 2).n_common == N_COMMON


def test_alignments_of_a_day_are_counted_over_methods_askers_and_restarts(
    federation: LocalFederation,
) -> None:
    demand(federation, "alignments_per_day = 2")
    align(federation, "keyed-hash")
    align(federation, "psi", 2)
    federation.parties["bank"].close()
    federation.hub.endpoints["bank"] = make_party(federation.homes["bank"]).answer
    with pytest.raises(PolicyRefusal, match="at most 2 alignments a day"):
        align(federation, "psi", 3)
    home = federation.homes["bank"]
    assert AlignmentQuota(home).count_of("people") == 2
    assert AlignmentQuota(home, day=lambda: "2999-01-01").count_of("people") == 0


def test_alignments_of_a_day_are_limited_for_each_asker(tmp_path: Path) -> None:
    rules = DataSetRules(alignments_per_day=4, alignments_per_day_per_asker=2)
    quota = AlignmentQuota(tmp_path)
    quota.take(rules, "mallory", "people")
    quota.take(rules, "mallory", "accounts")
    with pytest.raises(PolicyRefusal, match="at most 2 alignments a day of one asker"):
        quota.take(rules, "mallory", "people")
    AlignmentQuota(tmp_path).take(rules, "anna", "people")
    quota.take(rules, "ben", "people")
    with pytest.raises(PolicyRefusal, match="at most 4 alignments a day"):
        quota.take(rules, "carla", "people")
    assert quota.count_of("people") == 3


def restart(federation: LocalFederation, before: int, *, changed: bool = False) -> None:
    """Restart the bank before it answers its request of this number, maybe with other ids."""
    n_asked = 0

    def answer(data: bytes) -> bytes:
        nonlocal n_asked
        n_asked += 1
        if n_asked == before:
            home = federation.homes["bank"]
            if changed:
                table = make_tables()["bank"]["people"]
                pyarrow.parquet.write_table(table.slice(1), home / "people.parquet")
            federation.parties["bank"].close()
            federation.parties["bank"] = make_party(home)
        return federation.parties["bank"].answer(data)

    federation.hub.endpoints["bank"] = answer


@pytest.mark.parametrize("before", range(2, 9))
def test_a_party_that_is_killed_goes_on_with_the_same_key_and_list(
    federation: LocalFederation, before: int
) -> None:
    restart(federation, before)
    alignment = align(federation, "psi")
    assert alignment.n_common == N_COMMON
    kept = [
        [
            make_tables()[party]["people"].column("id")[row].as_py()
            for row in Alignments(federation.homes[party] / "alignments").read(alignment.id).rows()
        ]
        for party in PARTIES
    ]
    assert kept[0] == kept[1] == kept[2]


def test_a_list_that_changed_since_it_was_declared_is_not_blinded(
    federation: LocalFederation,
) -> None:
    restart(federation, 5, changed=True)
    with pytest.raises(DataError, match="party 'bank': data set 'people' is not what it was"):
        align(federation, "psi")
