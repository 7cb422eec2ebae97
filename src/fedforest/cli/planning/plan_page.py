"""A plan on the terminal, and beside what the run took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedforest.reports.formats import format_bytes, format_seconds

if TYPE_CHECKING:
    from fedforest.cli.terminal import Terminal
    from fedforest.runtime.planning.plans import RunPlan

_COORDINATOR = "coordinator"


def describe_plan(planned: RunPlan) -> dict[str, Any]:
    """Return a plan as JSON has it."""
    import msgspec

    described: dict[str, Any] = msgspec.to_builtins(planned)
    for name in ("processor_seconds", "memory_bytes"):
        described[name] = {party or _COORDINATOR: n for party, n in described[name].items()}
    return described


def show_plan(terminal: Terminal, planned: RunPlan) -> None:
    """Print a plan: one line for the run, one for each role."""
    from rich.markup import escape
    from rich.table import Table

    terminal.out.print(escape(summarise_plan(planned)))
    table = Table("role", "computes", "memory", "receives", "sends")
    for column in table.columns[1:]:
        column.justify = "right"
    for party, seconds in planned.processor_seconds.items():
        sent, taken = planned.bytes_from.get(party), planned.bytes_to.get(party)
        table.add_row(
            escape(party or _COORDINATOR),
            format_seconds(seconds),
            format_bytes(planned.memory_bytes[party]),
            "" if taken is None else format_bytes(taken),
            "" if sent is None else format_bytes(sent),
        )
    terminal.out.print(table)
    if not planned.is_measured:
        terminal.say(
            "Times are those of another machine; measure this one: fedforest plan --calibrate"
        )


def summarise_plan(planned: RunPlan) -> str:
    """Say in one line what a run will take."""
    line = (
        f", {format_seconds(planned.line_seconds)} of it the line" if planned.line_seconds else ""
    )
    return (
        f"Planned: about {format_seconds(planned.seconds)}{line}; {planned.n_exchanges} exchanges, "
        f"{format_bytes(planned.n_bytes)}; {planned.n_nodes:,} nodes in {planned.n_trees} trees; "
        f"at most {format_bytes(max(planned.memory_bytes.values()))} of memory at a role"
    )
