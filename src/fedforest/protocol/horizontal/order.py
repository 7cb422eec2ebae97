"""What a horizontal training is asked for, and what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import NDArray

from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.tree.bins import Bins
from fedforest.tree.forest import Forest
from fedforest.tree.grow import BATCH_BYTES
from fedforest.tree.parameters import ForestParameters

Scope = Literal["tree", "step", "run"]


@dataclass(frozen=True, slots=True)
class Participation:
    """Which share of the parties takes part, and for how long the same ones do."""

    share: float = 1.0
    scope: Scope = "tree"
    least: int = 1  # participants; so many are always drawn together

    @property
    def is_full(self) -> bool:
        """Whether everybody always takes part."""
        return self.share >= 1.0


@dataclass(frozen=True, slots=True)
class TrainingOrder:
    """What is to be trained, with whom, and how their labels are protected."""

    parties: tuple[str, ...]
    parameters: ForestParameters
    seed: int
    privacy: LocalDP | GlobalDP | None = None
    participation: Participation = field(default_factory=Participation)
    class_weight: str | Mapping[Any, float] | None = None
    least_rows: int = 2  # of a party in a node: with fewer it names no point
    batch_bytes: int = BATCH_BYTES

    @property
    def drawn_per_step(self) -> bool:
        """Whether other parties take part in every step, as in k-PPD-ERT."""
        return self.participation.scope == "step" and not self.participation.is_full

    @property
    def both_sides(self) -> bool:
        """Whether both sides of a cut are counted: under noise no side follows from the other."""
        return self.privacy is not None

    @property
    def totals_anew(self) -> bool:
        """Whether nodes are counted whole in every step: their parents' sums are of others."""
        return self.drawn_per_step and not self.both_sides


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The finished forest and what it took."""

    forest: Forest
    bins: Bins
    classes: NDArray[Any] | None
    model_file: memoryview  # that every party holds
    n_rows: int
    n_steps: tuple[int, ...]  # per batch of trees, levels and repeated ones
    n_extra_steps: tuple[int, ...]
    lost: tuple[str, ...]  # parties that went away during training
    candidates_per_node: int
    n_trees_begun: int  # more than there are if training ended early: labels were counted for all
    smallest_group: int | None = None  # rows of the smallest child of a split, where that is told

    @property
    def model(self) -> bytes:
        """The file in memory of its own, for whoever keeps it."""
        return bytes(self.model_file)
