"""Plans of live runs: from the sizes that parties tell, kept with the run, and limits by them."""

from pathlib import Path
from typing import Any

import pytest

from fedforest.errors import AccessRefused, PolicyRefusal
from fedforest.runtime.membership.run_limits import LimitsOfUsers
from fedforest.runtime.messages.orders import DescribeTables, ListRuns, ShowRun
from fedforest.runtime.messages.results import (
    RunDetails,
    RunList,
    TablesDescribed,
    VerticalResult,
)
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.approval import check_forest, check_stored
from fedforest.runtime.party.policy import DataSetRules
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.lying_parties import federation_with
from tests.runtime.service_recordings import vertical_order


def test_parties_tell_the_sizes_of_their_tables_for_a_plan(tmp_path: Path) -> None:
    order = vertical_order()
    with federation_with(tmp_path) as federation:
        told: Any = federation.ask(DescribeTables(data=order.data), TablesDescribed)
        assert told.sizes.keys() == order.data.keys()
        result: Any = federation.ask(order, VerticalResult)
        n_columns = dict(result.columns_per_party)
        n_columns[order.label_party] += 1  # the label
        assert told.sizes == {party: (result.n_rows, n) for party, n in n_columns.items()}


def test_a_finished_run_shows_its_plan_beside_what_it_took(tmp_path: Path) -> None:
    with federation_with(tmp_path) as federation:
        federation.ask(vertical_order(), VerticalResult)
        details = show_last(federation)
    assert details.plan is not None
    assert details.plan["bytes_from"].keys() == details.bytes_from.keys()
    assert sum(details.plan["bytes_from"].values()) == pytest.approx(
        sum(details.bytes_from.values()), rel=0.5
    )  # a small run, of which envelopes are much
    assert details.peak_memory_bytes is not None
    assert details.peak_memory_bytes > 2**20


LIMITS = [("most_row_trees", 10), ("most_memory_bytes", 1000), ("most_stored_bytes", 10)]


@pytest.mark.parametrize(("limit", "value"), LIMITS)
def test_a_run_beyond_a_limit_of_its_plan_fails_before_a_tree_grows(
    tmp_path: Path, limit: str, value: int
) -> None:
    limits = LimitsOfUsers(users={"user": {limit: value}})
    with federation_with(tmp_path, limits=limits) as federation:
        with pytest.raises(AccessRefused, match=rf"allows {value:g}.*its operator sets {limit}"):
            federation.ask(vertical_order(), VerticalResult)
        details = show_last(federation)
        assert details.state.state == "failed"
        assert details.state.n_exchanges == 0


def test_a_run_that_stores_more_than_planned_is_paused_by_the_name_of_the_limit() -> None:
    limits = LimitsOfUsers(most_stored_bytes=1000).of("ann")
    limits.check_plan(0, 900)
    with pytest.raises(AccessRefused, match=r"1001 stored bytes.*most_stored_bytes"):
        limits.check_stored(1001)


FOREST = ForestParameters(n_estimators=10, min_samples_leaf=5)


@pytest.mark.parametrize(
    "rules",
    [
        DataSetRules(most_row_trees=999),
        DataSetRules(most_memory_bytes=10**8),
    ],
)
def test_a_party_refuses_a_run_that_is_too_much_for_it_by_the_name_of_its_rule(
    rules: DataSetRules,
) -> None:
    name = "most_row_trees" if rules.most_row_trees < 10**6 else "most_memory_bytes"
    check_forest(DataSetRules(), Terms(forest=FOREST), (100, 5))
    with pytest.raises(PolicyRefusal, match=name):
        check_forest(rules, Terms(forest=FOREST), (100, 5))


def test_a_party_stores_no_more_of_a_run_than_its_policy_says() -> None:
    rules = DataSetRules(most_stored_bytes=100)
    check_stored(rules, 100)
    with pytest.raises(PolicyRefusal, match=r"more than 100 bytes.*most_stored_bytes"):
        check_stored(rules, 101)


def show_last(federation: Any) -> RunDetails:
    listed = federation.ask(ListRuns(), RunList)
    details: RunDetails = federation.ask(ShowRun(run=listed.runs[-1].run), RunDetails)
    return details
