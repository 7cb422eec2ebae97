"""Trainings, predictions and exports by commands alone, against real processes."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow
import pyarrow.parquet
import pytest
import skops.io
from typer.testing import CliRunner, Result

from fedforest.cli.main import app
from fedforest.estimators.run_files import order_run
from fedforest.estimators.vertical.whole_forest import WholeForest
from fedforest.runtime.client.run_files import read_run_file
from fedforest.runtime.messages.orders import TrainHorizontal, TrainVertical, WatchRun
from fedforest.runtime.messages.results import HorizontalResult, VerticalResult
from tests.integration.processes import Processes, result_type
from tests.integration.samples import COLUMNS, NAMES, ROWS, draw_rows

RUN_FILE = """\
name = "{name}"
protocol = "{protocol}"
seed = 5
[parties]
bank = "{data}"
shop = "{data}"
[label]
column = "label"
[parameters]
n_estimators = 4
max_depth = 5
min_samples_leaf = 5
"""


@pytest.fixture
def command(pair: Processes, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("FEDFOREST_PROFILE", pair.folder.profile)
    return CliRunner()


def run(command: CliRunner, *arguments: str | Path) -> Result:
    outcome = command.invoke(app, [str(argument) for argument in arguments])
    assert outcome.exit_code == 0, outcome.output
    return outcome


def write(folder: Path, name: str, protocol: str) -> Path:
    file = folder / f"{name}.toml"
    data = COLUMNS if protocol == "vertical" else ROWS
    file.write_text(RUN_FILE.format(name=name, protocol=protocol, data=data))
    return file


def test_a_vertical_run_is_ordered_watched_shown_and_used(
    pair: Processes, command: CliRunner, tmp_path: Path
) -> None:
    file = write(tmp_path, "by columns", "vertical")
    watched = run(command, "train", file, "--watch")
    assert "bin columns" in watched.stderr
    assert "by columns" in watched.stdout
    shown = json.loads(run(command, "runs", "show", "by columns", "--json").stdout)
    assert (shown["state"], shown["protocol"]) == ("finished", "vertical")
    assert shown["user"].endswith("analyst")
    assert set(shown["bytes_from"]) == set(NAMES[:2])
    assert shown["run"] in [
        listed["run"] for listed in json.loads(run(command, "runs", "list", "--json").stdout)
    ]
    log = run(command, "runs", "log", shown["run"][:10]).stdout
    assert log.count("exchange ") == shown["n_exchanges"] * 2 - log.count("ShareLabels")
    out = tmp_path / "predictions.parquet"
    data = [f"{party}={COLUMNS}" for party in NAMES[:2]]
    run(command, "predict", "by columns", "--data", data[0], "--data", data[1], "--out", out)
    predictions = pyarrow.parquet.read_table(out).to_pydict()
    assert predictions["row"] == list(range(len(draw_rows()[1])))
    votes = np.array([predictions["probability_0"], predictions["probability_1"]])
    assert np.allclose(votes.sum(axis=0), 1.0)
    assert np.mean(np.array(predictions["predicted"]) == draw_rows()[1]) > 0.7
    assert pair.folder.coordinator.is_running


def test_a_run_with_encrypted_labels_predicts_what_that_with_encoded_ones_does(
    command: CliRunner, tmp_path: Path
) -> None:
    tables = []
    data = [word for party in NAMES[:2] for word in ("--data", f"{party}={COLUMNS}")]
    for name, protection in (("readable", "encoded"), ("sealed", "Encrypted")):
        file = write(tmp_path, name, "vertical")
        text = file.read_text().replace(
            "[parameters]", f'protection = "{protection}"\n[parameters]'
        )
        file.write_text(text + "max_bins = 16\n")
        run(command, "train", file, "--watch")
        out = tmp_path / f"{name}.parquet"
        run(command, "predict", name, *data, "--out", out)
        tables.append(pyarrow.parquet.read_table(out))
    assert tables[0].equals(tables[1])
    report = run(command, "runs", "show", "sealed", "--leakage").stdout
    assert "can read labels, their weights, gains and what leaves say" in " ".join(report.split())


@pytest.mark.parametrize(
    ("protocol", "left_out"), [("vertical", "oob_score = true\n"), ("horizontal", "")]
)
def test_a_run_file_may_draw_rows_without_replacement(
    pair: Processes, command: CliRunner, tmp_path: Path, protocol: str, left_out: str
) -> None:
    file = write(tmp_path, f"drawn {protocol}", protocol)
    file.write_text(file.read_text() + "bootstrap = false\nmax_samples = 0.5\n" + left_out)
    order = order_run(read_run_file(file))
    assert isinstance(order, TrainVertical | TrainHorizontal)
    assert (order.parameters.bootstrap, order.parameters.max_samples) == (False, 0.5)
    run_id = run(command, "train", file).stdout.strip()
    with pair.user() as user:
        result = user.ask(WatchRun(run=run_id), result_type(order))
    pair.check(order, result)
    if isinstance(result, VerticalResult):
        assert result.out_of_bag_curve is not None
        assert result.out_of_bag_votes is not None


def test_a_horizontal_run_is_exported_and_predicts_offline(
    pair: Processes, command: CliRunner, tmp_path: Path
) -> None:
    file = write(tmp_path, "by rows", "horizontal")
    run_id = run(command, "train", file).stdout.strip()
    assert len(run_id) == 32
    watched = run(command, "runs", "watch", run_id[:8], "--json").stdout.splitlines()
    assert json.loads(watched[-1])["model"] == run_id
    rows = pair.folder.parties["bank"].home / f"{ROWS}.parquet"
    outs = [tmp_path / "direct.csv", tmp_path / "exported.csv"]
    run(command, "predict", "by rows", "--data", rows, "--out", outs[0])
    model = tmp_path / "forest.model"
    run(command, "export", "by rows", "--out", model)
    run(command, "predict", model, "--data", rows, "--out", outs[1])
    assert outs[0].read_bytes() == outs[1].read_bytes()
    _check_onnx(command, tmp_path / "forest.onnx", pyarrow.parquet.read_table(rows), model)
    _check_skops(command, tmp_path / "forest.skops", pyarrow.parquet.read_table(rows), model)
    expected = pair.train(order_run(read_run_file(file)))
    assert isinstance(expected, HorizontalResult)
    votes = WholeForest.from_bytes(expected.file).votes(pyarrow.parquet.read_table(rows))
    found = np.loadtxt(outs[0], delimiter=",", skiprows=1)
    assert np.array_equal(found[:, -2:], votes)


def _check_onnx(command: CliRunner, out: Path, table: pyarrow.Table, model: Path) -> None:
    run(command, "export", "by rows", "--format", "onnx", "--out", out)
    session = onnxruntime.InferenceSession(out.read_bytes())
    columns = [table.column(name).to_numpy() for name in table.column_names if name != "label"]
    rows = np.column_stack(columns).astype(np.float32)
    votes = session.run(None, {session.get_inputs()[0].name: rows})[1]
    expected = WholeForest.from_bytes(model.read_bytes()).votes(table)
    assert np.allclose(votes, expected, atol=1e-5)


def _check_skops(command: CliRunner, out: Path, table: pyarrow.Table, model: Path) -> None:
    run(command, "export", "by rows", "--format", "skops", "--out", out)
    types = skops.io.get_untrusted_types(file=out)
    assert types == ["sklearn.tree._tree.Tree"]  # scikit-learn's own, and no class of ours
    votes = skops.io.load(out, trusted=types).predict_proba(
        table.drop_columns(["label"]).to_pandas()
    )
    assert np.array_equal(votes, WholeForest.from_bytes(model.read_bytes()).votes(table))


@pytest.mark.parametrize(
    ("typo", "place", "words"),
    [
        (
            ('shop = "columns', 'shop = "colums'),
            "6:8",
            "party 'shop': there is no data set 'colums",
        ),
        (('"label"', '"lable"'), "8:10", "party 'bank': data set 'columns' has no column 'lable'"),
    ],
    ids=["data set", "label"],
)
def test_a_typo_is_told_by_its_place_and_the_run_does_not_wait_for_anything(
    command: CliRunner, tmp_path: Path, typo: tuple[str, str], place: str, words: str
) -> None:
    file = write(tmp_path, "typo", "vertical")
    file.write_text(file.read_text().replace(*typo))
    outcome = command.invoke(app, ["train", str(file), "--watch"])
    assert f"typo.toml:{place}: {words}" in str(outcome.exception)
    assert "The run was refused" in outcome.stderr
    shown = json.loads(run(command, "runs", "show", "typo", "--json").stdout)
    assert (shown["state"], shown["n_exchanges"]) == ("failed", 0)
    assert words in shown["doing"]


def test_a_wrong_file_a_wrong_name_and_a_wrong_format_end_with_their_exit_codes(
    command: CliRunner, tmp_path: Path
) -> None:
    file = write(tmp_path, "wrong", "vertical")
    file.write_text(file.read_text().replace("max_depth", "max_dept"))
    outcome = command.invoke(app, ["train", str(file)])
    assert "wrong.toml:11:1" in str(outcome.exception)
    assert "there is no run 'nobody'" in str(
        command.invoke(app, ["runs", "show", "nobody"]).exception
    )
    usage = command.invoke(app, ["export", "x", "--out", str(tmp_path / "x"), "--format", "pickle"])
    assert usage.exit_code == 2
