"""The draw of participants from a seed that all parties share (SPP of k-PPD-ERT, section 3.2).

The coordinator draws by it, and where sums are protected every party draws as well and compares:
participants follow from what was agreed before the first sum, not from what happened since. Blocks
of parties are drawn, never single parties, but for the paper's scope "step", where each party is a
block (docs/decisions/0032 and 0050).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from fedforest.kernels.growth.sampling import draw_unit
from fedforest.protocol.horizontal.order import Scope
from fedforest.tree.growth.seeds import derive_seed

MOST_DRAWS = 1000  # repeated when too few are drawn; after that all blocks take part
Drawn = tuple[int, ...]  # numbers of blocks, ascending


@dataclass(frozen=True, slots=True)
class BlockDraw:
    """Draws blocks with equal probability, each apart from the others."""

    seed: int
    share: float
    least: int  # parties with rows that must be drawn
    with_rows: tuple[int, ...]  # how many parties of each block have rows

    def draw(self, scope: Scope, index: int, left: Collection[int]) -> Drawn:
        """Draw for a tree or step by its number, or for the run; blocks that left do not return.

        Too few parties are drawn again, so that a sum never has fewer than the least.
        """
        present = [number for number in range(len(self.with_rows)) if number not in left]
        for attempt in range(MOST_DRAWS):
            key = np.uint64(derive_seed(self.seed, f"{scope}/{attempt}", index))
            drawn = [n for n in present if draw_unit(key, np.uint64(n)) < self.share]
            if sum(self.with_rows[n] for n in drawn) >= self.least:
                return tuple(drawn)
        return tuple(present)

    def of_trees(self, trees: range, scope: Scope, left: Collection[int]) -> list[Drawn]:
        """Draw for each tree of a batch, or once for all where the run keeps its participants.

        Draws are sorted, so that trees with the same participants are consecutive and their nodes
        need no sorting. Trees are alike: which tree gets which set does not matter.
        """
        if scope == "run":
            return [self.draw("run", 0, left)] * len(trees)
        return sorted(self.draw("tree", tree, left) for tree in trees)


def number_groups(drawn: Sequence[Drawn]) -> list[Drawn]:
    """Return the different draws of a batch; their places are the numbers of its segments."""
    return list(dict.fromkeys(drawn))
