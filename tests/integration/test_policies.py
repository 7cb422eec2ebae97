"""Owners decide while their parties run: policies and catalogues of real processes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow.csv
import pytest

from fedforest import VerticalForestClassifier
from fedforest.errors import DataError, PolicyRefusal
from fedforest.runtime.messages.orders import ListRuns, PredictVertical
from fedforest.runtime.messages.results import Predictions, RunList
from tests.integration.federation_folder import POLICY
from tests.integration.processes import Processes
from tests.integration.samples import COLUMNS, NAMES, divide, vertical
from tests.transport.grpc_federations import wait_until


@contextmanager
def policy_of(home: Path, rules: str) -> Iterator[None]:
    """Let a party have these rules for a while."""
    (home / "policy.toml").write_text(f"[default]\n{rules}\n")
    try:
        yield
    finally:
        (home / "policy.toml").write_text(POLICY)


def fedforest(*arguments: str) -> None:
    command = [sys.executable, "-m", "fedforest", *arguments]
    subprocess.run(command, check=True, timeout=120, capture_output=True)


def test_a_run_outside_a_partys_policy_fails_with_the_reason_and_details_stay_in_its_log(
    pair: Processes,
) -> None:
    shop = pair.folder.parties[NAMES[1]]
    order = vertical(2, n_trees=1, max_depth=2)
    with policy_of(shop.home, "min_rows_per_leaf = 17"):
        with pytest.raises(PolicyRefusal, match=r"party 'shop'.*at least 17 rows"):
            pair.train(order)
        wait_until(lambda: '"rows_per_leaf":1' in shop.read_log(), "the details are logged")
        assert (
            '"reason":"its policy does not allow this run: a leaf must have at least 17 rows'
            in shop.read_log()
        )
        with pair.user() as user:
            assert "failed" in {run.state for run in user.ask(ListRuns(), RunList).runs}
    assert len(pair.train(order).model) == 32  # without a restart


def test_predictions_stop_at_the_quota_of_who_asks(pair: Processes) -> None:
    result = pair.train(vertical(2, n_trees=1, max_depth=2))
    order = PredictVertical(data=vertical(2).data, model=result.model, rows=[0, 1])
    bank = pair.folder.parties[NAMES[0]]
    with pair.user() as user:
        assert user.ask(order, Predictions).shape == (2, 2)
        with (
            policy_of(bank.home, "prediction_rows_per_day = 1"),
            pytest.raises(PolicyRefusal, match="at most 1 rows a day"),
        ):
            user.ask(order, Predictions)
    wait_until(lambda: '"asker":"analyst"' in bank.read_log(), "who asked is logged")


def test_data_sets_added_by_command_serve_a_running_party_until_their_columns_change(
    pair: Processes, tmp_path: Path
) -> None:
    bank, shop = (pair.folder.parties[name].home for name in NAMES[:2])
    tables = {name: tables[COLUMNS] for name, tables in divide(2).items()}
    file, database = tmp_path / "loans.csv", tmp_path / "sales.duckdb"
    pyarrow.csv.write_csv(tables[NAMES[0]], file)
    with duckdb.connect(str(database)) as connection:
        connection.register("given", tables[NAMES[1]])
        connection.execute("CREATE TABLE sales AS SELECT * FROM given")
    fedforest("party", "data", "add", "loans", str(file), "--home", str(bank))
    command = ("party", "data", "add", "sales", str(database), "--table", "sales")
    fedforest(*command, "--home", str(shop))
    forest = VerticalForestClassifier(
        n_estimators=2, max_depth=3, random_state=0, transport=pair.folder.profile
    )
    forest.fit({"bank": "loans", "shop": "sales"}, "label")
    assert forest.n_features_in_ == 10
    file.write_text(file.read_text().replace('"x0"', '"income"', 1))
    with pytest.raises(DataError, match=r"party 'bank'.*changed") as caught:
        forest.fit({"bank": "loans", "shop": "sales"}, "label")
    assert "income" not in str(caught.value)
    log = pair.folder.parties["bank"].read_log
    wait_until(lambda: "column 'income' is new" in log(), "what changed is logged")
