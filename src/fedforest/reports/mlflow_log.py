"""A run of a federation as a run of MLflow: parameters, scores, tags and the report as a file.

A run is logged once: logged again, its numbers are brought up to date. Nothing goes to MLflow that
the report of the run does not say to the user who asks.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedforest.errors import TransportError
from fedforest.extras import import_extra
from fedforest.reports.run_report import write_run_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedforest.reports.run_report import AnyResult
    from fedforest.runtime.messages.results import RunDetails

RUN_TAG = "fedforest.run"
_LONGEST = 500  # characters of a parameter, which all servers take
# states of MLflow that ours correspond to
_STATUS = {"finished": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
_UNDERWAY = "RUNNING"


def log_run(details: RunDetails, result: AnyResult, *, uri: str, experiment: str) -> str:
    """Log a run to an MLflow server or folder; return the id that it has there.

    An empty `uri` is MLflow's own setting, such as `MLFLOW_TRACKING_URI`.
    """
    mlflow = import_extra("mlflow", "logging to MLflow")
    try:
        client = mlflow.MlflowClient(tracking_uri=uri or None)
        return _log(client, details, result, experiment)
    except mlflow.exceptions.MlflowException as error:
        where = uri or "the place of its own settings"
        raise TransportError(f"MLflow at {where} took no run: {error}") from None


def _log(client: Any, details: RunDetails, result: AnyResult, experiment: str) -> str:
    known = client.get_experiment_by_name(experiment)
    place = client.create_experiment(experiment) if known is None else known.experiment_id
    state = details.state
    found = client.search_runs([place], f"tags.`{RUN_TAG}` = '{state.run}'", max_results=1)
    started = int((details.started or state.created) * 1000)
    if found:
        run = str(found[0].info.run_id)
    else:
        name = state.name or state.run[:12]
        tags = dict(tags_of(details))
        made = client.create_run(place, start_time=started, tags=tags, run_name=name)
        run = str(made.info.run_id)
        for key, value in parameters_of(details):
            client.log_param(run, key, value)
    for key, number in metrics_of(details):
        client.log_metric(run, key, number, timestamp=started, step=0)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        report.write_text(write_run_report(details, result), "utf-8")
        client.log_artifact(run, str(report))
    ended = None if state.ended is None else int(state.ended * 1000)
    if state.state in _STATUS:
        client.set_terminated(run, _STATUS[state.state], end_time=ended)
    else:
        client.update_run(run, status=_UNDERWAY)
    return run


def tags_of(details: RunDetails) -> Iterator[tuple[str, str]]:
    """Yield what a run is known by."""
    state = details.state
    yield RUN_TAG, state.run
    yield "fedforest.user", state.user.rpartition("/")[2]
    yield "fedforest.protocol", state.protocol
    if details.model is not None:
        yield "fedforest.model", details.model


def parameters_of(details: RunDetails) -> Iterator[tuple[str, str]]:
    """Yield what was asked for, with the keys of inner settings joined by dots."""
    yield "protocol", details.state.protocol
    yield from _flatten("", details.order)


def _flatten(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(f"{prefix}.{key}" if prefix else str(key), inner)
    elif value not in (None, "", [], ()) and not isinstance(value, bytes):
        yield prefix, str(value)[:_LONGEST]


def metrics_of(details: RunDetails) -> Iterator[tuple[str, float]]:
    """Yield scores by model, and what the run took."""
    report, state = details.validation, details.state
    if report is not None:
        for name, value in report.federated.values.items():
            yield name, value
        for kind, by_party in (("alone", report.alone), ("at", report.by_party)):
            for party, scores in by_party.items():
                for name, value in scores.values.items():
                    yield f"{kind}.{party}.{name}", value
    yield "exchanges", float(state.n_exchanges)
    yield "bytes", float(state.n_bytes)
    for name, count in (("rows", details.n_rows), ("trees", details.n_trees)):
        if count is not None:
            yield name, float(count)
    if details.started is not None and state.ended is not None:
        yield "seconds", state.ended - details.started
