"""The plan of a run: time, memory and bytes of each role, before anything starts.

What is planned follows from the request, the sizes of the tables and how trees usually grow
(`tree_sizes.py`). Bytes are nearly exact where trees are (`vertical_traffic.py`,
`horizontal_traffic.py`); time is work (`work.py`) by measured speeds (`speeds.py`), and the line.
Not planned: encrypted labels, linear models, alignment, validation and baselines.
"""

from collections.abc import Callable
from math import expm1
from typing import NamedTuple

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.protocol.horizontal.coordinator.training import BYTES_PER_ROW
from fedforest.protocol.turns import MOST_SLOTS
from fedforest.protocol.vertical.order import count_slots
from fedforest.runtime.messages.orders import AnyRun, TrainHorizontal, TrainVertical
from fedforest.runtime.planning.horizontal_traffic import expect_participation, plan_horizontal
from fedforest.runtime.planning.memory import memory_horizontal, memory_vertical
from fedforest.runtime.planning.speeds import Speeds, load_speeds, name_kind
from fedforest.runtime.planning.tables import PlannedLine, PlannedTables
from fedforest.runtime.planning.traffic import Traffic
from fedforest.runtime.planning.tree_sizes import BEST_CUTS, RANDOM_CUTS, TreeSizes, expect_sizes
from fedforest.runtime.planning.vertical_traffic import plan_vertical
from fedforest.runtime.planning.work import WorkOfRoles, work_horizontal, work_vertical
from fedforest.tree.growth.level_loop import BATCH_BYTES, GrowthPlan, batches, tree_bytes
from fedforest.tree.growth.parameters import ForestParameters

SERVICE_EXCHANGE = 4e-3  # of processes: journals, ledgers and TLS of one exchange
SERVICE_START = 0.4  # of processes: what surrounds a run
SERVICE_EXCHANGES = 2  # that begin and end a run
BOTH_WAYS = 0.5  # of a line's bytes, those of one direction: batches side by side use both at once
THREADED = 0.8  # of a further core, what a training in one process gets out of it
ONCE = 4 + SERVICE_EXCHANGES  # exchanges of a vertical run that are not about a batch of trees
COORDINATOR = ""  # in `RunPlan.memory_bytes`

