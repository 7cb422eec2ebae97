"""The plan of a run that is about to be ordered, as talk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedforest.cli.planning.plan_page import summarise_plan

if TYPE_CHECKING:
    from fedforest.cli.terminal import Terminal
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.messages.orders import AnyRun


def say_plan(terminal: Terminal, federation: Federation, order: AnyRun) -> None:
    """Say in a line what a run will take; without a word where it cannot be planned."""
    from fedforest.errors import FederationError
    from fedforest.estimators.live_plans import plan_live
    from fedforest.runtime.planning.plans import can_plan

    if terminal.as_json or terminal.quiet or not can_plan(order):
        return
    try:
        terminal.say(summarise_plan(plan_live(federation.ask, order)))
    except FederationError as error:
        terminal.say(f"No plan beforehand: {error}")
