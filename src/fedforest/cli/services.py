"""`fedforest coordinator start` and `fedforest party start`: the processes of a federation."""

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from fedforest.runtime.monitoring.server import MetricsAddress

_LOOPBACK = "127.0.0.1"
Home = Annotated[
    Path, typer.Option("--home", help="The role's folder.", exists=True, file_okay=False)
]
LogFormat = Annotated[
    Literal["text", "json"],
    typer.Option("--log-format", help="How events are written to standard error."),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    typer.Option("--log-level", help="The least severe events that are written."),
]

MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        min=0,
        max=65535,
        help="Answer /metrics, /healthz and /readyz here, unencrypted; 0 takes a free port.",
    ),
]
MetricsHost = Annotated[
    str, typer.Option("--metrics-host", help="The address of this machine to answer at.")
]

coordinator = typer.Typer(help="The process that orders runs.", no_args_is_help=True)
party = typer.Typer(help="The process beside a party's tables.", no_args_is_help=True)


@coordinator.callback()
def coordinator_commands() -> None:
    """The process that orders runs; it holds no row."""


@party.callback()
def party_commands() -> None:
    """The process beside a party's tables; it opens outbound connections only."""


@coordinator.command("start")
def start_coordinator(
    home: Home,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = _LOOPBACK,
) -> None:
    """Accept parties and users until stopped; unfinished runs are resumed.

    Example: fedforest coordinator start --home ./coordinator
    """
    from fedforest.runtime.event_log import logging_to_stderr
    from fedforest.runtime.processes import serve_coordinator

    with logging_to_stderr(log_format, log_level):
        serve_coordinator(home, stop_on_signals(), typer.echo, _at(metrics_port, metrics_host))


@party.command("start")
def start_party(
    home: Home,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = _LOOPBACK,
) -> None:
    """Connect to the coordinator and answer it until stopped.

    Example: fedforest party start --home ./bank
    """
    from fedforest.runtime.event_log import logging_to_stderr
    from fedforest.runtime.processes import serve_party

    with logging_to_stderr(log_format, log_level):
        serve_party(home, stop_on_signals(), typer.echo, _at(metrics_port, metrics_host))


def _at(port: int | None, host: str) -> "MetricsAddress | None":
    from fedforest.runtime.monitoring.server import MetricsAddress

    return None if port is None else MetricsAddress(port, host)


def stop_on_signals() -> threading.Event:
    """Set by the first Ctrl-C or SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
