"""Models in a folder, one file each, by id: written whole or not at all.

A party keeps its share of a vertical forest, with class names at the label party, and whole
horizontal forests; the coordinator keeps outlines. What must not be in a share that is handed
around, the votes of rows left out, lies in a file of its own beside it.
"""

import os
import re
from pathlib import Path

from fedforest.errors import ModelFileError, StorageError

_ID = re.compile(r"[0-9a-f]{32}")


class StoredModels:
    """The models of one role."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, model: str, data: bytes, kind: str = "share") -> None:
        """Keep a file of a model; an earlier one is replaced."""
        path = self._path(model, kind)
        fresh = path.with_suffix(".new")
        try:
            with os.fdopen(
                os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
            ) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise StorageError(
                f"model {model} cannot be stored in {self._folder.name!r} ({error.strerror}); free "
                "some space or mend the folder, then try again"
            ) from None

    def read(self, model: str, kind: str = "share") -> bytes:
        """The file of a model; raises `ModelFileError` where there is none."""
        path = self._path(model, kind)
        if not path.exists():
            raise ModelFileError(f"there is no model {model} here")
        return path.read_bytes()

    def has(self, model: str, kind: str = "share") -> bool:
        """Whether there is such a file."""
        return self._path(model, kind).exists()

    def list(self) -> list[str]:
        """The ids of all models."""
        return sorted(path.stem for path in self._folder.glob("*.share"))

    def _path(self, model: str, kind: str) -> Path:
        if not _ID.fullmatch(model):
            raise ModelFileError("a model's id is 32 hexadecimal digits; this is none")
        return self._folder / f"{model}.{kind}"
