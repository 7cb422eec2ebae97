"""Old files in a party's folder that nothing needs any more, for its owner's command.

    runs         journals that no coordinator ended, and agreements that scores were checked by
    alignments   numbers of common rows, but for those that a run under way is about
    models       the files of withdrawn models

The id of a run stays taken: masks would be used twice. Budgets and ledger are not pruned at any
age: what was spent on a row stays spent, and a chain of hashes with holes proves nothing.
"""

import re
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedforest.errors import FederationError
from fedforest.runtime.party.parts import Begun, read_begun
from fedforest.runtime.party.retention.model_folder import PartyModelFolder
from fedforest.runtime.recovery.run_store import RunStore

Kind = Literal["runs", "alignments", "models"]
KINDS: tuple[Kind, ...] = ("runs", "alignments", "models")
_AGREED = "agreed"
_ID = re.compile(r"[0-9a-f]{32}")


class OldFiles(msgspec.Struct, frozen=True):
    """Files of one run, alignment or model that are old enough to go."""

    kind: Kind
    id: str
    at: float  # when they changed last, in seconds since 1970
    n_bytes: int
    is_in_use: bool = False  # by a running party; they stay

    def to_json(self) -> dict[str, Any]:
        """Describe them for programs."""
        described: dict[str, Any] = msgspec.to_builtins(self)
        return described


def find_old(
    home: Path, age_seconds: float, kinds: Collection[str] = KINDS, now: float | None = None
) -> list[OldFiles]:
    """List what is older and may go, by kind; what a running party has open is marked."""
    before = (time.time() if now is None else now) - age_seconds
    finders = {"runs": _find_runs, "alignments": _find_alignments, "models": _find_models}
    return [old for kind in KINDS if kind in kinds for old in finders[kind](home, before)]


def prune(home: Path, found: Sequence[OldFiles]) -> None:
    """Delete what was found, but for what is in use."""
    store, models = RunStore(home), PartyModelFolder(home)
    for old in found:
        if old.is_in_use:
            continue
        if old.kind == "runs":
            store.empty(bytes.fromhex(old.id))
        elif old.kind == "models":
            models.delete(old.id)
        else:
            (home / "alignments" / old.id).unlink(missing_ok=True)


def _find_runs(home: Path, before: float) -> Iterator[OldFiles]:
    store = RunStore(home)
    for run in store.all():
        files = [path for path in store.folder(run).rglob("*") if path.is_file()]
        n_bytes = sum(path.stat().st_size for path in files)
        at = max(path.stat().st_mtime for path in files)
        if at < before and n_bytes:
            yield OldFiles("runs", run.hex(), at, n_bytes, store.is_in_use(run))


def _find_alignments(home: Path, before: float) -> Iterator[OldFiles]:
    needed = set(_find_needed(RunStore(home), before))
    for path in sorted((home / "alignments").glob("*")):
        state = path.stat()
        if _ID.fullmatch(path.name) and state.st_mtime < before:
            is_in_use = path.name in needed
            yield OldFiles("alignments", path.name, state.st_mtime, state.st_size, is_in_use)


def _find_models(home: Path, before: float) -> Iterator[OldFiles]:
    for model in PartyModelFolder(home).list():
        gone = model.withdrawal
        if gone is not None and gone.at < before and model.files:
            sizes = [(home / "models" / name).stat().st_size for name in model.files]
            yield OldFiles("models", model.model, gone.at, sum(sizes))


def _find_needed(store: RunStore, before: float) -> Iterator[str]:
    """Yield the alignments that runs under way, or their scores, are about."""
    for run in store.all():
        begun = _read_begun(store, run, before)
        if begun is not None and begun.role.rows is not None and begun.role.rows.alignment:
            yield begun.role.rows.alignment


def _read_begun(store: RunStore, run: bytes, before: float) -> Begun | None:
    """Return what a run began with; None where it is over, or old itself, or damaged."""
    try:
        if not store.is_finished(run):
            return read_begun(store.read_description(run))
        agreed = store.folder(run) / _AGREED
        if agreed.exists() and agreed.stat().st_mtime >= before:
            return read_begun(agreed.read_bytes())
    except FederationError:  # of another release, or damaged: it cannot be resumed
        return None
    return None
