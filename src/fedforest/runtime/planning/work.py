"""How much each role has to compute in a run, in units whose speed is measured (`speeds.py`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from fedforest.protocol.aggregation.options import Masked
from fedforest.runtime.messages.orders import TrainHorizontal, TrainVertical
from fedforest.runtime.planning.horizontal_traffic import expect_participation
from fedforest.runtime.planning.speeds import Speeds
from fedforest.runtime.planning.tables import PlannedTables
from fedforest.runtime.planning.tree_sizes import TreeSizes

MASKED_NUMBER_SECONDS = 1.5e-8  # for each peer: a number under its masks, counted in words of eight
KEY_SECONDS = 3e-4  # of an agreement between two parties, at each of them
COORDINATOR_NODES = 3.0  # it decides about a node, records it and computes what its leaves say


class PlannedWork(msgspec.Struct, frozen=True):
    """The work of one role."""

    table_cells: float = 0.0  # read and binned, or turned into columns
    visited_cells: float = 0.0  # rows of open nodes, times the columns that are tried there
    moved_rows: float = 0.0
    visited_nodes: float = 0.0  # horizontal: times the columns that are tried
    seconds: float = 0.0  # of what has a time of its own

    def __add__(self, other: "PlannedWork") -> "PlannedWork":
        fields = self.__struct_fields__
        return PlannedWork(*(getattr(self, name) + getattr(other, name) for name in fields))

    def times(self, speeds: Speeds) -> float:
        """Return the processor time."""
        return (
            self.table_cells * speeds.table_cell
            + self.visited_cells * speeds.visited_cell
            + self.moved_rows * speeds.moved_row
            + self.visited_nodes * speeds.visited_node
            + self.seconds
        )


@dataclass(frozen=True, slots=True)
class WorkOfRoles:
    """The work of the coordinator and of each party."""

    coordinator: PlannedWork
    parties: Mapping[str, PlannedWork]

    def total(self) -> PlannedWork:
        """Return the work of all roles together."""
        return add_works([self.coordinator, *self.parties.values()])


def add_works(works: Iterable[PlannedWork]) -> PlannedWork:
    """Add up the work of some roles."""
    return sum(works, PlannedWork())


def work_vertical(
    order: TrainVertical, tables: PlannedTables, batches: list[tuple[int, int, TreeSizes]]
) -> WorkOfRoles:
    """Return the work of a vertical training; `batches` as in `plans.py`."""
    columns = {party: tables.by_party[party].n_columns for party in order.data}
    n_rows, total = tables.most_rows, max(1, sum(columns.values()))
    k = order.parameters.growth_rules(n_rows, total).features_per_node
    nodes, rows = _visits(batches)
    left_out = 1.6 if order.with_left_out else 1.0
    return WorkOfRoles(
        PlannedWork(visited_nodes=COORDINATOR_NODES * nodes),
        {
            party: PlannedWork(
                n_rows * n, rows * k * n / total, rows * left_out, nodes if n else 0.0
            )
            for party, n in columns.items()
        },
    )


def work_horizontal(
    order: TrainHorizontal, tables: PlannedTables, batches: list[tuple[int, int, TreeSizes]]
) -> WorkOfRoles:
    """Return the work of a horizontal training."""
    n_rows, n_columns = tables.all_rows, tables.most_columns
    k = order.parameters.growth_rules(n_rows, n_columns).features_per_node
    nodes, rows = _visits(batches)
    part, plug = expect_participation(order), order.plug()
    works = {}
    for party in order.data:
        own = tables.by_party[party].n_rows
        share = part * own / n_rows
        seconds = 0.0
        if isinstance(plug, Masked):
            n_peers = min(plug.k or len(order.data), len(order.data)) - 1
            n_numbers = nodes * k * tables.n_classes * part
            seconds = len(order.data) * KEY_SECONDS + n_peers * n_numbers * MASKED_NUMBER_SECONDS
        works[party] = PlannedWork(
            own * n_columns, rows * share * k, rows * share, nodes * k * part, seconds
        )
    return WorkOfRoles(PlannedWork(visited_nodes=COORDINATOR_NODES * nodes * k), works)


def _visits(batches: list[tuple[int, int, TreeSizes]]) -> tuple[float, float]:
    """Return (nodes, rows): open nodes of all levels, and the rows in them."""
    nodes = sum(times * float(sizes.n_open().sum()) for times, _, sizes in batches)
    return nodes, sum(times * float(sizes.rows_open().sum()) for times, _, sizes in batches)
