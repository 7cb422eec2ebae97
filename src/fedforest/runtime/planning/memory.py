"""Peak memory of each role in a run.

The table counts as it is read (eight bytes a value) beside what training makes of it; row orders
are bounded by the batches that trees grow in.
"""

from collections.abc import Mapping

from fedforest.runtime.messages.orders import TrainHorizontal, TrainVertical
from fedforest.runtime.planning.horizontal_traffic import expect_participation
from fedforest.runtime.planning.tables import PlannedTables
from fedforest.runtime.planning.tree_sizes import TreeSizes
from fedforest.tree.growth.level_loop import BATCH_BYTES
from fedforest.tree.growth.parameters import ForestParameters, resolve_max_features
from fedforest.tree.growth.rows import entry_type

PROCESS = 190 * 2**20  # a process with compiled kernels
VALUE, FLOAT, BIN, LABEL = 8, 4, 1, 8
FOREST_NODE = 60  # of a growing forest, at each role that has it
ORDER_ROW = 16  # horizontal: of a tree at a party, row order and bits
MESSAGES = 3  # times a level's messages: sent, received and stored


def bound_party_memory(forest: ForestParameters, n_rows: int, n_columns: int) -> int:
    """Return an upper limit of a party's memory, from what it knows of a run by itself."""
    per_row = ORDER_ROW + FLOAT * resolve_max_features(None, n_columns)
    orders = min(BATCH_BYTES + n_rows * per_row, forest.n_estimators * n_rows * per_row)
    labels = n_rows * (LABEL + 2 * VALUE)
    return int(PROCESS + n_rows * n_columns * (VALUE + FLOAT) + orders + labels)


def memory_vertical(
    order: TrainVertical,
    tables: PlannedTables,
    batches: list[tuple[int, int, TreeSizes]],
    n_slots: int = 1,
) -> Mapping[str, int]:
    """Return the peak memory of each party in a vertical training; "" is the coordinator.

    So many batches grow side by side (`n_slots`).
    """
    n_rows, most = tables.most_rows, max(n_trees for _, n_trees, _ in batches)
    drawn = max(float(sizes.rows_open().max(initial=0.0)) for _, _, sizes in batches)
    entry = 2 * entry_type(n_rows, tables.n_classes)().itemsize
    orders = n_slots * drawn * entry + (most * n_rows * 6 if order.with_left_out else 0)
    messages = n_slots * MESSAGES * max(_level_bytes(sizes) for _, _, sizes in batches)
    forest = FOREST_NODE * sum(times * float(sizes.n_split().sum()) for times, _, sizes in batches)
    per_row = LABEL + 2 * VALUE  # labels, and as they travel
    rest = PROCESS + orders + messages + forest + n_rows * per_row
    memory = {
        party: int(rest + n_rows * table.n_columns * (VALUE + BIN))
        for party, table in tables.by_party.items()
    }
    return memory | {"": int(PROCESS + 2 * messages + forest + n_rows * per_row)}


def memory_horizontal(
    order: TrainHorizontal, tables: PlannedTables, batches: list[tuple[int, int, TreeSizes]]
) -> Mapping[str, int]:
    """Return the peak memory of each party in a horizontal training; "" is the coordinator."""
    n_columns = tables.most_columns
    k = order.parameters.growth_rules(tables.all_rows, n_columns).features_per_node
    most_open = max(float(sizes.n_open().max(initial=0.0)) for _, _, sizes in batches)
    numbers = most_open * k * (FLOAT + VALUE * (tables.n_classes + 1))
    forest = FOREST_NODE * sum(times * float(sizes.n_split().sum()) for times, _, sizes in batches)
    most = max(n_trees for _, n_trees, _ in batches)
    memory = {}
    for party, table in tables.by_party.items():
        cells = table.n_rows * n_columns
        trees = most * expect_participation(order) * table.n_rows * (ORDER_ROW + FLOAT * k)
        memory[party] = int(PROCESS + cells * (VALUE + FLOAT) + trees + numbers + forest)
    n_parties = max(1, len(tables.by_party))
    return memory | {
        "": int(PROCESS + numbers * (1 + n_parties * expect_participation(order)) + 2 * forest)
    }


def _level_bytes(sizes: TreeSizes) -> float:
    """Return the most bytes that a party receives in one level."""
    return max(float((sizes.bits() + sizes.n_open() * VALUE).max(initial=0.0)), 0.0)
