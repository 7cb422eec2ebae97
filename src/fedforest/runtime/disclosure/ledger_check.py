"""Check a party's ledger: find records that were changed, removed, moved or cut off.

A chain of hashes shows every change but one: whole records missing at the end. The `head` shows
these, and a copy of an earlier end of the ledger shows them if the `head` was changed, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from fedforest.errors import ConfigurationError, StorageError
from fedforest.runtime.disclosure.egress_ledger import (
    BEFORE_ALL,
    LedgerRecord,
    Place,
    ledger_files,
    read_place,
    split_line,
)

_MOST_FINDINGS = 20
_DECODER = msgspec.json.Decoder(LedgerRecord)


@dataclass(slots=True)
class Verdict:
    """The result of checking a ledger."""

    n_records: int = 0
    end: Place = BEFORE_ALL
    damage: list[str] = field(default_factory=list)  # somebody, or a disk, changed it
    notices: list[str] = field(default_factory=list)  # what crashes did, by the ledger's own word
    n_unreadable: int = 0  # records that no summary can count

    @property
    def is_whole(self) -> bool:
        return not self.damage

    def to_json(self) -> dict[str, Any]:
        return {
            "whole": self.is_whole,
            "records": self.n_records,
            "unreadable": self.n_unreadable,
            "end": f"{self.end.number}:{self.end.hash}",
            "damage": self.damage,
            "notices": self.notices,
        }


def check_ledger(home: Path, expected: Place | None = None) -> Verdict:
    """Walk the whole ledger of a party; `expected` is an end that somebody kept."""
    folder = home / "ledger"
    files = ledger_files(folder)
    if not files:
        raise ConfigurationError(f"there is no ledger in {home}; is it a party's folder?")
    verdict = Verdict()
    head = _read_head(folder)
    anchors = {place.number: place.hash for place in (head, expected) if place is not None}
    for path in files:
        for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
            if line:
                _check_line(verdict, line, f"{path.name}, line {number}", anchors)
        _check_last_line(verdict, path, is_last=path is files[-1])
    _check_end(verdict, head, expected)
    del verdict.damage[_MOST_FINDINGS:]
    return verdict


def _check_line(verdict: Verdict, line: bytes, where: str, anchors: dict[int, str]) -> None:
    due = verdict.end.number + 1
    try:
        body, stored = split_line(line)
        record = _DECODER.decode(body)
    except (StorageError, msgspec.DecodeError, UnicodeDecodeError):
        verdict.damage.append(f"record {due} ({where}) is not readable: it was changed")
        verdict.n_unreadable += 1
        verdict.end = Place(due, verdict.end.hash)
        return
    if record.number != due:
        verdict.damage.append(_describe_gap(due, record.number, where))
    elif sha256(bytes.fromhex(verdict.end.hash) + body).hexdigest() != stored:
        verdict.damage.append(f"record {due} ({where}) was changed, or the one before it")
    if anchors.get(record.number, stored) != stored:
        verdict.damage.append(f"record {record.number} ({where}) is not the one that was kept")
    if record.kind in ("torn", "lost"):
        verdict.notices.append(f"record {record.number} ({where}): {record.reveals}")
    is_hash = len(stored) == 64 and all(letter in "0123456789abcdef" for letter in stored)
    verdict.n_records += 1
    verdict.end = Place(record.number, stored if is_hash else verdict.end.hash)


def _describe_gap(due: int, number: int, where: str) -> str:
    if number > due:
        return f"records {due} to {number - 1} are missing before record {number} ({where})"
    return f"record {number} stands where record {due} belongs ({where}): moved, or put in twice"


def _check_last_line(verdict: Verdict, path: Path, *, is_last: bool) -> None:
    """A file that does not end with a line's end was torn by a crash, or cut."""
    content = path.read_bytes()
    if content.endswith(b"\n") or not content:
        return
    if not is_last:
        verdict.damage.append(f"{path.name} was cut off in the middle of a record")
        return
    unfinished = verdict.damage and "not readable" in verdict.damage[-1]
    if unfinished:
        verdict.damage.pop()  # it is no changed record but half of one
        verdict.n_unreadable -= 1
        verdict.end = Place(verdict.end.number - 1, verdict.end.hash)
    verdict.notices.append(
        f"{path.name} ends in the middle of record {verdict.end.number + 1}: a crash left it "
        "unfinished, and the message did not leave"
    )


def _read_head(folder: Path) -> Place | None:
    path = folder / "head"
    return read_place(path.read_bytes()) if path.exists() else None


def _check_end(verdict: Verdict, head: Place | None, expected: Place | None) -> None:
    if head is None:
        verdict.damage.append("the file head is missing or not readable: nobody can tell the end")
    last = verdict.end.number
    for place, who in ((head, "the file head"), (expected, "what was kept")):
        if place is not None and place.number > last:
            verdict.damage.append(
                f"records {last + 1} to {place.number} are missing at the end, says {who}"
            )


def read_records(home: Path) -> Iterator[LedgerRecord]:
    """All records of a ledger that can be read, in order; `check_ledger` counts the others."""
    for path in ledger_files(home / "ledger"):
        for line in path.read_bytes().split(b"\n"):
            try:
                yield _DECODER.decode(split_line(line)[0])
            except (StorageError, msgspec.DecodeError, UnicodeDecodeError):
                continue


def parse_place(text: str) -> Place:
    """An end of a ledger as `audit verify` prints it."""
    number, _, digest = text.partition(":")
    place = read_place(f"{number} {digest}".encode())
    if place is None:
        raise ConfigurationError("an end of a ledger has the form NUMBER:HASH, as it was printed")
    return place
