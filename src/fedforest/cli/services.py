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

Dashboard = Annotated[
    bool, typer.Option("--dashboard", help="Show pages to browsers, for those who log in.")
]
HttpApi = Annotated[
    bool, typer.Option("--http-api", help="Answer applications that have tokens, below /v1.")
]
HttpRate = Annotated[
    float, typer.Option(min=0.0, help="Their requests a second for each token; 0 is no limit.")
]
WebAddressOption = Annotated[
    str, typer.Option("--web-address", help="Where browsers connect; 0 takes a free port.")
]
WebCertificate = Annotated[
    Path | None, typer.Option("--web-certificate", help="A TLS certificate for it, as PEM.")
]
WebKey = Annotated[Path | None, typer.Option("--web-key", help="Its private key, as PEM.")]
WebNames = Annotated[
    list[str] | None,
    typer.Option("--web-name", help="A name by which browsers call this machine; may repeat."),
]
Compute = Annotated[
    str | None,
    typer.Option(
        "--compute",
        help="Grow trees on a cluster of your own: dask (processes of this machine), dask:4 (four "
        "of them), or dask:HOST:PORT (a scheduler). It must not be shared with others.",
    ),
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
def start_coordinator(  # noqa: PLR0913, PLR0917 - options of a command
    home: Home,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = _LOOPBACK,
    dashboard: Dashboard = False,
    http_api: HttpApi = False,
    http_rate: HttpRate = 0.0,
    web_address: WebAddressOption = "127.0.0.1:7480",
    web_certificate: WebCertificate = None,
    web_key: WebKey = None,
    web_name: WebNames = None,
) -> None:
    """Accept parties and users until stopped; unfinished runs are resumed.

    Example: fedforest coordinator start --home ./coordinator

    Example: fedforest coordinator start --home ./coordinator --dashboard

    Example: fedforest coordinator start --home ./coordinator --http-api
    """
    from fedforest.runtime.event_log import logging_to_stderr
    from fedforest.runtime.processes import serve_coordinator

    beside = None
    if dashboard or http_api:
        from fedforest.extras import explain_missing_extras

        with explain_missing_extras("the dashboard and the HTTP API"):
            from fedforest.web.api.guard import WebLimits
            from fedforest.web.mounting import WebOptions, mount_beside
            from fedforest.web.server import WebAddress

        place = WebAddress(web_address, web_certificate, web_key)
        limits, names = WebLimits(requests_per_second=http_rate), tuple(web_name or ())
        beside = mount_beside(WebOptions(place, dashboard, http_api, limits, names))
    metrics = _at(metrics_port, metrics_host)
    with logging_to_stderr(log_format, log_level):
        serve_coordinator(home, stop_on_signals(), typer.echo, metrics, beside)


@party.command("start")
def start_party(  # noqa: PLR0913, PLR0917 - options of a command
    home: Home,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = _LOOPBACK,
    dashboard: Dashboard = False,
    web_address: WebAddressOption = "127.0.0.1:7481",
    web_certificate: WebCertificate = None,
    web_key: WebKey = None,
    web_name: WebNames = None,
    compute: Compute = None,
) -> None:
    """Connect to the coordinator and answer it until stopped.

    Example: fedforest party start --home ./bank

    Example: fedforest party start --home ./bank --dashboard
    """
    from fedforest.runtime.event_log import logging_to_stderr
    from fedforest.runtime.processes import serve_party

    beside = None
    if dashboard:
        from fedforest.extras import explain_missing_extras

        with explain_missing_extras("the dashboard"):
            from fedforest.web.mounting import WebOptions, mount_beside_party
            from fedforest.web.server import WebAddress

        place = WebAddress(web_address, web_certificate, web_key)
        names = tuple(web_name or ())
        beside = mount_beside_party(WebOptions(place, dashboard=True, names=names))
    metrics = _at(metrics_port, metrics_host)
    with logging_to_stderr(log_format, log_level):
        serve_party(home, stop_on_signals(), typer.echo, metrics, beside, compute)


def _at(port: int | None, host: str) -> "MetricsAddress | None":
    from fedforest.runtime.monitoring.server import MetricsAddress

    return None if port is None else MetricsAddress(port, host)


def stop_on_signals() -> threading.Event:
    """Set by the first Ctrl-C or SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
