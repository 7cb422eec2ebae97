"""The list of runs: those that wait or are worked on first, then those that ended."""

import time
from collections.abc import Sequence
from urllib.parse import quote

from starlette.responses import Response

from fedforest.reports.facts import SHORT_ID
from fedforest.reports.formats import format_bytes, format_seconds, format_time
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.runtime.messages.orders import ListRuns, RunFilter
from fedforest.runtime.messages.results import RunList, RunState
from fedforest.web.dashboard.layout import badge, show_page, show_part
from fedforest.web.dashboard.visits import Visit

_PAGE = 50


def show_runs(visit: Visit) -> Response:
    """Show the runs that the user may see, the newest first, some at a time."""
    name = visit.query("name")
    pattern = f"*{name}*" if name and "*" not in name else name
    first = _number(visit.query("from"))
    door = visit.site.door(visit)
    present = RunFilter(states=["queued", "running", "paused"], name=pattern)
    past = RunFilter(
        states=["finished", "failed", "cancelled"], name=pattern, latest=first + _PAGE + 1
    )
    underway = [] if first else door.ask(ListRuns(present), RunList).runs[::-1]
    ended = door.ask(ListRuns(past), RunList).runs[::-1][first:]
    listing = _list_runs(underway, ended, first, name)
    if visit.is_partial:
        return show_part(listing)
    live = element("div", listing, id="runs", data_refresh=visit.request.url.path, data_every="3")
    return show_page(visit, "Runs", _search(name), live)


def _search(name: str) -> Markup:
    box = element(
        "input", type="search", name="name", value=name, aria_label="name of runs", maxlength=64
    )
    button = element("button", "Find by name", type="submit")
    return element(
        "form", box, button, method="get", action="/runs", class_="search", role="search"
    )


def _list_runs(
    underway: Sequence[RunState], ended: Sequence[RunState], first: int, name: str
) -> list[Markup]:
    parts = []
    if underway:
        parts.append(element("section", element("h2", "Under way"), _tabulate(underway)))
    shown = ended[:_PAGE]
    told: Child = _tabulate(shown) if shown else element("p", "No run has ended yet.")
    if not underway and not ended and not first:
        told = element("p", "There is no run that you may see. Begin one with New run.")
    parts.append(element("section", element("h2", "Ended"), told, _pager(first, len(ended), name)))
    return parts


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0


def _pager(first: int, n_all: int, name: str) -> Markup | None:
    if not first and n_all <= _PAGE:
        return None
    ways: list[Child] = []
    about = f"&name={quote(name)}" if name else ""
    if first:
        ways.append(element("a", "Newer", href=f"/runs?from={max(0, first - _PAGE)}{about}"))
    ways.append(f" {first + 1:,} to {first + min(_PAGE, n_all):,} ")
    if n_all > _PAGE:
        ways.append(element("a", "Older", href=f"/runs?from={first + _PAGE}{about}"))
    return element("nav", ways, aria_label="pages of the list", class_="pager")


def _tabulate(runs: Sequence[RunState]) -> Markup:
    rows: list[list[Child]] = [[_link(run), badge(run.state), *_describe(run)] for run in runs]
    return table(["Run", "State", "Kind", "By", "Ordered", "Took", "Bytes", "Now"], rows)


def _link(run: RunState) -> Markup:
    return element("a", run.name or run.run[:SHORT_ID], href=f"/runs/{run.run}")


def _describe(run: RunState) -> list[str]:
    ended = run.ended if run.ended is not None else time.time()
    return [
        run.protocol,
        run.user.rpartition("/")[2],
        format_time(run.created),
        format_seconds(max(0.0, ended - run.created)) if run.state != "queued" else "",
        format_bytes(run.n_bytes) if run.n_bytes else "",
        run.doing if len(run.doing) < 80 else f"{run.doing[:79]}…",
    ]
