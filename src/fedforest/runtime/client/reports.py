"""Ask for everything that a report of a run is made of, as far as the user may have it."""

from collections.abc import Callable
from typing import Any

from fedforest.errors import AccessRefused
from fedforest.runtime.messages.orders import ShowRun, WatchRun
from fedforest.runtime.messages.results import HorizontalResult, RunDetails, VerticalResult

_RESULTS: dict[str, type[Any]] = {"vertical": VerticalResult, "horizontal": HorizontalResult}


def fetch_report(
    ask: Callable[[Any, type[Any]], Any], run: str
) -> tuple[RunDetails, VerticalResult | HorizontalResult | None]:
    """Return a run and its result; None where it has none yet, or the user may only look."""
    details = ask(ShowRun(run=run), RunDetails)
    kind = _RESULTS.get(details.state.protocol)
    if details.state.state != "finished" or kind is None:
        return details, None
    try:
        return details, ask(WatchRun(run=run), kind)
    except AccessRefused:  # a viewer has no model; the rest of the report is for it as well
        return details, None
