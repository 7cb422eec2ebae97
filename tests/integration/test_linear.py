"""Linear models between processes: all coefficients are those of one process, bit by bit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from fedforest import VerticalLinearRegression, VerticalLogisticRegression
from fedforest.cli.main import app
from fedforest.errors import ConfigurationError
from fedforest.protocol.linear.party import LinearShare
from fedforest.runtime.messages.orders import TrainLinear
from fedforest.runtime.messages.results import LinearResult
from fedforest.runtime.recovery.linear_files import decode_linear_share
from tests.integration.disturbances import Disturbance, Disturber, kill_and_restart
from tests.integration.processes import Processes
from tests.integration.samples import COLUMNS, NAMES, divide, draw_rows

DATA = dict.fromkeys(NAMES[:2], COLUMNS)
MODELS = {
    "classes": VerticalLogisticRegression(class_weight="balanced"),
    "numbers": VerticalLinearRegression(),
}


def bare_tables() -> dict[str, pyarrow.Table]:
    """Every party's columns, without the label."""
    tables = {party: table[COLUMNS] for party, table in divide(2).items()}
    return tables | {NAMES[0]: tables[NAMES[0]].drop_columns(["label"])}


def stored_share(processes: Processes, party: str, model: str) -> LinearShare:
    path = processes.folder.parties[party].home / "models" / f"{model}.linear"
    return decode_linear_share(path.read_bytes()).share


@pytest.mark.parametrize("kind", MODELS)
def test_processes_fit_the_coefficients_that_one_process_fits(pair: Processes, kind: str) -> None:
    alone = _copy(MODELS[kind]).fit(bare_tables(), draw_rows()[1])
    model = _copy(MODELS[kind], transport=pair.folder.profile).fit(DATA, "label")
    for party, share in _shares(alone).items():
        found = stored_share(pair, party, model.model_id_)
        assert found.coefficients.tobytes() == share.coefficients.tobytes()
        assert found.design.terms == share.design.terms
        assert found.design.names == share.design.names
    assert np.array_equal(model.predict(DATA), alone.predict(bare_tables()))
    assert (model.n_iter_, model.n_exchanges_) == (alone.n_iter_, alone.n_exchanges_)
    assert model.leakage_ == alone.leakage_
    assert model.n_features_in_ == alone.n_features_in_
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "coef_by_party_")


def test_probabilities_and_classes_are_those_of_one_process(pair: Processes) -> None:
    alone = VerticalLogisticRegression().fit(bare_tables(), draw_rows()[1])
    model = VerticalLogisticRegression(transport=pair.folder.profile).fit(DATA, "label")
    assert np.array_equal(model.classes_, alone.classes_)
    for name in ("parties_", "label_party_", "n_exchanges_", "privacy_spent_"):
        assert getattr(model, name) == getattr(alone, name), name
    assert len(model.fit_log_) == model.n_exchanges_
    assert np.array_equal(model.predict_proba(DATA), alone.predict_proba(bare_tables()))


@pytest.mark.parametrize("role", ["coordinator", "bank", "shop"])
def test_a_role_that_is_killed_while_a_linear_model_is_fitted_changes_nothing(
    pair: Processes, role: str
) -> None:
    alone = VerticalLogisticRegression(tol=1e-12).fit(bare_tables(), draw_rows()[1])
    order = TrainLinear(
        data=DATA,
        label="label",
        label_party=NAMES[0],
        is_regression=False,
        penalty=1.0,
        max_iter=100,
        tol=1e-12,
    )
    disturber = Disturber([Disturbance(3, kill_and_restart(pair, role))])
    with pair.user() as user:
        result = user.train(order, LinearResult, disturber.tell)
    assert not disturber.waiting
    for party, share in _shares(alone).items():
        found = stored_share(pair, party, result.model)
        assert found.coefficients.tobytes() == share.coefficients.tobytes()


def test_a_linear_run_is_shown_watched_and_predicts_by_commands(
    pair: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDFOREST_PROFILE", pair.folder.profile)
    model = VerticalLogisticRegression(transport=pair.folder.profile).fit(DATA, "label")
    run, data = model.model_id_, [f"--data={party}={COLUMNS}" for party in DATA]
    page = " ".join(_command("runs", "show", run).split())
    assert "linear classification over bank (columns), shop (columns); label 'label'" in page
    assert "which outcome (label)" in page
    watched = _command("runs", "watch", run, "--json").splitlines()
    assert json.loads(watched[-1])["protocol"] == "linear"
    out = tmp_path / "predictions.parquet"
    _command("predict", run, *data, "--out", str(out))
    found = pyarrow.parquet.read_table(out).to_pydict()
    assert found["predicted"] == model.predict(DATA).tolist()
    assert found["probability_1"] == model.predict_proba(DATA)[:, 1].tolist()
    wrong = CliRunner().invoke(app, ["predict", run, *data, "--out", str(out), "--align"])
    assert wrong.exit_code == 2
    whole = CliRunner().invoke(app, ["export", run, "--out", str(tmp_path / "whole.model")])
    assert "forests are exported" in str(whole.exception)


def _command(*arguments: str) -> str:
    outcome = CliRunner().invoke(app, arguments)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def test_what_cannot_be_ordered_is_refused_before_anybody_is_asked(pair: Processes) -> None:
    model = VerticalLogisticRegression(transport=pair.folder.profile)
    with pytest.raises(ConfigurationError, match="names a data set"):
        model.fit(bare_tables(), "label")
    with pytest.raises(ConfigurationError, match="name of a column"):
        model.fit(DATA, draw_rows()[1])
    with pytest.raises(ConfigurationError, match="none of the parties"):
        _copy(model, label_party="nobody").fit(DATA, "label")


def _shares(model: Any) -> dict[str, LinearShare]:
    """What every party holds of a model of one process."""
    shares: dict[str, LinearShare] = model._model.shares
    return shares


def _copy(model: Any, **parameters: Any) -> Any:
    return type(model)(**{**model.get_params(), **parameters})
