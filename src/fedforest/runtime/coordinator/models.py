"""The coordinator's store of vertical models: outlines or intercepts, and the parties."""

import math
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fedforest.protocol.linear.coordinator import LinearTrained
from fedforest.runtime.messages.roles import RowChoice
from fedforest.runtime.recovery.linear_files import (
    LinearIntercept,
    decode_intercept,
    encode_intercept,
)
from fedforest.runtime.recovery.model_folder import StoredModels, Withdrawal
from fedforest.runtime.trainings.warm_start import CoordinatorModel
from fedforest.tree.files.forests import decode_outline, encode_outline

if TYPE_CHECKING:
    from fedforest.tree.canonical_json import JsonValue

MOST_OPEN = 8  # models that are kept in memory


class CoordinatorModels:
    """Keeps outlines and intercepts by model id."""

    def __init__(self, folder: Path) -> None:
        self._files = StoredModels(folder)
        self._open: OrderedDict[str, CoordinatorModel] = OrderedDict()

    def keep(self, model: str, kept: CoordinatorModel) -> None:
        """Store an outline."""
        about: dict[str, JsonValue] = {
            "model": model,
            "parties": list(kept.parties),
            "n_trees_seeded": kept.n_trees_seeded,
            "seed": kept.seed,
            "label_party": kept.label_party,
            "label_epsilon": kept.label_epsilon if math.isfinite(kept.label_epsilon) else None,
        }
        if kept.is_encrypted:
            about["encrypted"] = True
        if kept.rows is not None:
            about["rows"] = msgspec.to_builtins(kept.rows)
        self._files.write(model, encode_outline(kept.outline, None, about))

    def drop(self, model: str) -> None:
        """Forget a model."""
        self._open.pop(model, None)
        self._files.remove(model)

    def check(self, model: str) -> None:
        """Raise `ModelFileError` if the model is withdrawn."""
        self._files.check(model)

    def withdrawal(self, model: str) -> Withdrawal | None:
        """Return the withdrawal of a model; None if it may be used."""
        return self._files.withdrawal(model)

    def withdraw(self, model: str, by: str) -> None:
        """Withdraw a model for good."""
        self._open.pop(model, None)
        self._files.withdraw(model, by)

    def delete(self, model: str, by: str) -> None:
        """Delete the files of a model, and keep who did it and when."""
        self._open.pop(model, None)
        self._files.delete(model, by)

    def keep_linear(self, model: str, trained: LinearTrained) -> None:
        """Store the intercept of a linear model."""
        self._files.write(model, encode_intercept(model, trained), "linear")

    def read_linear(self, model: str) -> LinearIntercept:
        """Read a linear model; raises `ModelFileError` if there is none."""
        return decode_intercept(self._files.read(model, "linear"))

    def read(self, model: str) -> CoordinatorModel:
        """Read a model; raises `ModelFileError` if there is none, or it is withdrawn."""
        self.check(model)
        if model not in self._open:
            stored = decode_outline(self._files.read(model))
            about: Any = stored.metadata
            self._open[model] = CoordinatorModel(
                stored.outline,
                tuple(about["parties"]),
                int(about["n_trees_seeded"]),
                int(about["seed"]),
                msgspec.convert(about.get("rows"), RowChoice | None),
                about["label_party"],
                math.inf if about["label_epsilon"] is None else float(about["label_epsilon"]),
                bool(about.get("encrypted", False)),
            )
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(model)
        return self._open[model]
