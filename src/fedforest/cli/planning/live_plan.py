"""Plans from what a federation says of its tables and lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fedforest.cli.planning.plan_page import summarise_plan

if TYPE_CHECKING:
    from fedforest.cli.terminal import Terminal
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.messages.orders import AnyRun
    from fedforest.runtime.planning.tables import PlannedLine, PlannedTable


def ask_tables(
    federation: Federation, order: AnyRun
) -> tuple[dict[str, PlannedTable], PlannedLine]:
    """Return the tables of a run and its slowest line; raises where a party is not there."""
    from fedforest.errors import TooFewParties
    from fedforest.runtime.messages.orders import DescribeTables
    from fedforest.runtime.messages.results import TablesDescribed
    from fedforest.runtime.planning.tables import PlannedLine, tables_of

    told = federation.ask(DescribeTables(data=order.data), TablesDescribed)
    missing = [party for party in order.data if party not in told.sizes]
    if missing:
        raise TooFewParties(
            f"not connected: {', '.join(missing)}; to plan without, say how large all tables are "
            "(--rows, --columns)"
        )
    line = PlannedLine(told.latency_seconds, told.bytes_per_second)
    return dict(tables_of(order, told.sizes).by_party), line


def say_plan(terminal: Terminal, federation: Federation, order: AnyRun) -> None:
    """Say in a line what a run will take, as talk; without a word where it cannot be planned."""
    from fedforest.errors import FederationError
    from fedforest.estimators.planning import speeds_for
    from fedforest.runtime.planning.plans import Machines, can_plan, plan_run
    from fedforest.runtime.planning.tables import STANDARD_CLASSES, PlannedTables

    if terminal.as_json or terminal.quiet or not can_plan(order):
        return
    try:
        tables, line = ask_tables(federation, order)
        speeds = speeds_for(order, STANDARD_CLASSES, or_standard=True)
        machines = Machines(line, n_cores=os.cpu_count() or 1)
        terminal.say(summarise_plan(plan_run(order, PlannedTables(tables), machines, speeds)))
    except FederationError as error:
        terminal.say(f"No plan beforehand: {error}")
