"""The ledger of a table counts all that was charged by any of its names, at any time."""

import json
import math
from pathlib import Path

import pytest

from fedforest.errors import BudgetExhausted
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


def write_earlier_ledger(home: Path, data: str, run: str, epsilon: float) -> None:
    """As versions wrote it that had one ledger for each name."""
    line = {"run": run, "memory": "", "composed": epsilon, "cap": None}
    (home / "budgets").mkdir(exist_ok=True)
    ledger = {"ceiling": None, "spends": [line]}
    (home / "budgets" / f"{data}.json").write_text(json.dumps(ledger))


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


def test_ledgers_of_earlier_versions_count_for_the_table_of_their_name(home: Path) -> None:
    write_earlier_ledger(home, "rows", "a", 1.0)
    write_earlier_ledger(home, "again", "b", 2.0)
    assert spent(home, "rows") == spent(home, "again") == 3.0
    Budgets(home).book("again", NO_LIMIT, "c", ONE)
    assert spent(home, "rows") == 4.0  # each run once, although two files hold it now
    EntryFolder(home).remove("again")
    assert spent(home, "rows") == 4.0


def test_a_table_that_moves_takes_its_ledger_along(home: Path) -> None:
    Budgets(home).book("rows", NO_LIMIT, "a", ONE)
    (home / "catalogue" / "rows.toml").write_text('source = "moved.csv"\n')  # by hand
    EntryFolder(home).write("third", Entry(source="moved.csv"))
    assert spent(home, "rows") == spent(home, "third") == 1.0
    Budgets(home).book("third", NO_LIMIT, "b", ONE)
    EntryFolder(home).remove("rows")
    assert spent(home, "third") == 2.0
