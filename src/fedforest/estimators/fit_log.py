"""What training cost, level by level, for people to read or plot."""

from typing import NamedTuple

from fedforest.runtime.driver import ExchangeLog


class FitStep(NamedTuple):
    """One step of a batch of trees: all open nodes, two exchanges."""

    first_tree: int
    n_trees: int
    level: int
    open_nodes: int
    n_bytes: int
    seconds: float


def describe_steps(log: ExchangeLog) -> list[FitStep]:
    """One entry for each step, in order; exchanges outside of steps are left out."""
    steps: dict[tuple[int, int], FitStep] = {}
    for exchange in log.exchanges:
        if "level" not in exchange.note:
            continue
        trees, level = exchange.note["trees"], exchange.note["level"]
        so_far = steps.get((trees.start, level))
        steps[trees.start, level] = FitStep(
            trees.start,
            len(trees),
            level,
            exchange.note["open_nodes"],
            exchange.n_bytes + (so_far.n_bytes if so_far else 0),
            exchange.seconds + (so_far.seconds if so_far else 0.0),
        )
    return list(steps.values())
