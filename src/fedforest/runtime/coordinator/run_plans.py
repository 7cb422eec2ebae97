"""Plans of runs at the coordinator: made from the sizes of tables, and kept with the run."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.runtime.coordinator.run_stages import say
from fedforest.runtime.membership.run_limits import RunLimits
from fedforest.runtime.messages.orders import AnyRun, DescribeTables
from fedforest.runtime.messages.party_requests import DescribeData, Done
from fedforest.runtime.messages.results import TablesDescribed
from fedforest.runtime.planning.plans import Machines, RunPlan, can_plan, plan_run
from fedforest.runtime.planning.tables import PlannedLine, tables_of
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.base import MeasuredTransport

PLAN = "plan.json"  # the file with the plan of a run


def describe_tables(
    hub: MeasuredTransport, order: DescribeTables, present: list[str], proof: bytes
) -> TablesDescribed:
    """Ask the parties that are there for the sizes of their tables."""
    there = {party: data for party, data in order.data.items() if party in present}
    asked = {party: DescribeData(data, order.asker, proof) for party, data in there.items()}
    sizes = {party: (told.n_rows, told.n_columns) for party, told in say(hub, asked).items()}
    network = hub.network
    return TablesDescribed(sizes, network.latency_seconds, network.bytes_per_second)


def plan_begun(
    order: AnyRun, begun: Mapping[str, Done], hub: MeasuredTransport, limits: RunLimits
) -> RunPlan | None:
    """Plan a run that parties have begun; raises `AccessRefused` where it passes a limit.

    None where there is no plan of such runs, or where parties had begun it before.
    """
    sizes = {party: (told.n_rows, told.n_columns) for party, told in begun.items() if told.n_rows}
    if not sizes or not hasattr(order, "parameters"):
        return None
    tables = tables_of(order, sizes)
    is_vertical = hasattr(order, "label_party")
    limits.check_rows(
        tables.most_rows if is_vertical else tables.all_rows, order.parameters.n_estimators
    )
    if not can_plan(order) or sizes.keys() != order.data.keys():
        return None
    line = PlannedLine(hub.network.latency_seconds, hub.network.bytes_per_second)
    try:
        planned = plan_run(order, tables, Machines(line, n_cores=os.cpu_count() or 1))
    except ConfigurationError:  # the training itself says what does not fit its tables
        return None
    limits.check_plan(planned.memory_bytes[""], planned.stored_bytes)
    return planned


def peak_memory() -> int | None:
    """Return the peak memory of this process so far, where the system tells it."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - not on all systems

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def load_plan(store: RunStore, run: bytes) -> dict[str, Any] | None:
    """Return the plan of a run as JSON has it; None if there is none."""
    data = store.load(run, PLAN)
    return None if data is None else msgspec.json.decode(data)
