"""The coordinator wants more rows predicted than the owner lets go in a day."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedforest.errors import PolicyRefusal, RemoteProtocolError
from fedforest.protocol.linear.messages import ScoreRows
from fedforest.protocol.vertical.prediction.messages import RouteRows
from fedforest.runtime.messages.results import LinearResult
from fedforest.runtime.messages.roles import RowChoice
from fedforest.runtime.party.policy import ALLOW_EVERYTHING
from fedforest.runtime.party.spending import MOST_ASKERS, PredictionQuota
from tests.hostile.lying_coordinator import BANK, PlayedPrediction, trained_federation
from tests.integration.local_federation import LocalFederation, make_party
from tests.runtime.ruled_federations import demand
from tests.runtime.service_recordings import N_ROWS, RUN, linear_order

LIMIT = "prediction_rows_per_day_total = 100"


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    with trained_federation(tmp_path) as federation:
        demand(federation, LIMIT)
        yield federation


def predict(federation: LocalFederation, number: int, n_rows: int, **begin: Any) -> None:
    rows = memoryview(np.arange(n_rows, dtype="<i4").tobytes())
    PlayedPrediction(federation, number, rows=rows, **begin).ask(RouteRows(0, n_rows, 1))


def count_all(home: Path) -> int:
    """Rows that are counted, of all askers."""
    counts: dict[str, int] = json.loads((home / "prediction_rows.json").read_text())["counts"]
    return sum(counts.values())


def test_an_invented_asker_is_no_further_quota(federation: LocalFederation) -> None:
    for number in range(10):
        predict(federation, number, 10, asker=f"user{number}")
    for asker in ("user0", "nobody", ""):
        with pytest.raises(PolicyRefusal, match="at most 100 rows a day of all askers together"):
            predict(federation, 77, 1, asker=asker)


def test_the_total_survives_a_restart(federation: LocalFederation) -> None:
    predict(federation, 1, 60)
    federation.parties[BANK].close()
    federation.parties[BANK] = make_party(federation.homes[BANK])
    with pytest.raises(PolicyRefusal, match="all askers together"):
        predict(federation, 2, 60, asker="another")
    assert count_all(federation.homes[BANK]) == 60


def test_rows_are_counted_before_anything_is_answered(federation: LocalFederation) -> None:
    prediction = PlayedPrediction(federation)
    with pytest.raises(RemoteProtocolError):
        prediction.ask(RouteRows(0, N_ROWS + 1, 1))
    assert count_all(federation.homes[BANK]) == N_ROWS


def test_held_out_rows_are_counted_as_any_others(federation: LocalFederation) -> None:
    for number in range(3):  # 30 rows each, whatever seed they are drawn with
        choice = RowChoice(held_out=0.5, seed=number, is_validation=True)
        PlayedPrediction(federation, number, choice=choice).ask(RouteRows(0, 30, 1))
    choice = RowChoice(held_out=0.5, seed=3)
    with pytest.raises(PolicyRefusal, match="all askers together"):
        PlayedPrediction(federation, 3, choice=choice, part_of=RUN.hex()).ask(RouteRows(0, 30, 1))


def test_names_of_askers_do_not_fill_the_disk(tmp_path: Path) -> None:
    quota = PredictionQuota(tmp_path)
    for number in range(MOST_ASKERS + 50):
        quota.take(ALLOW_EVERYTHING, f"user{number}", 1)
    assert count_all(tmp_path) == MOST_ASKERS + 50
    assert quota.count("") == 50
    assert len((tmp_path / "prediction_rows.json").read_bytes()) < 20 * MOST_ASKERS


def test_a_linear_model_scores_its_rows_once(federation: LocalFederation) -> None:
    run = bytes([9]) * 16
    federation.ask(linear_order(), LinearResult, run)
    prediction = PlayedPrediction(federation, model=run)
    prediction.ask(ScoreRows())
    with pytest.raises(RemoteProtocolError, match="ScoreRows is not agreed on after ScoreRows"):
        prediction.ask(ScoreRows())
    with pytest.raises(PolicyRefusal, match="all askers together"):
        PlayedPrediction(federation, 8, model=run).ask(ScoreRows())
