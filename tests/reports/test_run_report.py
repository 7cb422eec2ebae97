"""The file that is mailed: complete in itself, inert, and without names that stay with parties."""

import re
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest import HorizontalExtraTreesClassifier
from fedforest.errors import AccessRefused
from fedforest.reports.charts import nice_ticks
from fedforest.reports.page import wilson_interval
from fedforest.reports.run_report import write_run_report
from fedforest.runtime.client.reports import fetch_report
from fedforest.runtime.messages.orders import ShowRun
from fedforest.runtime.messages.results import (
    HorizontalResult,
    RunDetails,
    RunState,
)
from tests.estimators.vertical_samples import labels, numbers
from tests.reports.run_samples import VERTICAL, run
from tests.reports.test_markup import HOSTILE, Reader


def check_that_it_is_inert(page: str) -> None:
    found = Reader(page).found
    assert not {"script", "link", "iframe", "img", "form", "object"} & {tag for tag, _ in found}
    for _, attributes in found:
        assert not {"src", "href", "style"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"url\(|@import|https?:", page)
    policies = [a["content"] for _, a in found if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies
    assert str(policies[0]).startswith("default-src 'none'")


def test_a_vertical_run_has_scores_intervals_importances_curve_leakage_and_origin() -> None:
    page = write_run_report(run(), VERTICAL)
    check_that_it_is_inert(page)
    text = Reader(page).text
    for expected in (
        *("churn", "0.9500", "bank alone", "predicted left", "Out-of-bag score by number of trees"),
        *("accuracy federated", "+0.2500"),
        *("bank, column 1", "their names stay with their owners", "withheld by shop"),
        *("people who are alike", "which rows share a class", "n_estimators", "by ann", "ab" * 16),
    ):
        assert expected in text or expected in page, expected
    low, high = wilson_interval(0.95, 20)
    assert 0.0 < low < 0.95 < high < 1.0


def test_a_horizontal_run_has_names_and_trees() -> None:
    forest = HorizontalExtraTreesClassifier(4, random_state=0).fit(numbers(), labels(numbers()))
    result = HorizontalResult(
        model="ab" * 16,
        file=forest.to_bytes(),
        n_rows=150,
        candidates_per_node=2,
        n_trees_begun=4,
        lost=[],
    )
    page = write_run_report(run("horizontal"), result)
    check_that_it_is_inert(page)
    assert "Tree 3" in page
    assert "Tree 4" not in page
    assert "x2" in page


def test_names_that_hold_markup_are_shown_as_they_are() -> None:
    state = msgspec.structs.replace(run().state, name=HOSTILE, user=f"f/user/{HOSTILE}")
    order = {**run().order, "data": {HOSTILE: HOSTILE}, "label": HOSTILE}
    hostile = run(state=state, order=order, classes=[HOSTILE, "b"], bytes_from={HOSTILE: 1})
    result = msgspec.structs.replace(
        VERTICAL, importances={HOSTILE: np.ones(1).tobytes()}, columns_per_party={HOSTILE: 1}
    )
    check_that_it_is_inert(write_run_report(hostile, result))


@pytest.mark.parametrize("state", ["queued", "running", "paused", "failed", "cancelled"])
def test_a_run_without_a_result_has_a_page_too(state: str) -> None:
    unfinished = RunDetails(
        state=RunState("ab" * 16, state, "waits for shop", protocol="vertical"),
        order={"data": {"bank": "customers"}},
    )
    page = write_run_report(unfinished)
    check_that_it_is_inert(page)
    assert "waits for shop" in page


def test_a_user_who_may_only_look_gets_the_report_without_the_model() -> None:
    details = run()

    def look(order: Any, _: type[Any]) -> Any:
        if isinstance(order, ShowRun):
            return details
        raise AccessRefused.of("access.role", user="vera", role="viewer", request="WatchRun")

    def have(order: Any, _: type[Any]) -> Any:
        return details if isinstance(order, ShowRun) else VERTICAL

    assert fetch_report(look, "ab" * 16) == (details, None)
    assert fetch_report(have, "ab" * 16) == (details, VERTICAL)


@pytest.mark.parametrize(("low", "high"), [(0.93, 0.99), (1, 200), (-5.0, 1e6), (0.5, 0.5)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert 1 <= len(ticks) <= 7
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)
