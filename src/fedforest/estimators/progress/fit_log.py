"""The cost of a training, step by step, to read or plot."""

from typing import NamedTuple

from fedforest.runtime.driver import ExchangeLog


class FitStep(NamedTuple):
    """One step of a batch of trees: all open nodes, two exchanges."""

    first_tree: int
    n_trees: int
    step: int
    level: int  # of the deepest open nodes: a step more than there are levels asks nodes again
    open_nodes: int
    n_bytes: int
    seconds: float


class CountedStep(NamedTuple):
    """One step of horizontal training, in which sums over participants are formed."""

    first_tree: int
    n_trees: int
    step: int
    level: int  # of the deepest open nodes: a step more than there are levels asks nodes again
    open_nodes: int
    vectors: int  # (node, candidate column) pairs whose sums were asked for
    participants: float  # of a sum, on average over trees
    n_bytes: int
    seconds: float


class LinearStep(NamedTuple):
    """One exchange of the training of a linear model."""

    exchange: int
    request: str
    n_parties: int
    n_bytes: int
    seconds: float


def describe_exchanges(log: ExchangeLog) -> list[LinearStep]:
    """Return one entry for each exchange, in order."""
    return [
        LinearStep(number, exchange.request, exchange.n_parties, exchange.n_bytes, exchange.seconds)
        for number, exchange in enumerate(log.exchanges)
    ]


def describe_steps(log: ExchangeLog) -> list[FitStep]:
    """Return one entry for each step, in order; exchanges outside of steps are left out."""
    steps: dict[tuple[int, int], FitStep] = {}
    for exchange in log.exchanges:
        if "level" not in exchange.note:
            continue
        trees, step = exchange.note["trees"], exchange.note["step"]
        so_far = steps.get((trees.start, step))
        steps[trees.start, step] = FitStep(
            trees.start,
            len(trees),
            step,
            exchange.note["level"],
            exchange.note["open_nodes"],
            exchange.n_bytes + (so_far.n_bytes if so_far else 0),
            exchange.seconds + (so_far.seconds if so_far else 0.0),
        )
    return list(steps.values())


def describe_counted_steps(log: ExchangeLog) -> list[CountedStep]:
    """Describe the steps of horizontal training, with what was summed over which parties."""
    counted = {
        (exchange.note["trees"].start, exchange.note["step"]): exchange.note
        for exchange in log.exchanges
        if "vectors" in exchange.note
    }
    steps = []
    for step in describe_steps(log):
        note = counted.get((step.first_tree, step.step), {"vectors": 0, "participants": 0.0})
        more = {"vectors": note["vectors"], "participants": note["participants"]}
        steps.append(CountedStep(**step._asdict(), **more))
    return steps
