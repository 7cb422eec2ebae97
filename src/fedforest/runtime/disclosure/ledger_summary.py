"""Summarise a party's ledger for people: the replies by run and kind of message."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedforest.errors import ConfigurationError
from fedforest.runtime.disclosure.egress_ledger import LedgerRecord
from fedforest.runtime.disclosure.known_attacks import Attack, attacks_on
from fedforest.runtime.disclosure.ledger_check import read_records

_ABOUT_LEDGER = ("begun", "torn", "lost")


@dataclass(slots=True)
class Flow:
    """All messages of one kind in one run."""

    message: str
    reveals: str
    n_messages: int = 0
    n_repeated: int = 0  # of these, answers that were sent again
    n_bytes: int = 0

    def add(self, record: LedgerRecord) -> None:
        self.n_messages += 1
        self.n_repeated += record.kind == "resent"
        self.n_bytes += record.bytes


@dataclass(slots=True)
class RunSummary:
    """The messages that one run took from the party; without a run, those that belong to none."""

    run: str
    first: str = ""
    last: str = ""
    flows: dict[tuple[str, str], Flow] = field(default_factory=dict)

    def add(self, record: LedgerRecord) -> None:
        self.first = self.first or record.time
        self.last = record.time
        key = (record.message, record.reveals)
        self.flows.setdefault(key, Flow(*key)).add(record)

    @property
    def n_bytes(self) -> int:
        return sum(flow.n_bytes for flow in self.flows.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "first": self.first,
            "last": self.last,
            "bytes": self.n_bytes,
            "messages": [
                {
                    "message": flow.message,
                    "count": flow.n_messages,
                    "repeated": flow.n_repeated,
                    "bytes": flow.n_bytes,
                    "reveals": flow.reveals,
                }
                for flow in self.flows.values()
            ],
            "attacks": [attack.to_json() for attack in self.attacks()],
        }

    def attacks(self) -> list[Attack]:
        """Known attacks that what left gives something to work with."""
        return attacks_on(flow.message for flow in self.flows.values())

    def to_text(self, *, with_attacks: bool = False) -> str:
        name = f"run {self.run}" if self.run else "outside of runs"
        lines = [f"{name}: {self.n_bytes:,} bytes, {self.first} to {self.last}"]
        for flow in self.flows.values():
            again = f" ({flow.n_repeated} sent again)" if flow.n_repeated else ""
            lines.append(f"  {flow.message} x {flow.n_messages}{again}, {flow.n_bytes:,} bytes")
            lines.append(f"      {flow.reveals}")
        if with_attacks:
            lines += [f"  known attack: {attack.to_text()}" for attack in self.attacks()]
        return "\n".join(lines)


def summarise(home: Path) -> list[RunSummary]:
    """By run, in the order in which they began."""
    return list(_collect(read_records(home)).values())


def report_run(home: Path, run: str) -> RunSummary:
    """One run, by its id or the letters that it begins with."""
    found = [part for name, part in _collect(read_records(home)).items() if name.startswith(run)]
    if not run or len(found) != 1:
        told = f"{len(found)} runs of this ledger begin" if found else "no run of it begins"
        raise ConfigurationError(
            f"{told} with {run!r}; ids of runs are in `fedforest audit summary` and `runs list`"
        )
    return found[0]


def _collect(records: Iterable[LedgerRecord]) -> dict[str, RunSummary]:
    """A run with all its parts: alignment, validation, and what parties reach alone."""
    found: dict[str, RunSummary] = {}
    whole: dict[str, str] = {}  # part -> the run it belongs to
    for record in records:
        if record.kind not in _ABOUT_LEDGER:
            if record.part_of:
                whole[record.run] = record.part_of
            run = whole.get(record.run, record.run)
            found.setdefault(run, RunSummary(run)).add(record)
    return found
