"""Models in a folder, one file each, by id: written whole or not at all.

A party keeps its share of a vertical forest, with class names at the label party, and whole
horizontal forests; the coordinator keeps outlines. The votes of rows left out, which must not be in
a partial forest that is handed on, lie in a file beside it.
"""

import re
from pathlib import Path

from fedforest.errors import ModelFileError
from fedforest.runtime.recovery.run_store import write_file

_ID = re.compile(r"[0-9a-f]{32}")


class StoredModels:
    """The models of one role."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, model: str, data: bytes, kind: str = "share") -> None:
        """Keep a file of a model; an earlier one is replaced."""
        write_file(self._path(model, kind), data)

    def read(self, model: str, kind: str = "share") -> bytes:
        """The file of a model; raises `ModelFileError` where there is none."""
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
            path.unlink(missing_ok=True)

    def list(self) -> list[str]:
        """The ids of all models."""
        return sorted(path.stem for path in self._folder.glob("*.share"))

    def _path(self, model: str, kind: str) -> Path:
        if not _ID.fullmatch(model):
            raise ModelFileError("a model's id is 32 hexadecimal digits; this is none")
        return self._folder / f"{model}.{kind}"
