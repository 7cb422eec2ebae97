"""The ledger refuses before anything is sent, counts a memory once, and survives storage."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import BudgetExhausted, ConfigurationError, DataError, PrivacyError
from fedforest.privacy.budget import BudgetLedger
from fedforest.privacy.composition import (
    PrivacySpending,
    spend_local,
    spend_nothing_private,
)
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.queries import Queries

CODE = LocalDP(keep=0.9).resolve(2)
CAP = CODE.cap
KEY = b"k" * 32


def laplace(epsilon: float, n_queries: int = 1) -> PrivacySpending:
    return PrivacySpending(
        mechanism="global", queries=Queries(n_queries, 1, 1), epsilon_query=epsilon
    )


def local(levels: int | None = None, key: bytes = KEY, **settings: Any) -> PrivacySpending:
    code = LocalDP(**{"keep": 0.9} | settings).resolve(2)
    return spend_local(code, Queries(1, levels, 1)).under_key(code, key)


def test_a_run_that_would_pass_the_ceiling_is_refused_and_not_charged() -> None:
    ledger = BudgetLedger(1.0)
    ledger.reserve("first", laplace(0.75))
    with pytest.raises(BudgetExhausted, match=r"from 0.75 to 1.05, above .* ceiling of 1"):
        ledger.reserve("second", laplace(0.3))
    assert ledger.spent == 0.75
    assert ledger.remaining == 0.25
    ledger.reserve("third", laplace(0.25))
    assert ledger.spent == 1.0
    with pytest.raises(BudgetExhausted):
        ledger.reserve("fourth", laplace(1e-9))


def test_rounding_does_not_refuse_what_fits() -> None:
    ledger = BudgetLedger(1.0)
    for run in range(10):
        ledger.reserve(str(run), laplace(0.1))
    assert ledger.spent == 1.0


def test_no_privacy_fits_no_finite_ceiling() -> None:
    with pytest.raises(BudgetExhausted, match="inf"):
        BudgetLedger(1e9).reserve("run", spend_nothing_private(Queries(1, 1, 1)))
    ledger = BudgetLedger(math.inf)
    ledger.reserve("run", spend_nothing_private(Queries(1, 1, 1)))
    assert ledger.spent == ledger.remaining == math.inf


def test_runs_from_the_same_permanent_responses_share_one_cap() -> None:
    ledger = BudgetLedger(CAP)
    for run in range(5):
        ledger.reserve(str(run), local())
    assert ledger.spent == CAP
    ledger.reserve("other instant layer", local(p=0.8, q=0.3))
    assert ledger.spent == CAP


def test_below_the_cap_runs_of_one_memory_add_up() -> None:
    ledger = BudgetLedger(100.0)
    ledger.reserve("a", local(levels=1))
    one = ledger.spent
    assert one == local(levels=1).epsilon_query < CAP < 2 * one
    ledger.reserve("b", local(levels=1))
    assert ledger.spent == CAP


@pytest.mark.parametrize("change", [{"keep": 0.8}, {"bits": 3}, {"key": bytes(32)}])
def test_other_parameters_or_another_key_are_paid_again(change: dict[str, Any]) -> None:
    ledger = BudgetLedger(100.0)
    ledger.reserve("a", local())
    other = local(**change)
    ledger.reserve("b", other)
    assert ledger.spent == pytest.approx(CAP + other.epsilon_cap)


def test_local_runs_that_name_no_memory_share_nothing() -> None:
    ledger = BudgetLedger(100.0)
    for run in ("a", "b"):
        ledger.reserve(run, spend_local(CODE, Queries(1, None, 1)))
    assert ledger.spent == pytest.approx(2 * CAP)


def test_local_and_global_runs_add_up() -> None:
    ledger = BudgetLedger(100.0)
    ledger.reserve("a", local())
    ledger.reserve("b", laplace(0.5, 4))
    assert ledger.spent == pytest.approx(CAP + 2.0)


def test_a_run_that_goes_on_after_an_interruption_is_not_charged_again() -> None:
    ledger = BudgetLedger(1.0)
    ledger.reserve("run", laplace(0.75))
    ledger.reserve("run", laplace(0.75))
    assert ledger.spent == 0.75
    with pytest.raises(PrivacyError, match="already charged with another"):
        ledger.reserve("run", laplace(0.7))


def test_a_run_that_asked_less_than_planned_gets_the_rest_back() -> None:
    ledger = BudgetLedger(1.0)
    ledger.reserve("run", laplace(0.1, 8))
    ledger.settle("run", laplace(0.1, 5))
    assert ledger.spent == pytest.approx(0.5)
    with pytest.raises(PrivacyError, match="spent more"):
        ledger.settle("run", laplace(0.1, 6))
    with pytest.raises(PrivacyError, match="reserved nothing"):
        ledger.settle("other", laplace(0.1))


def test_a_run_cannot_settle_for_another_memory() -> None:
    ledger = BudgetLedger(100.0)
    ledger.reserve("run", local())
    with pytest.raises(PrivacyError, match="something other"):
        ledger.settle("run", local(key=bytes(32)))


@pytest.mark.parametrize("ceiling", [-1.0, math.nan, -math.inf, "1", None, True])
def test_a_ceiling_that_is_none_is_refused(ceiling: Any) -> None:
    with pytest.raises(ConfigurationError, match="ceiling must be"):
        BudgetLedger(ceiling)


def test_nothing_private_fits_a_ceiling_of_zero() -> None:
    with pytest.raises(BudgetExhausted):
        BudgetLedger(0).reserve("run", laplace(1e-12))


@given(st.lists(st.sampled_from([laplace(0.5), laplace(0.1, 3), local(), local(levels=1)])))
def test_a_stored_ledger_is_the_same_ledger(spendings: list[PrivacySpending]) -> None:
    ledger = BudgetLedger(1e3)
    for run, spending in enumerate(spendings):
        ledger.reserve(f"run {run}", spending)
    again = BudgetLedger.from_dict(json.loads(json.dumps(ledger.as_dict(), allow_nan=False)))
    assert again.spends == ledger.spends
    assert (again.ceiling, again.spent) == (ledger.ceiling, ledger.spent)


def test_an_unlimited_ledger_is_stored_without_infinities() -> None:
    ledger = BudgetLedger(math.inf)
    ledger.reserve("run", spend_nothing_private(Queries(1, None, 1)))
    again = BudgetLedger.from_dict(json.loads(json.dumps(ledger.as_dict(), allow_nan=False)))
    assert again.ceiling == again.spent == math.inf


LINE = {"run": "a", "memory": "", "composed": 1.0, "cap": None}


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"ceiling": 1.0},
        {"ceiling": -1.0, "spends": []},
        {"ceiling": 1.0, "spends": [{"run": "a"}]},
        {"ceiling": 1.0, "spends": [LINE, LINE]},
        {"ceiling": 1.0, "spends": [LINE | {"composed": -1.0}]},
        {"ceiling": 1.0, "spends": [LINE | {"composed": math.nan}]},
        {"ceiling": 1.0, "spends": [LINE | {"run": 3}]},
        {"ceiling": 1.0, "spends": [LINE | {"extra": 3}]},
        {"ceiling": 1.0, "spends": 5},
    ],
)
def test_what_is_no_stored_ledger_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="stored privacy ledger"):
        BudgetLedger.from_dict(stored)
