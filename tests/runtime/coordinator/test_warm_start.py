"""Further trees of a forest: what services refuse before a label leaves, and what they tell."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet
import pytest

from fedforest.errors import ConfigurationError, DataError, FederationError
from fedforest.protocol.vertical.order import EarlyStopping
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.messages.results import VerticalResult
from fedforest.runtime.party.spending import Budgets
from tests.integration.local_federation import LocalFederation, local_federation
from tests.runtime.service_recordings import N_ROWS, make_pattern, vertical_order

FIRST, SECOND, THIRD = (bytes([number]) * 16 for number in (1, 2, 3))


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    with local_federation(tmp_path / "federation", make_pattern(tmp_path / "pattern")) as found:
        yield found


def order(n_trees: int, continues: bytes | None = None, **changes: Any) -> TrainVertical:
    pattern = vertical_order()
    return msgspec.structs.replace(
        pattern,
        parameters=replace(pattern.parameters, n_estimators=n_trees),
        continues=None if continues is None else continues.hex(),
        **changes,
    )


def train(federation: LocalFederation, wanted: TrainVertical, run: bytes) -> VerticalResult:
    result = federation.ask(wanted, VerticalResult, run)
    assert isinstance(result, VerticalResult)
    return result


def charged_for(federation: LocalFederation) -> list[str]:
    """Runs that the labels of the bank were paid for."""
    return [
        spend.run for spend in Budgets(federation.homes["bank"]).read("columns", math.inf).spends
    ]


def test_a_forest_grown_in_two_runs_is_that_of_one(federation: LocalFederation) -> None:
    train(federation, order(2), FIRST)
    grown = train(federation, order(4, FIRST), SECOND)
    assert grown.n_trees == 4
    assert grown.out_of_bag_curve is not None
    assert len(grown.out_of_bag_curve) == 2 * 8  # of the new trees, after all those before


WRONG: list[tuple[dict[str, Any], type[FederationError], str]] = [
    ({"n_trees": 2}, ConfigurationError, "has 2 trees already"),
    ({"n_trees": 1}, ConfigurationError, "larger or equal to the 2 trees"),
    ({"label_party": "shop"}, ConfigurationError, "earlier fits had 'bank'"),
    ({"data": {"shop": "columns", "bank": "columns"}}, ConfigurationError, "same parties"),
    ({"out_of_bag": True}, ConfigurationError, "cannot begin in a warm start"),
    ({"early_stopping": EarlyStopping(1, 0.0)}, ConfigurationError, "cannot begin in a warm start"),
]


@pytest.mark.parametrize(("changes", "kind", "why"), WRONG)
def test_what_a_forest_cannot_grow_on_with_is_refused_before_labels_leave(
    federation: LocalFederation, changes: dict[str, Any], kind: type[FederationError], why: str
) -> None:
    train(federation, order(2, out_of_bag=False), FIRST)
    wanted = {"n_trees": 3, "out_of_bag": False, **changes}
    with pytest.raises(kind, match=why):
        train(federation, order(wanted.pop("n_trees"), FIRST, **wanted), SECOND)
    assert charged_for(federation) == [FIRST.hex()]
    assert train(federation, order(3, FIRST, out_of_bag=False), THIRD).n_trees == 3


def test_votes_cannot_begin_again_once_trees_were_grown_without(
    federation: LocalFederation,
) -> None:
    train(federation, order(2), FIRST)
    train(federation, order(3, FIRST, out_of_bag=False), SECOND)
    with pytest.raises(ConfigurationError, match="cannot begin in a warm start"):
        train(federation, order(4, SECOND), THIRD)
    assert charged_for(federation) == [FIRST.hex(), SECOND.hex()]


def test_votes_about_other_rows_are_not_added_to(federation: LocalFederation) -> None:
    train(federation, order(2), FIRST)
    for party in ("bank", "shop"):
        file = federation.homes[party] / "columns.parquet"
        pyarrow.parquet.write_table(pyarrow.parquet.read_table(file).slice(1), file)
    with pytest.raises(DataError, match="needs the same rows"):
        train(federation, order(3, FIRST), SECOND)
    assert charged_for(federation) == [FIRST.hex()]
    grown = train(federation, order(3, FIRST, out_of_bag=False), THIRD)
    assert grown.n_rows == N_ROWS - 1


def test_a_report_tells_what_a_run_and_what_all_fits_of_its_forest_spent(
    federation: LocalFederation,
) -> None:
    train(federation, order(2), FIRST)
    train(federation, order(3, FIRST, label_epsilon=0.5), SECOND)
    train(federation, order(4, SECOND, label_epsilon=None), THIRD)
    told = [
        json.loads(
            (federation.homes["coordinator"] / "runs" / run.hex() / "leakage.json").read_bytes()
        )
        for run in (FIRST, SECOND, THIRD)
    ]
    spent = [report["figures"]["label_epsilon_spent"] for report in told]
    in_all = [report["figures"].get("label_epsilon_spent_by_all_fits", "-") for report in told]
    assert spent == [2.0, 0.5, None]
    assert in_all == ["-", 2.5, None]
    text = [" ".join(line["what"] for line in report["follows"]) for report in told]
    assert "epsilon = 2 for each label over all fits" in " ".join(text[0].split())
    assert "epsilon = 2.5 for each label over all fits" in " ".join(text[1].split())
    assert "over all fits" not in text[2]  # nothing limits what the last one told
