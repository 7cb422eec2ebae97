"""Trees grown side by side: every worker grows trees of its own and waits for nobody.

Where workers share a level, they wait for the slowest one at its end, and for whoever does the
bookkeeping between two levels. Trees know nothing of each other, so that the forest is the same.
"""

from collections.abc import Callable
from itertools import pairwise

from fedforest.kernels.layout import Columns
from fedforest.kernels.random_split import Values
from fedforest.tree.grow import GrownBatch, GrowthPlan, grow_batch
from fedforest.tree.targets import TrainingTargets
from fedforest.tree.workers import ALONE, Workers

BLOCKS_PER_WORKER = 1  # more would even out slow threads, but each block pays for its small levels

# hears trees, level and number of open nodes; none are open when these trees are done
BlockReport = Callable[[range, int, int], None]


class _AbandonedError(Exception):
    """Other trees failed; nobody will want these."""


def divide_trees(trees: range, n_workers: int) -> list[range]:
    """Consecutive blocks, the larger ones first; a single one where workers would run out."""
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

    `report` is called by all workers, at any time. After an error, theirs or its own, and after
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
            return  # the error to be raised is the first
        except BaseException:
            is_abandoned = True
            raise

    try:
        workers.run(grow, blocks)
    except BaseException:  # Ctrl-C while waiting for the last worker
        is_abandoned = True
        raise
    return [grown[block] for block in blocks]
