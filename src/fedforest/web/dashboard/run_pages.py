"""The page of a run: how far it is, what came out, what it cost, who learned what."""

from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response, StreamingResponse

from fedforest.errors import AccessRefused
from fedforest.reports.facts import SHORT_ID, describe_order
from fedforest.reports.formats import format_bytes, format_seconds, format_time
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import fact_list, section
from fedforest.reports.run_report import (
    describe_records,
    describe_result,
    describe_scores,
    describe_worth,
    list_tiles,
    write_run_report,
)
from fedforest.runtime.client.reports import fetch_report
from fedforest.runtime.messages.orders import (
    CancelRun,
    EndRunEarly,
    LogOfRun,
    ResumeRun,
    ShareRun,
    ShowRun,
)
from fedforest.runtime.messages.results import LoggedEvent, RunDetails, RunEvents, RunList
from fedforest.web.dashboard.layout import (
    action_button,
    badge,
    labelled,
    notice,
    show_page,
    show_part,
)
from fedforest.web.dashboard.prediction_pages import offer_predictions
from fedforest.web.dashboard.run_live import describe_feed, stream_parts
from fedforest.web.dashboard.visits import Refused, Visit

_UNDERWAY = ("queued", "running")
_BEGIN_SECONDS = 0.7  # in which a refusal to go on is heard
_MOST_LINES = 300


def show_run(visit: Visit) -> Response:
    """Show a run; sections that take long to make are asked for afterwards."""
    details = _find(visit)
    state = details.state
    lead: Child = [badge(state.state), " ", describe_order(state.protocol, details.order)]
    tiles = [
        element("li", element("b", tile.figure), element("span", tile.label))
        for tile in list_tiles(details)
    ]
    parts: list[Child] = [_list_actions(visit, details), element("ul", tiles, class_="tiles")]
    if state.state in _UNDERWAY:
        parts.append(_live_part(visit, details))
    elif state.doing:
        parts.append(notice(state.doing, kind="bad" if state.state == "failed" else "warn"))
    if details.validation is not None:
        parts += [describe_scores(details), *describe_worth(details.validation)]
    if state.state == "finished":
        parts.append(_later(f"/runs/{state.run}/result", "Reading the model"))
    parts.append(offer_predictions(visit, details))
    if details.plan is not None:
        parts.append(_compare_plan(details))
    parts.append(_share_section(visit, details))
    parts += describe_records(details)
    parts.append(_log_section(state.run))
    return show_page(
        visit,
        state.name or f"Run {state.run[:SHORT_ID]}",
        parts,
        lead=lead,
        trail=[("/runs", "Runs")],
    )


def _find(visit: Visit) -> RunDetails:
    details: RunDetails = visit.site.door(visit).ask(ShowRun(run=_id_of(visit)), RunDetails)
    return details


def _id_of(visit: Visit) -> str:
    run = visit.path("run")
    if len(run) != 32 or not set(run) <= set("0123456789abcdef"):
        raise Refused(404, "the id of a run has 32 digits")
    return run


def _later(path: str, waiting: str) -> Markup:
    """Return a place that a script fills; without scripts it is a link."""
    link = element("a", f"{waiting} …", href=path, class_="quiet")
    return element("div", element("section", link), data_load=path)


def _list_actions(visit: Visit, details: RunDetails) -> Markup:
    run, state = details.state.run, details.state.state
    found: list[Child] = []
    if state == "finished" and details.state.protocol in ("vertical", "horizontal"):
        found.append(element("a", "See its trees", href=f"/runs/{run}/trees", class_="button"))
    if state == "finished":
        download = f"/runs/{run}/report"
        found.append(
            element("a", "Download the report", href=download, download=True, class_="button")
        )
    if "order" in visit.session.scopes:
        found += _list_orders(visit, run, state)
    if "label" in details.order:
        found.append(
            element("a", "Order one like it", href=f"/runs/new?like={run}", class_="button")
        )
    return element("div", found, class_="actions")


