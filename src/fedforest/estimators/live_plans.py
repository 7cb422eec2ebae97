"""Plans from what a federation says of its tables and lines."""

import os
from collections.abc import Callable
from typing import Any

from fedforest.errors import TooFewParties
from fedforest.estimators.planning import speeds_for
from fedforest.runtime.messages.orders import AnyRun, DescribeTables
from fedforest.runtime.messages.results import TablesDescribed
from fedforest.runtime.planning.plans import Machines, RunPlan, plan_run
from fedforest.runtime.planning.tables import (
    STANDARD_CLASSES,
    PlannedLine,
    PlannedTable,
    PlannedTables,
    tables_of,
)

Ask = Callable[[Any, type[Any]], Any]  # sends a request, and returns its result


def ask_tables(ask: Ask, order: AnyRun) -> tuple[dict[str, PlannedTable], PlannedLine]:
    """Return the tables of a run and its slowest line; raises where a party is not there."""
    told: TablesDescribed = ask(DescribeTables(data=order.data), TablesDescribed)
    missing = [party for party in order.data if party not in told.sizes]
    if missing:
        raise TooFewParties(
            f"not connected: {', '.join(missing)}; to plan without, say how large all tables are "
            "(fedforest plan --rows, --columns)"
        )
    line = PlannedLine(told.latency_seconds, told.bytes_per_second)
    return dict(tables_of(order, told.sizes).by_party), line


def plan_live(ask: Ask, order: AnyRun) -> RunPlan:
    """Plan a run over the tables that parties have now, by the speeds known of this machine."""
    tables, line = ask_tables(ask, order)
    speeds = speeds_for(order, STANDARD_CLASSES, or_standard=True)
    machines = Machines(line, n_cores=os.cpu_count() or 1)
    return plan_run(order, PlannedTables(tables), machines, speeds)
