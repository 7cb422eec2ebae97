"""Runs in MLflow: what is logged, once, and that nothing is logged that is not for the user."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedforest.errors import ConfigurationError, TransportError
from fedforest.reports.mlflow_log import log_run, metrics_of, parameters_of
from tests.reports.run_samples import VERTICAL, run

needs_mlflow = pytest.mark.skipif(
    find_spec("mlflow") is None,
    reason="MLflow is not installed: pip install mlflow-skinny, in an environment without dev",
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # newer releases want a database
    return (tmp_path / "mlruns").as_uri()


def client_of(store: str) -> Any:
    return import_module("mlflow").MlflowClient(tracking_uri=store)


def search(store: str, experiment: str) -> list[Any]:
    client = client_of(store)
    place = client.get_experiment_by_name(experiment)
    return list(client.search_runs([place.experiment_id]))


@needs_mlflow
def test_a_run_is_logged_with_parameters_scores_tags_and_its_report(store: str) -> None:
    logged = log_run(run(), VERTICAL, uri=store, experiment="churn")
    [found] = search(store, "churn")
    assert found.info.run_id == logged
    assert (found.info.status, found.info.run_name) == ("FINISHED", "churn")
    assert (found.info.start_time, found.info.end_time) == (15_000, 75_000)
    assert found.data.params["data.bank"] == "customers"
    assert found.data.params["parameters.n_estimators"] == "20"
    assert found.data.metrics["accuracy"] == 0.95
    assert found.data.metrics["alone.bank.accuracy"] == 0.7
    assert found.data.metrics["seconds"] == 60.0
    assert found.data.tags["fedforest.run"] == "ab" * 16
    page = Path(client_of(store).download_artifacts(logged, "report.html")).read_text()
    assert "churn" in page


@needs_mlflow
def test_a_run_that_is_logged_again_is_brought_up_to_date(store: str) -> None:
    underway = msgspec.structs.replace(run().state, state="running", ended=None)
    first = log_run(run(state=underway, validation=None), None, uri=store, experiment="churn")
    [found] = search(store, "churn")
    assert found.info.status == "RUNNING"
    assert log_run(run(), VERTICAL, uri=store, experiment="churn") == first
    [found] = search(store, "churn")
    assert (found.info.status, found.data.metrics["accuracy"]) == ("FINISHED", 0.95)


@needs_mlflow
def test_a_server_that_does_not_answer_is_an_error_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TransportError, match=r"MLflow at http://127\.0\.0\.1:9 took no run"):
        log_run(run(), None, uri="http://127.0.0.1:9", experiment="churn")


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ConfigurationError, match=r"fedforest\[mlflow\]"):
        log_run(run(), None, uri="", experiment="churn")


def test_names_and_numbers_are_those_of_the_report() -> None:
    parameters = dict(parameters_of(run()))
    assert parameters["label"] == "left"
    assert "parameters.max_depth" not in parameters  # the default
    assert dict(metrics_of(run()))["bytes"] == 2_000.0
    long = run(order={"label": "x" * 10_000, "data": {}})
    assert len(dict(parameters_of(long))["label"]) == 500
