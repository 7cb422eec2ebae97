"""The request for a horizontal training, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import NDArray

from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.tree.forest.forest import Forest
from fedforest.tree.growth.level_loop import BATCH_BYTES
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.tree.table.bins import Bins

Scope = Literal["tree", "step", "run"]


@dataclass(frozen=True, slots=True)
class Participation:
    """The fraction of parties that takes part, and for how long the same ones do."""

    share: float = 1.0
    scope: Scope = "tree"
    least: int = 1  # the minimum of participants, and the size of drawn blocks

    @property
    def is_full(self) -> bool:
        """Whether all parties always take part."""
        return self.share >= 1.0

    @property
    def kept_for(self) -> Scope:
        """How long a sum keeps its participants: the whole run if all parties take part."""
        return "run" if self.is_full else self.scope


@dataclass(frozen=True, slots=True)
class HorizontalOrder:
    """The parameters of a training, its parties, and the protection of their labels."""

    parties: tuple[str, ...]
    parameters: ForestParameters
    seed: int
    privacy: LocalDP | GlobalDP | None = None
    participation: Participation = field(default_factory=Participation)
    class_weight: str | Mapping[Any, float] | None = None
    least_rows: int = 2  # a party with fewer rows in a node names no point
    batch_bytes: int = BATCH_BYTES

    @property
    def both_sides(self) -> bool:
        """Whether both sides of a cut are counted: under noise no side follows from the other."""
        return self.privacy is not None

    @property
    def totals_anew(self) -> bool:
        """Whether whole nodes are counted in every step: each step has other participants."""
        return self.participation.kept_for == "step" and not self.both_sides


@dataclass(frozen=True, slots=True, eq=False)
class TrainedExtraTrees:
    """The finished forest, and figures of its training."""

    forest: Forest
    bins: Bins
    classes: NDArray[Any] | None
    model_file: memoryview  # the file that every party holds
    n_rows: int
    n_steps: tuple[int, ...]  # per batch of trees, repeated levels included
    n_extra_steps: tuple[int, ...]
    lost: tuple[str, ...]  # parties that went away during training
    candidates_per_node: int
    n_trees_begun: int  # more than grown if training ended early; all spend budget
    smallest_group: int | None = None  # rows of the smallest child of a split; None under noise

    @property
    def model(self) -> bytes:
        """A copy of the model file."""
        return bytes(self.model_file)
