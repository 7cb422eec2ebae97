"""`fedforest runs`: list trainings and their results; watch, resume and cancel them."""

from __future__ import annotations

from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedforest.cli.retention.run_filter import (
    DataSet,
    Name,
    Newer,
    Older,
    States,
    User,
    make_filter,
)
from fedforest.cli.run_page import show_details
from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal
from fedforest.reports.facts import SHORT_ID
from fedforest.reports.formats import format_bytes, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.messages.orders import RunFilter
    from fedforest.runtime.messages.results import LoggedEvent, RunState

runs = typer.Typer(help="What became of trainings.", no_args_is_help=True)

WhichRun = Annotated[
    str, typer.Argument(help="A run: its name, its id, or the first digits of its id.")
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", help="A party that is not waited for any more; may repeat."),
]


@runs.callback()
def runs_commands() -> None:
    """Show and control trainings; the coordinator remembers all of them."""


@runs.command("list")
def list_runs(  # noqa: PLR0913, PLR0917 - options of a command
    states: States = None,
    user: User = "",
    name: Name = "",
    data: DataSet = "",
    older_than: Older = "",
    newer_than: Newer = "",
    profile: Profile = "",
    as_json: AsJson = False,
) -> None:
    """List runs, the oldest first: all, or those of some states, a user, an age or a data set.

    Example: fedforest runs list

    Example: fedforest runs list --state paused --state failed --newer-than 7d

    Example: fedforest runs list --user ann --data customers --name 'churn*'
    """
    terminal = Terminal(as_json)
    which = make_filter(states, user, name, data, older_than, newer_than)
    with _federation(profile) as federation:
        found = _list_states(federation, which)
    if as_json:
        terminal.show_json([_describe_state(state) for state in found])
    elif found:
        terminal.out.print(_make_table(found))
    else:
        terminal.say("There are no such runs. Begin one: fedforest train run.toml --watch")


@runs.command("show")
def show(
    run: WhichRun,
    leakage: Annotated[
        bool, typer.Option("--leakage", help="Say in full who learned what.")
    ] = False,
    profile: Profile = "",
    as_json: AsJson = False,
) -> None:
    """Show a run: order, state, times, traffic, scores, model, and who learned what.

    Example: fedforest runs show 4f2a

    Example: fedforest runs show 4f2a --leakage
    """
    from fedforest.runtime.messages.orders import ShowRun
    from fedforest.runtime.messages.results import RunDetails

    with _federation(profile) as federation:
        details = federation.ask(ShowRun(run=find_run(federation, run).run), RunDetails)
    show_details(Terminal(as_json), details, with_leakage=leakage)


@runs.command("watch")
def watch(
    run: WhichRun, profile: Profile = "", as_json: AsJson = False, quiet: Quiet = False
) -> None:
    """Watch a run until it ends, and show its result; Ctrl-C leaves it going.

    Example: fedforest runs watch 4f2a
    """
    from fedforest.cli.run_watch import follow_run
    from fedforest.runtime.messages.orders import WatchRun

    with _federation(profile) as federation:
        found = find_run(federation, run).run
        follow_run(Terminal(as_json, quiet), federation, WatchRun(run=found))


