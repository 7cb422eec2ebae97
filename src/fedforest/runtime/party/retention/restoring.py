"""A party's folder from a copy: it answers nothing until its owner has decided what is uncertain.

The copy does not know what epsilon was spent since, which models were withdrawn and which rows were
erased. The owner books what may have been spent, withdraws and erases again, and says so. Runs that
were under way are over here: masks and noise of an older state would be used twice.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedforest.errors import ConfigurationError, ProtocolError
from fedforest.runtime.party.approval import refusal, spending_of_labels
from fedforest.runtime.party.catalogue.entries import EntryFolder
from fedforest.runtime.party.policy import PolicyFile
from fedforest.runtime.party.spending import Budgets
from fedforest.runtime.recovery.backup import (
    Manifest,
    Restored,
    make_backup,
    read_past,
    read_restored,
    restore_backup,
    settle,
)

_NO_CEILING = float("inf")  # what was spent is booked, also beyond what is allowed


def back_up_party(home: Path, archive: Path, release: str) -> Manifest:
    """Copy a party's folder but for the files that its catalogue reads."""
    entries = EntryFolder(home)
    named = (entries.read(name).source for name in entries.names())
    sources = {home / source for source in named if source is not None}
    return make_backup(home, archive, "party", release, sources)


def restore_party(archive: Path, home: Path) -> Restored:
    """Make a party's folder out of a copy."""
    return restore_backup(archive, home, "party")[1]


def describe_uncertainty(home: Path) -> dict[str, Any]:
    """Say what a restored party cannot know; raises `ConfigurationError` if nothing is open."""
    restored = read_restored(home)
    if restored is None:
        raise ConfigurationError(f"{home} was not restored, or its owner has decided already")
    budgets, policy = Budgets(home), PolicyFile(home)
    spent = {}
    for data in EntryFolder(home).names():
        ledger = budgets.read(data, budgets.ceiling(data, policy))
        limit = None if ledger.ceiling == _NO_CEILING else ledger.ceiling
        spent[data] = {"spent": ledger.spent, "ceiling": limit}
    return {"copied": restored.moment, "runs": restored.runs, "epsilon": spent}


def decide(home: Path, spent: Mapping[str, float]) -> None:
    """Book what was spent of data sets since the copy, and let the party answer again."""
    restored = read_restored(home)
    if restored is None:
        raise ConfigurationError(f"{home} was not restored, or its owner has decided already")
    known = EntryFolder(home).names()
    budgets, run = Budgets(home), f"unknown since {restored.moment}"
    for data in spent:
        if data not in known:
            raise ConfigurationError(f"there is no data set {data!r} in {home}")
    for data, epsilon in spent.items():
        if epsilon > 0:
            budgets.book(data, _NO_CEILING, run, spending_of_labels(epsilon))
    settle(home)


class RestoredGuard:
    """Keeps a restored party from answering too early, and from going on with runs of the past."""

    def __init__(self, home: Path) -> None:
        self._home = home

    @property
    def restored_at(self) -> float:
        """When the folder was restored, in seconds since 1970; 0 if it was not."""
        past = read_past(self._home)
        return 0.0 if past is None else past.restored_at

    def check(self, what: str) -> None:
        """Refuse everything in the name of a user until the owner has decided."""
        restored = read_restored(self._home)
        if restored is not None:
            raise refusal("restored", what, moment=restored.moment)

    def check_run(self, run: bytes) -> None:
        """Refuse to go on with a run that was under way when the copy was made, or began since."""
        past = read_past(self._home)
        if past is not None:
            raise ProtocolError.of("run.restored", run=run.hex(), moment=past.moment)
