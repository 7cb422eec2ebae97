"""Plans of runs from small to very large, as tables: the numbers of docs/scaling.md."""

from collections.abc import Iterable, Iterator
from typing import Any

from fedforest import HorizontalExtraTreesClassifier, Masked, VerticalForestClassifier
from fedforest.estimators.planning import order_of
from fedforest.reports.formats import format_bytes, format_seconds
from fedforest.runtime.planning.plans import COORDINATOR, Machines, RunPlan, plan_run
from fedforest.runtime.planning.speeds import STANDARD
from fedforest.runtime.planning.tables import PlannedLine, PlannedTable, PlannedTables

GIGABIT = 125e6  # bytes per second
LINE = PlannedLine(0.02, 0.1 * GIGABIT, GIGABIT)
MACHINES = Machines(LINE, n_cores=8)
N_TREES, DEPTH = 100, 10
MEASURED_ROWS = 1_000_000  # largest tables that plans were compared with
_HEADS = (
    "rows in all", "parties", "time", "of it the line", "bytes in all", "memory of a party",
    "of the coordinator", "grounds",
)  # fmt: skip


def describe_growth() -> str:
    """Plan both systems over more and more rows, with few parties."""
    rows = []
    for n_rows in (10**5, 10**6, 10**7, 10**8, 10**9):
        rows.append(("vertical", *_vertical(n_rows, 2)))
        rows.append(("horizontal", *_horizontal(n_rows, 10)))
    return _table(rows)


def describe_extremes() -> str:
    """Plan both systems over more and more parties."""
    rows = []
    for n_parties in (2, 10, 100, 1000):
        rows.append(("vertical", *_vertical(10**6, n_parties)))
        rows.append(("horizontal, masked", *_horizontal(10**7, n_parties, aggregation=Masked())))
    rows.append(("horizontal, masked", *_horizontal(10**9, 1000, aggregation=Masked())))
    return _table(rows)


def _vertical(n_rows: int, n_parties: int) -> tuple[int, int, RunPlan]:
    estimator = VerticalForestClassifier(N_TREES, max_depth=DEPTH)
    table = PlannedTable(n_rows, 20)
    return n_rows, n_parties, _plan(estimator, dict.fromkeys(_names(n_parties), table), "vertical")


def _horizontal(n_rows: int, n_parties: int, **options: Any) -> tuple[int, int, RunPlan]:
    estimator = HorizontalExtraTreesClassifier(N_TREES, max_depth=DEPTH, **options)
    tables = dict.fromkeys(_names(n_parties), PlannedTable(n_rows // n_parties, 40))
    return n_rows, n_parties, _plan(estimator, tables, "horizontal")


def _names(n_parties: int) -> Iterator[str]:
    return (f"party {number}" for number in range(n_parties))


def _plan(estimator: Any, tables: dict[str, PlannedTable], protocol: str) -> RunPlan:
    order, speeds = order_of(estimator, list(tables)), STANDARD[f"{protocol} two classes"]
    return plan_run(order, PlannedTables(tables), MACHINES, speeds)


def _table(rows: Iterable[tuple[str, int, int, RunPlan]]) -> str:
    lines = [f"| system | {' | '.join(_HEADS)} |", "|---|" + "---:|" * 7 + "---|"]
    for system, n_rows, n_parties, planned in rows:
        memory = planned.memory_bytes
        cells = (
            f"{n_rows:,}",
            f"{n_parties:,}",
            format_seconds(planned.seconds),
            format_seconds(planned.line_seconds),
            format_bytes(planned.n_bytes),
            format_bytes(max(n for party, n in memory.items() if party != COORDINATOR)),
            format_bytes(memory[COORDINATOR]),
            "extrapolated" if n_rows > MEASURED_ROWS or n_parties > 10 else "like measured runs",
        )
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return "\n".join(lines)