@runs.command("resume")
def resume(  # noqa: PLR0913, PLR0917 - options of a command
    run: WhichRun,
    without: Without = None,
    end_early: Annotated[
        bool, typer.Option("--end-early", help="Finish with the trees that are complete.")
    ] = False,
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a paused run, and watch it.

    Example: fedforest runs resume 4f2a

    Example: fedforest runs resume 4f2a --without shop
    """
    from fedforest.cli.run_watch import follow_run
    from fedforest.runtime.messages.orders import EndRunEarly, ResumeRun

    with _federation(profile) as federation:
        found, kind = find_run(federation, run).run, EndRunEarly if end_early else ResumeRun
        order = kind(run=found, without=without or [])
        follow_run(Terminal(as_json, quiet), federation, order)


@runs.command("cancel")
def cancel(
    run: WhichRun, profile: Profile = "", as_json: AsJson = False, quiet: Quiet = False
) -> None:
    """Give a run up, also one that is under way; parties forget it.

    Example: fedforest runs cancel 4f2a
    """
    from fedforest.runtime.messages.orders import CancelRun
    from fedforest.runtime.messages.results import RunList

    with _federation(profile) as federation:
        found = find_run(federation, run).run
        federation.ask(CancelRun(run=found), RunList)
    terminal = Terminal(as_json, quiet)
    if as_json:
        terminal.show_json({"run": found, "state": "cancelled"})
    else:
        terminal.say(f"run {found} is cancelled")


@runs.command("share")
def share(  # noqa: PLR0913, PLR0917 - options of a command
    run: WhichRun,
    user: Annotated[str, typer.Argument(help="A user of the federation.")],
    end: Annotated[bool, typer.Option("--end", help="End the sharing.")] = False,
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Share a run and its model with another user, whose role says what it may do with them.

    Example: fedforest runs share 4f2a ben

    Example: fedforest runs share 4f2a ben --end
    """
    from fedforest.runtime.messages.orders import ShareRun
    from fedforest.runtime.messages.results import RunDetails

    with _federation(profile) as federation:
        found = find_run(federation, run).run
        details = federation.ask(ShareRun(run=found, user=user, ends=end), RunDetails)
    terminal = Terminal(as_json, quiet)
    if as_json:
        terminal.show_json({"run": found, "shared_with": details.shared_with})
    else:
        terminal.say(f"run {found} is shared with {', '.join(details.shared_with) or 'no user'}")


@runs.command("report")
def report(
    run: WhichRun,
    html: Annotated[Path, typer.Option("--html", help="The file to write.")],
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run as one HTML file that needs nothing else: to mail, to print.

    Scores with intervals, importances, trees where you have them, who learned what, parameters.

    Example: fedforest runs report 4f2a --html churn.html
    """
    from fedforest.reports.run_report import write_run_report
    from fedforest.runtime.client.reports import fetch_report

    with _federation(profile) as federation:
        details, result = fetch_report(federation.ask, find_run(federation, run).run)
    _write_text(html, write_run_report(details, result))
    terminal = Terminal(as_json, quiet)
    if as_json:
        terminal.show_json({"run": details.state.run, "file": str(html)})
    else:
        terminal.say(f"the report of run {details.state.run[:SHORT_ID]} is in {html}")


def _write_text(path: Path, text: str) -> None:
    from fedforest.errors import ConfigurationError

    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None


@runs.command("log")
def log(run: WhichRun, profile: Profile = "", as_json: AsJson = False) -> None:
    """Print what happened in a run: changes of state, and every party's part in every exchange.

    Example: fedforest runs log 4f2a
    """
    from fedforest.runtime.messages.orders import LogOfRun
    from fedforest.runtime.messages.results import RunEvents

    with _federation(profile) as federation:
        found = find_run(federation, run).run
        events = federation.ask(LogOfRun(run=found), RunEvents).events
    terminal = Terminal(as_json)
    for event in events:
        if as_json:
            terminal.show_json(_describe_state(event))
        else:
            typer.echo(_describe_event(event))


@contextmanager
def _federation(profile: str) -> Iterator[Federation]:
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile

    with Federation(choose_profile(profile)) as federation:
        yield federation


def find_run(federation: Federation, text: str) -> RunState:
    """Return the run that is meant; raises `ConfigurationError` where it is none, or not only one.

    A name that is used again means the latest run of that name, for every command.
    """
    return _choose_run(_list_states(federation), text)


def find_model(federation: Federation, text: str) -> RunState:
    """Return the run that is meant, which has a model; else an error names the latest that has."""
    from fedforest.errors import ConfigurationError

    states = _list_states(federation)
    found = _choose_run(states, text)
    if found.state == "finished":
        return found
    finished = [
        state.run
        for state in states
        if found.name and (state.name, state.state) == (found.name, "finished")
    ]
    hint = (
        f"; the latest finished one of that name is {finished[-1][:SHORT_ID]}" if finished else ""
    )
    raise ConfigurationError(
        f"run {found.run[:SHORT_ID]} is {found.state} and has no model{hint}; see: fedforest runs "
        "list"
    )


def _choose_run(states: list[RunState], text: str) -> RunState:
    from fedforest.errors import ConfigurationError

    named = [state for state in states if text and state.name == text]
    if named:
        return named[-1]
    found = [state for state in states if state.run.startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        near = get_close_matches(text, {state.name for state in states if state.name}, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"there is no run {text!r}{hint}; see: fedforest runs list")
    some = ", ".join(state.run[:SHORT_ID] for state in found[:5])
    raise ConfigurationError(f"{len(found)} runs begin with {text!r}, such as {some}; say more")


def _list_states(federation: Federation, which: RunFilter | None = None) -> list[RunState]:
    from fedforest.runtime.messages.orders import ListRuns
    from fedforest.runtime.messages.results import RunList

    order = ListRuns() if which is None else ListRuns(which)
    return federation.ask(order, RunList).runs


def _describe_state(value: Any) -> dict[str, Any]:
    import msgspec

    described: dict[str, Any] = msgspec.structs.asdict(value)
    return described


def _make_table(states: list[RunState]) -> Any:
    from rich.table import Table

    table = Table("run", "name", "protocol", "state", "ordered", "by", "exchanges", "bytes")
    for column in table.columns:
        column.no_wrap = True
    for state in states:
        table.add_row(
            state.run[:SHORT_ID],
            state.name,
            state.protocol,
            state.state,
            format_time(state.created)[5:-3],
            state.user.rpartition("/")[2],
            str(state.n_exchanges),
            format_bytes(state.n_bytes),
        )
    return table


def _describe_event(event: LoggedEvent) -> str:
    when = format_time(event.at)
    if event.kind != "exchange":
        return f"{when}  {event.kind}  {event.text}".rstrip()
    level = (
        ""
        if event.level is None
        else (
            f", trees {event.first_tree}-{event.last_tree} level {event.level}, "
            f"{event.open_nodes} open nodes"
        )
    )
    return (
        f"{when}  exchange {event.number}  {event.text} with {event.party}: "
        f"{event.bytes_to} bytes to it, {event.bytes_from} from it, {event.seconds:.3f} s{level}"
    )
