"""Figure 4 of Federated Forest: domains join one by one, in processes of their own."""

from pathlib import Path

import numpy as np
import pytest

from fedforest.experiments.data.reading import PaperTable, read_table
from fedforest.experiments.experiment import FAILS, HOLDS
from fedforest.experiments.live import domains
from fedforest.experiments.live.domains import FIGURE_4, PREDICT, ROUND, TRAIN, deal_columns
from fedforest.experiments.live.federation import LiveFederation
from fedforest.experiments.record import Record


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
        seconds = domains.train_and_predict(client, 2, seed=1)
    assert set(seconds) == {TRAIN, PREDICT, ROUND}
    assert all(value > 0.0 for value in seconds.values())


@pytest.mark.parametrize(("late", "verdict"), [(0.03, HOLDS), (0.3, FAILS)])
def test_prediction_that_takes_many_times_as_long_is_not_flat(late: float, verdict: str) -> None:
    record = Record("ff-fig-4", {})
    for n in (1, 2, 8):
        for score in (0.7, 0.71):
            key = ("parkinson, accuracy", "accuracy", str(n))
            record.add(key, {"score": score + n / 100, "columns": n})
        seconds = {TRAIN: 1.0 + n, PREDICT: 0.02, ROUND: late if n == 8 else 0.02}
        record.add(("parkinson, seconds", TRAIN, str(n)), seconds)
    verdicts = [check.verdict for check in FIGURE_4.report(record).checks]
    assert verdicts == [HOLDS, HOLDS, HOLDS, verdict]
