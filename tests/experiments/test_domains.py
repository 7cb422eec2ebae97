"""Figure 4 of Federated Forest: domains join one by one, in processes of their own."""

from pathlib import Path

import numpy as np
import pytest

from fedforest.experiments.data.reading import PaperTable, read_table
from fedforest.experiments.experiment import FAILS, HOLDS
from fedforest.experiments.live import domains
from fedforest.experiments.live.domains import FIGURE_4, deal_columns
from fedforest.experiments.live.domains_report import (
    ALL,
    BUSIEST,
    COORDINATOR,
    PREDICT,
    ROLES,
    ROUND,
    SCORE,
    SCORES,
    SECONDS,
    TRAIN,
    spent_by,
)
from fedforest.experiments.live.federation import LiveFederation
from fedforest.experiments.record import Record

WHATS = (TRAIN, PREDICT, ROUND)


def test_columns_of_no_group_belong_to_the_first_domain() -> None:
    X = np.zeros((3, 6))
    table = PaperTable(
        "made",
        "classification",
        X,
        X,
        np.zeros(3),
        groups={
            "a": np.array([0, 1]),
            "b": np.array([3, 5]),
        },
    )
    assert [list(own) for own in deal_columns(table)] == [[0, 1, 2, 4], [3, 5]]


def test_made_tables_have_eight_domains() -> None:
    table = read_table("parkinson", synthetic=True, quick=True)
    assert len(deal_columns(table)) == domains.N_DOMAINS


@pytest.mark.slow
def test_domains_train_and_predict_in_processes_of_their_own(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    pyarrow = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    tables = {
        "domain_1": pyarrow.table({"column_0": X[:, 0], "label": (X.sum(axis=1) > 0).astype(int)}),
        "domain_2": pyarrow.table({"column_0": X[:, 1]}),
    }
    both = {party: {"training": t, "testing": t} for party, t in tables.items()}
    with LiveFederation(tmp_path, both) as live, live.connect() as client:
        seconds = domains.train_and_predict(domains.Connected(live, client), 2, seed=1)
    told = {what: {who: seconds[spent_by(what, who)] for who in ROLES} for what in WHATS}
    assert set(seconds) == {*WHATS, *(spent_by(what, who) for what in WHATS for who in ROLES)}
    assert all(value > 0.0 for value in seconds.values())
    assert all(of[ALL] >= of[COORDINATOR] + of[BUSIEST] for of in told.values())


@pytest.mark.parametrize(("late", "verdict"), [(0.03, HOLDS), (0.3, FAILS)])
def test_prediction_that_takes_many_times_as_long_is_not_flat(late: float, verdict: str) -> None:
    record = Record("ff-fig-4", {})
    for n in (1, 2, 8):
        for score in (0.7, 0.71):
            key = ("parkinson, accuracy", "accuracy", str(n))
            record.add(key, {"score": score + n / 100, "columns": n})
        seconds = {TRAIN: 1.0 + n, PREDICT: 0.02, ROUND: late if n == 8 else 0.02}
        record.add(("parkinson, seconds", TRAIN, str(n)), seconds)
    checks = FIGURE_4.report(record).checks
    assert [check.verdict for check in checks] == [HOLDS, HOLDS, HOLDS, verdict]
    assert [bool(check.cause) for check in checks] == [False] * 3 + [verdict == FAILS]


def test_processor_time_tells_why_prediction_is_not_flat() -> None:
    record = Record("ff-fig-4", {})
    for n in (1, 2, 8):
        for score in (0.7, 0.71):
            record.add((SCORES, SCORE, str(n)), {"score": score + n / 100, "columns": 5 * n})
        spent = {COORDINATOR: 0.01, BUSIEST: 0.02, ALL: 0.01 + 0.02 * n}
        seconds = {TRAIN: 1.0 + n, PREDICT: 0.02 * n, ROUND: 0.02}
        seconds |= {spent_by(what, who): spent[who] for what in WHATS for who in ROLES}
        record.add((SECONDS, TRAIN, str(n)), seconds)
    report = FIGURE_4.report(record)
    assert [finding.title for finding in report.tables][1:] == ["Processor time by process"]
    assert report.tables[1].rows[2][2] == "10.0 ms / 20.0 ms / 170 ms"
    told = next(check.cause for check in report.checks if check.verdict == FAILS)
    assert "all processes 50.0 ms and 170 ms" in told
    assert "the busiest party 20.0 ms and 20.0 ms" in told
