"""The coordinator's shares of vertical models: outlines or intercepts, and who takes part."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fedforest.protocol.linear.coordinator import LinearTrained
from fedforest.runtime.linear_files import LinearIntercept, decode_intercept, encode_intercept
from fedforest.runtime.roles import RowChoice
from fedforest.runtime.stored_models import StoredModels
from fedforest.tree.forest_file import decode_outline, encode_outline
from fedforest.tree.partial import ForestOutline
from fedforest.tree.routes import OwnerRoutes
from fedforest.tree.votes import ForestVotes

if TYPE_CHECKING:
    from fedforest.tree.canonical_json import JsonValue

MOST_OPEN = 8  # models that are kept in memory


@dataclass(frozen=True)
class CoordinatorModel:
    """What a coordinator needs to predict with a forest, or to grow it on."""

    outline: ForestOutline
    parties: tuple[str, ...]  # in the order of their columns
    n_trees_seeded: int  # trees whose seeds are used up, dropped ones included
    seed: int  # with it, which rows each tree drew could be told: it stays here
    rows: RowChoice | None = None  # what it was trained on: trees that follow need the same
    label_party: str = ""
    label_epsilon: float = math.inf  # spent on each label by all its trainings

    @cached_property
    def routes(self) -> OwnerRoutes:
        """The trees, prepared for predictions."""
        return OwnerRoutes.of(self.outline)

    @cached_property
    def votes(self) -> ForestVotes:
        """The leaves, prepared for predictions."""
        return ForestVotes(self.outline)


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
        if kept.rows is not None:
            about["rows"] = msgspec.to_builtins(kept.rows)
        self._files.write(model, encode_outline(kept.outline, None, about))

    def drop(self, model: str) -> None:
        """Forget a model."""
        self._open.pop(model, None)
        self._files.remove(model)

    def keep_linear(self, model: str, trained: LinearTrained) -> None:
        """Store the intercept of a linear model."""
        self._files.write(model, encode_intercept(model, trained), "linear")

    def read_linear(self, model: str) -> LinearIntercept:
        """A linear model; raises `ModelFileError` where there is none."""
        return decode_intercept(self._files.read(model, "linear"))

    def read(self, model: str) -> CoordinatorModel:
        """A model; raises `ModelFileError` where there is none."""
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
            )
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(model)
        return self._open[model]
