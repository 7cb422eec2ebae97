"""Models in a folder, one file each, by id: written whole or not at all.

A party keeps its share of a vertical forest, with class names at the label party, and whole
horizontal forests; the coordinator keeps outlines. The votes of rows left out, which must not be in
a partial forest that is handed on, lie in a file beside it.

A model that is withdrawn cannot be read any more. Its withdrawal is a file beside it, which stays
when the others are deleted; no code takes it away. Every use looks for it, so that a command on the
folder acts on a running service at once.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from fedforest.errors import ModelFileError
from fedforest.runtime.recovery.run_store import write_file

_ID = re.compile(r"[0-9a-f]{32}")
_WITHDRAWN = "withdrawn"


class Withdrawal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who withdrew a model, and who deleted it, and when. Times are in seconds since 1970."""

    model: str
    by: str
    at: float
    deletion_asked_by: str = ""
    deleted_by: str = ""
    deleted_at: float | None = None


class StoredModels:
    """The models of one role."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, model: str, data: bytes, kind: str = "share") -> None:
        """Keep a file of a model; an earlier one is replaced."""
        write_file(self._path(model, kind), data)

    def read(self, model: str, kind: str = "share") -> bytes:
        """Read a file of a model; raises `ModelFileError` if there is none, or it is withdrawn."""
        self.check(model)
        path = self._path(model, kind)
        if not path.exists():
            raise ModelFileError.of("model.unknown", model=model)
        return path.read_bytes()

    def has(self, model: str, kind: str = "share") -> bool:
        """Whether there is such a file."""
        return self._path(model, kind).exists()

    def remove(self, model: str) -> None:
        """Take all files of a model away, its share last: until then it may be removed again."""
        for path in sorted(
            self._folder.glob(f"{model}.*"), key=lambda path: path.suffix == ".share"
        ):
            if path.suffix != f".{_WITHDRAWN}":
                path.unlink(missing_ok=True)

    def list(self) -> list[str]:
        """The ids of all models, withdrawn ones and deleted ones among them."""
        kinds = (".share", ".linear", f".{_WITHDRAWN}")
        return sorted({path.stem for path in self._folder.iterdir() if path.suffix in kinds})

    def check(self, model: str) -> None:
        """Raise `ModelFileError` if the model is withdrawn."""
        found = self.withdrawal(model)
        if found is not None:
            raise ModelFileError.of(
                "model.withdrawn", model=model, withdrawer=found.by, moment=_write_time(found.at)
            )

    def withdrawal(self, model: str) -> Withdrawal | None:
        """Return the withdrawal of a model; None if it may be used. A damaged one raises."""
        path = self._path(model, _WITHDRAWN)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Withdrawal)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            raise ModelFileError.of("model.unusable", detail="its withdrawal is damaged") from None

    def withdraw(self, model: str, by: str) -> Withdrawal:
        """Withdraw a model for good; the first withdrawal stays as it is."""
        return self.withdrawal(model) or self._note(Withdrawal(model, by, self._clock()))

    def ask_deletion(self, model: str, by: str) -> Withdrawal:
        """Note who wants the files of a model deleted, for the owner of this folder."""
        found = self.withdraw(model, by)
        if found.deletion_asked_by or found.deleted_by:
            return found
        return self._note(msgspec.structs.replace(found, deletion_asked_by=by))

    def delete(self, model: str, by: str) -> Withdrawal:
        """Delete the files of a model; its withdrawal stays, and says so."""
        found = self.withdraw(model, by)
        self.remove(model)
        if found.deleted_by:
            return found
        return self._note(msgspec.structs.replace(found, deleted_by=by, deleted_at=self._clock()))

    def _note(self, withdrawal: Withdrawal) -> Withdrawal:
        write_file(self._path(withdrawal.model, _WITHDRAWN), msgspec.json.encode(withdrawal))
        return withdrawal

    def _path(self, model: str, kind: str) -> Path:
        if not _ID.fullmatch(model):
            raise ModelFileError("a model's id is 32 hexadecimal digits; this is none")
        return self._folder / f"{model}.{kind}"


def _write_time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