def _list_orders(visit: Visit, run: str, state: str) -> list[Child]:
    found: list[Child] = []
    if state in ("paused", "failed"):
        found.append(action_button(visit, f"/runs/{run}/resume", "Resume", class_="main-button"))
    if state in ("paused", "running"):
        path = f"/runs/{run}/end-early"
        found.append(action_button(visit, path, "End with the trees that are complete"))
    if state not in ("finished", "cancelled"):
        text = "Cancel this run for good? Parties forget it."
        path = f"/runs/{run}/cancel"
        found.append(
            action_button(visit, path, "Cancel the run", class_="bad-button", confirm=text)
        )
    return found


def _live_part(visit: Visit, details: RunDetails) -> Markup:
    run = details.state.run
    if _may_watch(visit):
        feed = visit.site.feeds.watch(visit.site.door(visit), details)
        inner = element("div", describe_feed(feed), data_live=f"/runs/{run}/events")
    else:
        path = f"/runs/{run}/state"
        inner = element("div", _say_state(details), data_refresh=path, data_every="3")
    return section("How far it is", inner)


def _may_watch(visit: Visit) -> bool:
    return bool(visit.site.role_of(visit.user) in ("scientist", "operator"))


def show_state(visit: Visit) -> Response:
    """Show how far a run is to those who may not watch its events."""
    details = _find(visit)
    response = show_part(_say_state(details))
    if details.state.state not in _UNDERWAY:
        response.headers["x-reload"] = "1"
    return response


def _say_state(details: RunDetails) -> Markup:
    state = details.state
    facts: list[tuple[str, Child]] = [
        ("State", badge(state.state)),
        ("Now", state.doing or "-"),
        ("Exchanges", f"{state.n_exchanges:,}, {format_bytes(state.n_bytes)}"),
    ]
    return fact_list(facts)


def stream_run(visit: Visit) -> Response:
    """Send what changes on the page of a run, while it goes on."""
    details = _find(visit)
    if not _may_watch(visit) or details.state.state not in _UNDERWAY:
        return Response('event: over\ndata: ""\n\n', media_type="text/event-stream")
    feed = visit.site.feeds.watch(visit.site.door(visit), details)
    return StreamingResponse(stream_parts(feed, visit.is_welcome), media_type="text/event-stream")


def show_result(visit: Visit) -> Response:
    """Show what the model goes by; it takes the longest to make."""
    details, result = fetch_report(visit.site.door(visit).ask, _id_of(visit))
    parts = describe_result(result)
    if visit.is_partial:
        return show_part(parts)
    return show_page(visit, details.state.name or "The model", parts)


def _compare_plan(details: RunDetails) -> Markup:
    planned: dict[str, Any] = details.plan or {}
    rows: list[list[Child]] = []
    if details.started is not None and details.state.ended is not None:
        took = format_seconds(details.state.ended - details.started)
        rows.append(["Time", format_seconds(planned["seconds"]), took])
    rows.append(["Exchanges", f"{planned['n_exchanges']:,}", f"{details.state.n_exchanges:,}"])
    for party, n_bytes in planned["bytes_from"].items():
        sent = format_bytes(details.bytes_from.get(party, 0))
        rows.append([f"{party} sends", format_bytes(n_bytes), sent])
    if details.peak_memory_bytes is not None:
        peak = f"{format_bytes(details.peak_memory_bytes)}, with all that its process did before"
        rows.append(["Coordinator's memory", format_bytes(planned["memory_bytes"][""]), peak])
    return section(
        "Plan and reality",
        table(["", "Planned", "So far" if details.state.ended is None else "It took"], rows),
        element(
            "p",
            "Not planned: alignment, validation and the forests of each party alone.",
            class_="quiet",
        ),
    )


def _log_section(run: str) -> Markup:
    place = _later(f"/runs/{run}/log", "Reading the log")
    summary = element("summary", "States, and every exchange with every party")
    return section("Log", element("details", summary, place, data_key="log"))


