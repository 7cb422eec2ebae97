"""`fedforest runs mlflow`: log a run to MLflow."""

from __future__ import annotations

from typing import Annotated

import typer

from fedforest.cli.runs import WhichRun, find_run
from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal


def log_to_mlflow(  # noqa: PLR0913, PLR0917 - options of a command
    run: WhichRun,
    tracking_uri: Annotated[
        str,
        typer.Option(help="A server (https://...) or folder; else as MLFLOW_TRACKING_URI says."),
    ] = "",
    experiment: Annotated[str, typer.Option(help="Its experiment; made if missing.")] = "fedforest",
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Log a run to MLflow: parameters, scores, tags, and its report as a file.

    Logged again, a run is brought up to date there. What MLflow's server then shows, everybody who
    can read it sees: scores, names of data sets and columns, who learned what.

    Example: fedforest runs mlflow churn --tracking-uri https://mlflow.example --experiment churn
    """
    from fedforest.reports.mlflow_log import log_run
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.client.reports import fetch_report
    from fedforest.runtime.membership.profiles import choose_profile

    with Federation(choose_profile(profile)) as federation:
        details, result = fetch_report(federation.ask, find_run(federation, run).run)
    logged = log_run(details, result, uri=tracking_uri, experiment=experiment)
    terminal = Terminal(as_json, quiet)
    if as_json:
        terminal.show_json({"run": details.state.run, "mlflow_run": logged})
    else:
        typer.echo(logged)
