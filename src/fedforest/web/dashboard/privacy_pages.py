"""Privacy: what the latest runs spent and took from parties, as far as the user may see them."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from fedforest.errors import FederationError
from fedforest.reports.facts import SHORT_ID
from fedforest.reports.formats import format_bytes, format_time
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import chart, section
from fedforest.reports.steps import Steps, step_chart
from fedforest.runtime.messages.orders import ListRuns, RunFilter, ShowRun
from fedforest.runtime.messages.results import RunDetails, RunList
from fedforest.web.api.door import Door
from fedforest.web.dashboard.layout import badge, show_page
from fedforest.web.dashboard.visits import Visit

_N_RUNS = 60


def show_privacy(visit: Visit) -> Response:
    """Show epsilon by data set, what left parties by type, and what was refused."""
    door = visit.site.door(visit)
    states = door.ask(ListRuns(RunFilter(latest=_N_RUNS)), RunList).runs
    found = [find_run(door, state.run) for state in states]
    runs = [details for details in found if details is not None]
    lead = f"The latest {len(runs)} runs that you may see, those of other users left out."
    if visit.site.role_of(visit.user) == "operator":
        lead = f"The latest {len(runs)} runs."
    return show_page(
        visit,
        "Privacy",
        _describe_epsilon(runs),
        _describe_egress(runs),
        _describe_refusals(runs),
        lead=lead,
    )


def find_run(door: Door, run: str) -> RunDetails | None:
    """Return a run of a list; None if it went, or may not be seen, since the list was made."""
    try:
        return door.ask(ShowRun(run=run), RunDetails)
    except FederationError:
        return None


def _describe_epsilon(runs: Iterable[RunDetails]) -> Markup:
    spent: dict[str, list[tuple[float, float]]] = defaultdict(list)
    bare: dict[str, int] = defaultdict(int)  # runs without noise, by data set
    for details in runs:
        epsilon = _epsilon_of(details)
        if epsilon is None:
            continue
        for name in _labelled_data_sets(details.order):
            if math.isfinite(epsilon):
                spent[name].append((details.state.ended or details.state.created, epsilon))
            else:
                bare[name] += 1
    parts: list[Child] = []
    if spent:
        lines = [
            Steps(name, [(at, total) for at, total in _sum_up(points)])
            for name, points in sorted(spent.items())
        ]
        parts.append(chart(step_chart("ε spent on labels, summed up over runs", lines)))
    rows: list[list[Child]] = [
        [
            name,
            f"{sum(epsilon for _, epsilon in spent.get(name, ())):.3g}" if name in spent else "-",
            str(len(spent.get(name, ()))),
            str(bare.get(name, 0)),
        ]
        for name in sorted({*spent, *bare})
    ]
    if not rows:
        return section("ε of labels", element("p", "No run has used labels yet."))
    headings = ["Data set", "ε, summed up", "Runs with noise", "Runs without noise"]
    note = (
        "The plain sum is an upper bound. Each party keeps the exact account of its own data sets "
        "and enforces its ceiling; it shows it on its own page."
    )
    return section("ε of labels", *parts, table(headings, rows), element("p", note, class_="quiet"))


def _epsilon_of(details: RunDetails) -> float | None:
    """Return what a finished run spent on labels; infinite without noise, None if unknown."""
    figures = (details.leakage or {}).get("figures", {})
    if "label_epsilon_spent" not in figures:
        return None
    epsilon = figures["label_epsilon_spent"]
    return math.inf if epsilon is None else float(epsilon)


def _labelled_data_sets(order: dict[str, Any]) -> list[str]:
    parties = [order["label_party"]] if "label_party" in order else list(order["data"])
    return [f"{order['data'][party]} of {party}" for party in parties if party in order["data"]]


def _sum_up(points: Iterable[tuple[float, float]]) -> Iterable[tuple[float, float]]:
    total = 0.0
    for at, epsilon in sorted(points):
        total += epsilon
        yield at, total


def _describe_egress(runs: Iterable[RunDetails]) -> Markup:
    flows: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    reveals: dict[tuple[str, str], str] = {}
    for details in runs:
        for entry in (details.leakage or {}).get("learned", ()):
            if entry["from"] not in details.order["data"]:
                continue  # of the coordinator
            key = entry["from"], entry["message"]
            flows[key][0] += entry["count"]
            flows[key][1] += entry["bytes"]
            reveals[key] = entry["reveals"]
    rows: list[list[Child]] = [
        [message, sender, f"{count:,}", format_bytes(n_bytes), reveals[sender, message]]
        for (sender, message), (count, n_bytes) in sorted(
            flows.items(), key=lambda flow: -flow[1][1]
        )
    ]
    if not rows:
        return section("What left parties", element("p", "No run has finished yet."))
    headings = ["Message", "From", "Times", "Bytes", "What it reveals"]
    return section("What left parties, by type of message", table(headings, rows))


def _describe_refusals(runs: list[RunDetails]) -> Markup:
    rows: list[list[Child]] = []
    for details in reversed(runs):
        state = details.state
        if state.state in ("failed", "paused") and state.doing:
            link = element("a", state.name or state.run[:SHORT_ID], href=f"/runs/{state.run}")
            rows.append([link, badge(state.state), format_time(state.created), state.doing])
    if not rows:
        return section("Refusals", element("p", "No run is stopped by a refusal."))
    return section("Refusals", table(["Run", "State", "Ordered", "Why"], rows))
