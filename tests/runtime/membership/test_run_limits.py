"""Limits of runs: what is refused, by which name, and for whom."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedforest.error_texts import TEXTS
from fedforest.errors import AccessRefused, ConfigurationError
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.membership.homes import (
    COORDINATOR_FILE,
    CoordinatorSettings,
    read_settings,
)
from fedforest.runtime.membership.run_limits import LimitsOfUsers, RunLimits
from fedforest.runtime.messages.orders import (
    DescribeTables,
    ListRuns,
    ResumeRun,
    TrainVertical,
    encode_order,
)
from fedforest.runtime.messages.results import RunList, VerticalResult
from fedforest.runtime.party.policy import DataSetRules
from tests.hostile.lying_parties import federation_with
from tests.runtime.service_recordings import vertical_order


def order(**parameters: Any) -> TrainVertical:
    plain = vertical_order()
    return msgspec.structs.replace(plain, parameters=replace(plain.parameters, **parameters))


def test_a_party_that_is_no_member_is_refused_before_anything_waits(tmp_path: Path) -> None:
    with federation_with(tmp_path, members=lambda: ["bank", "shop"]) as federation:
        for asked in (
            msgspec.structs.replace(order(), data={"bank": "columns", "shpo": "columns"}),
            DescribeTables(data={"shpo": "columns"}),
        ):
            with pytest.raises(ConfigurationError, match="did you mean 'shop'"):
                next(federation.coordinator.serve("ann", encode_order(asked)))
        assert federation.ask(ListRuns(), RunList) == RunList([])


def test_a_forest_of_a_billion_trees_is_refused_before_it_is_stored(tmp_path: Path) -> None:
    with federation_with(tmp_path) as federation:
        with pytest.raises(AccessRefused, match=r"1000000000 trees.*10000.*most_trees"):
            next(federation.coordinator.serve("ann", encode_order(order(n_estimators=10**9))))
        assert federation.ask(ListRuns(), RunList) == RunList([])
        assert list((federation.homes["coordinator"] / "runs").iterdir()) == []


def test_trees_without_a_depth_are_deeper_than_any_limit() -> None:
    limits = RunLimits(most_depth=8)
    limits.check(order(max_depth=8))
    for depth in (9, None):
        with pytest.raises(AccessRefused, match="most_depth"):
            limits.check(order(max_depth=depth))


def test_a_user_may_have_limits_of_its_own() -> None:
    limits = LimitsOfUsers(most_trees=10, users={"ann": {"most_trees": 20}})
    limits.of("ann").check(order(n_estimators=20))
    with pytest.raises(AccessRefused):
        limits.of("ben").check(order(n_estimators=11))
    assert limits.of("ann").most_queued_runs == limits.most_queued_runs


def test_a_run_that_takes_too_long_is_paused_by_the_name_of_the_limit(tmp_path: Path) -> None:
    limits = LimitsOfUsers(users={"user": {"most_run_seconds": 1e-9}})
    with federation_with(tmp_path, limits=limits) as federation:
        with pytest.raises(AccessRefused, match="most_run_seconds"):
            federation.ask(vertical_order(), VerticalResult)
        listed = federation.ask(ListRuns(), RunList)
        assert isinstance(listed, RunList)
        assert listed.runs[0].state == "paused"
        federation.coordinator.close()
        federation.coordinator = CoordinatorService(  # the operator changed the file
            federation.homes["coordinator"], federation.hub, limits=LimitsOfUsers()
        )
        federation.coordinator.start()
        again = ResumeRun(run=listed.runs[0].run)
        assert isinstance(federation.ask(again, VerticalResult), VerticalResult)


def test_limits_are_read_from_the_coordinators_file(tmp_path: Path) -> None:
    file = tmp_path / COORDINATOR_FILE
    file.write_text("[limits]\nmost_trees = 7\n[limits.users.ann]\nmost_trees = 9\n")
    limits = read_settings(tmp_path, COORDINATOR_FILE, CoordinatorSettings).limits
    assert (limits.most_trees, limits.of("ann").most_trees) == (7, 9)
    file.write_text("[limits.users.ann]\nmost_treees = 9\n")
    with pytest.raises(ConfigurationError, match="ann"):
        read_settings(tmp_path, COORDINATOR_FILE, CoordinatorSettings)


def test_the_guide_tells_the_default_of_the_patience_with_parties() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "how-to" / "federation.md").read_text()
    seconds = f"{CoordinatorSettings().patience_seconds:g}"
    assert f"`patience_seconds` (`coordinator.toml`, {seconds} seconds unless" in " ".join(
        guide.split()
    )


def test_every_limit_is_named_with_its_value_and_who_sets_it() -> None:
    limits = RunLimits(
        most_trees=2,
        most_row_trees=2,
        most_memory_bytes=2,
        most_stored_bytes=2,
        most_depth=2,
        most_run_seconds=2.0,
        most_queued_runs=2,
    )
    passing: dict[str, Any] = {
        "most_trees": lambda: limits.check(order(n_estimators=3, max_depth=1)),
        "most_depth": lambda: limits.check(order(n_estimators=1, max_depth=3)),
        "most_row_trees": lambda: limits.check_rows(3, 1),
        "most_memory_bytes": lambda: limits.check_plan(3, 1),
        "most_stored_bytes": lambda: limits.check_plan(1, 3),
        "most_run_seconds": lambda: limits.check_time(3.0),
        "most_queued_runs": lambda: limits.check_queue(2),
    }
    assert passing.keys() == set(RunLimits.__struct_fields__)
    for name, check in passing.items():
        with pytest.raises(AccessRefused) as caught:
            check()
        text = str(caught.value)
        assert f"its operator sets {name} under [limits] in coordinator.toml" in text
        assert "allows 2;" in text
        assert "3" in text
        assert caught.value.party == ""


def test_a_rule_of_a_party_with_a_limit_is_refused_by_the_name_of_its_setting() -> None:
    rules = set(DataSetRules.__struct_fields__)
    meant = {"leaf": "min_samples_leaf", "participants": "min_participants"}  # what runs call them
    for code, text in TEXTS.items():
        if code.startswith("policy.") and "{limit}" in text.says:
            named = re.findall(r"\(([a-z_]+)", text.says)
            wanted = meant.get(code.removeprefix("policy."))
            assert wanted in named if wanted else rules & set(named), code
