"""A model file, prepared to answer questions: rows in, predictions out."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedforest.errors import ConfigurationError, DataError
from fedforest.kernels.compiled.preparation import prepare
from fedforest.tree.files.forests import StoredForest, decode_forest
from fedforest.tree.forest.row_walker import RowWalker
from fedforest.tree.table.plain_rows import RowReader

_NAME = re.compile(r"[\w.-]{1,64}")


class PredictionBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a prediction: rows as lists of values, or as objects by column."""

    rows: list[list[str | int | float | bool | None] | dict[str, str | int | float | bool | None]]


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A complete forest under the name that requests have it by."""

    name: str
    stored: StoredForest

    @classmethod
    def open(cls, given: str) -> "ServedModel":
        """Open `FILE` or `NAME=FILE`; raises where it is no complete forest."""
        name, _, file = given.rpartition("=") if not Path(given).is_file() else ("", "", given)
        path = Path(file)
        name = name or path.name.removesuffix(path.suffix)
        if _NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"{name!r} is no name of a model: use up to 64 letters, digits, '.', '_' and '-', "
                "as in forest=MODEL_FILE"
            )
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
        prepare("served rows")
        model = cls(name, decode_forest(data))
        model.warm_up()
        return model

    @cached_property
    def _reader(self) -> RowReader:
        is_raw = self.stored.forest.splits.cut.dtype == np.float32
        return RowReader(self.stored.bins, rounds=is_raw)

    @cached_property
    def _walker(self) -> RowWalker:
        return RowWalker(self.stored.forest, self.stored.bins)

    @cached_property
    def _class_names(self) -> list[Any]:
        classes = self.stored.classes
        return [] if classes is None else classes.tolist()

    @cached_property
    def _is_hard(self) -> bool:
        parameters = self.stored.metadata.get("parameters")
        return isinstance(parameters, dict) and parameters.get("voting") == "hard"

    def warm_up(self) -> None:
        """Build what requests need."""
        self.answer([[None] * self.stored.bins.n_features])

    def answer(self, rows: list[Any]) -> dict[str, Any]:
        """Return the predictions of rows, in JSON's own types."""
        if not rows:
            raise DataError("there are no rows to predict")
        votes = self._walker.votes(self._reader.read(rows), hard=self._is_hard)
        if self.stored.classes is None:
            return {"model": self.name, "predictions": votes[:, 0].tolist()}
        names = self._class_names
        return {
            "model": self.name,
            "predictions": [names[best] for best in votes.argmax(axis=1).tolist()],
            "classes": names,
            "probabilities": votes.tolist(),
        }

    def describe(self) -> dict[str, Any]:
        """Return what a client has to know to ask."""
        stored, bins = self.stored, self.stored.bins
        kinds = ["category" if is_one else "number" for is_one in bins.is_categorical.tolist()]
        columns = [
            {"name": name, "type": kind} for name, kind in zip(bins.names, kinds, strict=True)
        ]
        about: dict[str, Any] = {
            "id": self.name,
            "task": "regression" if stored.classes is None else "classification",
            "trees": stored.forest.shape.n_trees,
            "columns": columns,
        }
        return about if stored.classes is None else about | {"classes": self._class_names}
