"""Trees grown side by side: every worker grows trees of its own without waiting for others.

Workers that divide a level wait for the slowest one at its end, and for the bookkeeping between two
levels. Trees do not depend on each other, so the forest is the same either way. Worth on two cores
(`benchmarks/ablations.py`): 8 to 26 % of a training's time.
"""

from collections.abc import Callable
from itertools import pairwise

from fedforest.kernels.layout import Columns
from fedforest.kernels.splits.random import Values
from fedforest.tree.growth.level_loop import GrownBatch, GrowthPlan, grow_batch
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import ALONE, Workers

BLOCKS_PER_WORKER = 1  # more would even out slow threads, but each block pays for its small levels

# called with trees, level and number of open nodes, which is 0 when these trees are done
BlockReport = Callable[[range, int, int], None]


class _AbandonedError(Exception):
    """Raised to stop growing trees after others failed."""


def divide_trees(trees: range, n_workers: int) -> list[range]:
    """Divide trees into consecutive blocks, larger ones first; one block if trees are few."""
    if n_workers <= 1 or len(trees) < 2 * n_workers:
        return [trees]
    n_blocks = min(len(trees), BLOCKS_PER_WORKER * n_workers)
    size, n_larger = divmod(len(trees), n_blocks)
    starts = [i * size + min(i, n_larger) for i in range(n_blocks + 1)]
    return [trees[start:stop] for start, stop in pairwise(starts)]


def grow_side_by_side(  # noqa: PLR0913, PLR0917 - the sixth listens and decides nothing
    columns: Columns | Values,
    targets: TrainingTargets,
    plan: GrowthPlan,
    trees: range,
    workers: Workers,
    report: BlockReport,
) -> list[GrownBatch]:
    """Grow one batch of trees in blocks, in the order of the trees.

    All workers call `report`, at any time. After an error of a worker or of `report`, and after
    Ctrl-C, no worker begins another level.
    """
    blocks = divide_trees(trees, workers.count)
    growers = workers if len(blocks) == 1 else ALONE
    grown: dict[range, GrownBatch] = {}
    is_abandoned = False

    def grow(block: range) -> None:
        nonlocal is_abandoned

        def hear(level: int, open_nodes: int) -> None:
            if is_abandoned:
                raise _AbandonedError
            report(block, level, open_nodes)

        try:
            grown[block] = grow_batch(columns, targets, plan, block, growers, hear)
            report(block, 0, 0)
        except _AbandonedError:
            return  # only the first error is raised
        except BaseException:
            is_abandoned = True
            raise

    try:
        workers.run(grow, blocks)
    except BaseException:  # Ctrl-C while waiting for the last worker
        is_abandoned = True
        raise
    return [grown[block] for block in blocks]
