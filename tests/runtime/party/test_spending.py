"""The ledger of a table counts all that was charged by any of its names, at any time."""

import json
import math
from pathlib import Path

import pytest

from fedforest.errors import BudgetExhausted, StorageError
from fedforest.runtime.party.approval import spending_of_labels
from fedforest.runtime.party.catalogue.entries import Entry, EntryFolder
from fedforest.runtime.party.policy import PolicyFile
from fedforest.runtime.party.spending import Budgets, tell_epsilon

ONE = spending_of_labels(1.0)
NO_LIMIT = math.inf


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("rows", "again"):
        EntryFolder(tmp_path).write(name, Entry(source="rows.csv"))
    EntryFolder(tmp_path).write("other", Entry(source="other.csv"))
    return tmp_path


def spent(home: Path, data: str) -> float:
    return Budgets(home).read(data, NO_LIMIT).spent


def test_names_of_one_table_share_a_ledger_and_other_tables_do_not(home: Path) -> None:
    Budgets(home).book("rows", NO_LIMIT, "a", ONE)
    Budgets(home).book("again", NO_LIMIT, "b", ONE)
    assert [spent(home, name) for name in ("rows", "again", "other")] == [2.0, 2.0, 0.0]
    with pytest.raises(BudgetExhausted):
        Budgets(home).book("again", 2.5, "c", ONE)
    assert len(list((home / "budgets").iterdir())) == 1


def test_the_ceiling_of_a_table_is_the_lowest_of_its_names(home: Path) -> None:
    (home / "policy.toml").write_text("[data.again]\nepsilon_ceiling = 3\n")
    budgets, policy = Budgets(home), PolicyFile(home)
    ceilings = [budgets.ceiling(name, policy) for name in ("rows", "again", "other")]
    assert ceilings == [3.0, 3.0, math.inf]
    budgets.book("rows", 3.0, "a", ONE)
    told = {"spent": 1.0, "left": 2.0}
    assert tell_epsilon(home, "a") == {"rows": told}


def test_a_ledger_that_names_no_table_is_not_passed_over(home: Path) -> None:
    (home / "budgets").mkdir()
    (home / "budgets" / "rows.json").write_text(json.dumps({"ceiling": None, "spends": []}))
    with pytest.raises(StorageError, match="cannot be read; restore a copy"):
        spent(home, "other")


def test_a_table_that_moves_takes_its_ledger_along(home: Path) -> None:
    Budgets(home).book("rows", NO_LIMIT, "a", ONE)
    (home / "catalogue" / "rows.toml").write_text('source = "moved.csv"\n')  # by hand
    EntryFolder(home).write("third", Entry(source="moved.csv"))
    assert spent(home, "rows") == spent(home, "third") == 1.0
    Budgets(home).book("third", NO_LIMIT, "b", ONE)
    EntryFolder(home).remove("rows")
    assert spent(home, "third") == 2.0