def show_log(visit: Visit) -> Response:
    """Show the last lines of a run's log."""
    run = _id_of(visit)
    events = visit.site.door(visit).ask(LogOfRun(run=run), RunEvents).events
    rows = [_log_row(event) for event in events[-_MOST_LINES:]]
    left = len(events) - len(rows)
    note = f"The {left:,} lines before these: fedforest runs log {run[:SHORT_ID]}" if left else ""
    headings = ["Time", "What", "Party", "Trees", "Level", "Open nodes", "To", "From", "Took"]
    shown = [element("p", note, class_="quiet") if note else None, table(headings, rows)]
    return show_part(shown) if visit.is_partial else show_page(visit, "Log", shown)


def _log_row(event: LoggedEvent) -> list[Child]:
    time = format_time(event.at)
    if event.kind != "exchange":
        return [time, f"{event.kind} {event.text}".strip(), "", "", "", "", "", "", ""]
    trees = ""
    if event.first_tree is not None and event.last_tree is not None:
        trees = f"{event.first_tree + 1} to {event.last_tree}"
    level = "" if event.level is None else str(event.level)
    nodes = "" if event.open_nodes is None else f"{event.open_nodes:,}"
    sizes = [format_bytes(event.bytes_to), format_bytes(event.bytes_from)]
    took = f"{1000.0 * event.seconds:.0f} ms"
    return [time, event.text, event.party, trees, level, nodes, *sizes, took]


def download_report(visit: Visit) -> Response:
    """Send the report of a run as one file."""
    details, result = fetch_report(visit.site.door(visit).ask, _id_of(visit))
    name = quote((details.state.name or details.state.run[:SHORT_ID]) + ".html", safe="")
    return Response(
        write_run_report(details, result),
        media_type="text/html",
        headers={
            "content-disposition": f"attachment; filename=\"report.html\"; filename*=UTF-8''{name}",
            "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
        },
    )


def cancel_run(visit: Visit) -> Response:
    """Cancel a run."""
    run = _id_of(visit)
    visit.site.door(visit).ask(CancelRun(run=run), RunList)
    return RedirectResponse(f"/runs/{run}", 303)


def resume_run(visit: Visit) -> Response:
    """Go on with a run that is paused."""
    return _go_on(visit, ResumeRun(run=_id_of(visit)))


def end_run_early(visit: Visit) -> Response:
    """Finish a run with the trees that are complete."""
    return _go_on(visit, EndRunEarly(run=_id_of(visit)))


def _go_on(visit: Visit, order: ResumeRun | EndRunEarly) -> Response:
    feed = visit.site.feeds.resume(visit.site.door(visit), _find(visit), order)
    feed.is_over.wait(_BEGIN_SECONDS)
    if isinstance(feed.error, AccessRefused):
        raise feed.error
    return RedirectResponse(f"/runs/{order.run}", 303)


def _share_section(visit: Visit, details: RunDetails) -> Markup | None:
    """Return with whom a run is shared, and the form to change it, to those who may."""
    mine = (
        visit.user == details.state.user.rpartition("/")[2]
        or visit.site.role_of(visit.user) == "operator"
    )
    if "order" not in visit.session.scopes or not mine:
        return None
    path = f"/runs/{details.state.run}/share"
    listed = [
        element(
            "li",
            user,
            " ",
            action_button(
                visit,
                path,
                f"Share no more with {user}",
                fields={"user": user, "ends": "1"},
                class_="small",
            ),
        )
        for user in details.shared_with
    ]
    box = element("input", name="user", id="share-with", required=True, maxlength=64)
    hint = "Viewers see it; scientists and services may predict with its model, too."
    form = element(
        "form",
        element("input", type="hidden", name="by", value=visit.session.form_token),
        labelled("User", box, hint, for_="share-with"),
        element("button", "Share the run", type="submit"),
        method="post",
        action=path,
    )
    nobody = element("p", "Nobody but you and operators.", class_="quiet")
    return section(
        "Who else may see it", element("ul", listed, class_="plain") if listed else nobody, form
    )


def share_run(visit: Visit) -> Response:
    """Share a run with another user, or end that."""
    run, ends = _id_of(visit), visit.form.get("ends") == "1"
    order = ShareRun(run=run, user=visit.form.get("user", "")[:64], ends=ends)
    visit.site.door(visit).ask(order, RunDetails)
    return RedirectResponse(f"/runs/{run}", 303)