Batches = list[tuple[int, int, TreeSizes]]  # how many batches, of how many trees, of which sizes


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run will cost; `memory_bytes` and `processor_seconds` have the coordinator as ""."""

    n_trees: int
    n_nodes: int  # of all trees
    n_exchanges: int
    seconds: float
    processor_seconds: dict[str, float]
    line_seconds: float  # of `seconds`, those that only the line takes
    bytes_to: dict[str, int]  # each party
    bytes_from: dict[str, int]
    memory_bytes: dict[str, int]
    stored_bytes: int  # by the coordinator's journal, until the run has ended
    is_measured: bool  # speeds were measured on this machine

    @property
    def n_bytes(self) -> int:
        """Bytes of all messages, there and back."""
        return sum(self.bytes_to.values()) + sum(self.bytes_from.values())


class Machines(NamedTuple):
    """Where roles compute, and what lies between them."""

    line: PlannedLine = PlannedLine()
    in_process: bool = False  # all roles in one
    are_together: bool = False  # processes on one machine
    n_cores: int = 1  # of each machine, or for `in_process` threads


class _Planned(NamedTuple):
    traffic: Traffic
    work: WorkOfRoles
    memory: dict[str, int]
    n_nodes: int
    n_slots: int = 1  # batches of trees side by side


def can_plan(order: AnyRun) -> bool:
    """Tell whether there is a plan of such runs."""
    if isinstance(order, TrainVertical):
        return not order.encrypts_labels
    return isinstance(order, TrainHorizontal)


def plan_run(
    order: AnyRun,
    tables: PlannedTables,
    machines: Machines = Machines(),  # noqa: B008 - immutable
    speeds: Speeds | None = None,
) -> RunPlan:
    """Plan a run over tables of these sizes; raises `ConfigurationError` for what has no plan."""
    if not can_plan(order):
        raise ConfigurationError(
            "there is no plan of runs with encrypted labels, of linear models and of alignments; "
            "start a small one to see what it takes"
        )
    tables.check(order.data)
    machines.line.check()
    assert isinstance(order, TrainVertical | TrainHorizontal)
    n_classes = 0 if order.is_regression else tables.n_classes
    is_vertical = isinstance(order, TrainVertical)
    protocol = "vertical" if is_vertical else "horizontal"
    speeds = speeds or load_speeds(name_kind(protocol, n_classes))
    if isinstance(order, TrainVertical):
        planned = _plan_vertical(order, tables, 1 if machines.in_process else MOST_SLOTS)
    else:
        planned = _plan_horizontal(order, tables)
    to, back = planned.traffic.bytes_to(), planned.traffic.bytes_from()
    compute = _compute_seconds(planned, machines, speeds)
    seconds = _elapsed_seconds(planned, machines, compute)
    work = {COORDINATOR: planned.work.coordinator, **planned.work.parties}
    return RunPlan(
        n_trees=order.parameters.n_estimators,
        n_nodes=planned.n_nodes,
        n_exchanges=round(planned.traffic.n_exchanges),
        seconds=float(seconds),
        processor_seconds={role: float(own.times(speeds)) for role, own in work.items()},
        line_seconds=float(seconds - compute),
        bytes_to=to,
        bytes_from=back,
        memory_bytes=planned.memory,
        stored_bytes=sum(back.values()),
        is_measured=speeds.is_measured,
    )


def _elapsed_seconds(planned: _Planned, machines: Machines, compute: float) -> float:
    """Return the time on the clock.

    One batch after the other waits for its messages. Side by side, one computes while another's
    bytes travel, and none is done before its own messages have come and gone.
    """
    traffic, line = planned.traffic, machines.line
    n_exchanges = traffic.n_exchanges + (0 if machines.in_process else SERVICE_EXCHANGES)
    n_bytes = sum(traffic.bytes_to().values()) + sum(traffic.bytes_from().values())
    transfer = line.transfer_seconds(traffic.line_bytes, n_bytes)
    n_slots = planned.n_slots
    if n_slots == 1:
        return compute + n_exchanges * line.latency_seconds + transfer
    transfer *= BOTH_WAYS
    waiting = (n_exchanges - ONCE) / n_slots + ONCE
    around = waiting * line.latency_seconds + (compute + transfer) / n_slots
    return max(compute, transfer, around)


def _compute_seconds(planned: _Planned, machines: Machines, speeds: Speeds) -> float:
    """Return the time without the line; parties of different machines work at the same time."""
    asking = planned.traffic.n_asked * speeds.exchange
    cores = 1.0 + THREADED * (machines.n_cores - 1)
    total = planned.work.total().times(speeds)
    if machines.in_process:
        return total / cores + asking
    around = planned.traffic.n_exchanges * SERVICE_EXCHANGE + SERVICE_START
    if machines.are_together:
        return (total + asking) / cores + around
    slowest = max(work.times(speeds) for work in planned.work.parties.values())
    return (slowest + planned.work.coordinator.times(speeds)) / cores + asking + around


def _plan_vertical(order: TrainVertical, tables: PlannedTables, most_slots: int) -> _Planned:
    parameters, n_rows = order.parameters, tables.most_rows
    rules = parameters.growth_rules(n_rows, tables.all_columns)
    sampling = parameters.sampling(n_rows)
    n_trees, n_classes = parameters.n_estimators, 0 if order.is_regression else tables.n_classes
    budget = order.batch_bytes or BATCH_BYTES
    fitting = budget // max(1, tree_bytes(n_rows, n_classes, with_left_out=False))
    most_slots = 1 if order.with_left_out else min(most_slots, fitting)
    n_slots = count_slots(n_rows * n_trees, most_slots)
    growth = GrowthPlan(rules, sampling, 0, order.with_left_out, budget // n_slots)
    law = BEST_CUTS[parameters.task]
    sizes = _batches(
        min(_largest_batch(growth, n_rows, n_classes, parameters), -(-n_trees // n_slots)),
        parameters,
        lambda n_trees: expect_sizes(_different_rows(parameters, n_rows), rules, law, n_trees),
    )
    traffic, work = plan_vertical(order, tables, sizes), work_vertical(order, tables, sizes)
    memory = dict(memory_vertical(order, tables, sizes, n_slots))
    return _Planned(traffic, work, memory, _count_nodes(sizes), n_slots)


def _plan_horizontal(order: TrainHorizontal, tables: PlannedTables) -> _Planned:
    parameters, n_rows = order.parameters, tables.all_rows
    rules = parameters.growth_rules(n_rows, tables.most_columns)
    share = expect_participation(order)
    each = [table.n_rows * share for table in tables.by_party.values()]
    law = RANDOM_CUTS[parameters.task]
    per_row = BYTES_PER_ROW + 4 * rules.features_per_node
    largest = max(1, BATCH_BYTES // max(1, tables.most_rows * per_row))
    rows = _different_rows(parameters, n_rows) * share
    sizes = _batches(
        largest, parameters, lambda n_trees: expect_sizes(rows, rules, law, n_trees, each)
    )
    traffic, work = plan_horizontal(order, tables, sizes), work_horizontal(order, tables, sizes)
    return _Planned(
        traffic, work, dict(memory_horizontal(order, tables, sizes)), _count_nodes(sizes)
    )


def _largest_batch(
    growth: GrowthPlan, n_rows: int, n_classes: int, parameters: ForestParameters
) -> int:
    return len(next(batches(growth, n_rows, n_classes, 0, parameters.n_estimators)))


def _batches(
    largest: int, parameters: ForestParameters, expect: Callable[[int], TreeSizes]
) -> Batches:
    """Divide all trees into batches of at most `largest`; equal ones are planned once."""
    n_full, rest = divmod(parameters.n_estimators, largest)
    found: Batches = [(n_full, largest, expect(largest))] if n_full else []
    return [*found, (1, rest, expect(rest))] if rest else found


def _different_rows(parameters: ForestParameters, n_rows: int) -> float:
    """Return how many different rows a tree draws."""
    n_draws = parameters.sampling(n_rows).n_draws
    if not parameters.bootstrap:
        return float(n_draws)
    return float(n_rows * -expm1(-n_draws / n_rows))


def _count_nodes(sizes: Batches) -> int:
    splits = sum(times * float(each.n_split().sum()) for times, _, each in sizes)
    return round(2 * splits) + sum(times * n_trees for times, n_trees, _ in sizes)
