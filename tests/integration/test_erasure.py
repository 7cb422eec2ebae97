"""Rows are erased at one party, models trained anew without them, and the old ones deleted."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from tests.integration.federation_folder import FederationFolder, make_federation, running

N_ROWS = 200
IDS = [f"person-{row:04}" for row in range(N_ROWS)]
ERASED = IDS[5:9]
PART_BYTES = 32
PARTIES = ("bank", "shop")
RUN_FILE = """\
name = "{name}"
protocol = "vertical"
align = true
seed = 1
[parties]
bank = "people"
shop = "people"
[label]
column = "label"
[parameters]
n_estimators = 3
max_depth = 3
min_samples_leaf = 5
"""


def tables(ids: list[str]) -> dict[str, dict[str, pyarrow.Table]]:
    rng = np.random.default_rng(0)
    found = {}
    for party in PARTIES:
        x, noise = rng.normal(size=(2, N_ROWS))[:, : len(ids)]
        # no leaf is pure, so that those of the two forests differ
        columns = {"id": ids, f"{party}_x": x, "label": (x + noise > 0).astype(int)}
        found[party] = {"people": pyarrow.table(columns)}
    return found


@pytest.fixture
def federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FederationFolder]:
    folder = make_federation(tmp_path / "federation", tables(IDS))
    monkeypatch.setenv("FEDFOREST_PROFILE", folder.profile)
    with running(folder):
        folder.wait_until_connected()
        yield folder


def run(*arguments: str | Path) -> Any:
    outcome = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert outcome.exit_code == 0, f"{outcome.output}{outcome.exception}"
    return json.loads(outcome.stdout.splitlines()[-1])


def train(folder: Path, name: str) -> dict[str, Any]:
    (folder / "run.toml").write_text(RUN_FILE.format(name=name))
    run("train", folder / "run.toml", "--watch", "--quiet")
    shown: dict[str, Any] = run("runs", "show", name)
    return shown


def files_of(federation: FederationFolder) -> dict[Path, bytes]:
    """Every file of every role, the user's among them."""
    paths = (path for path in federation.folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in paths}


def telling_parts(stored: list[bytes], federation: FederationFolder, new: str) -> list[bytes]:
    """Parts of an old model's files that the files of a new one do not share by their form."""
    own = b"".join(data for path, data in files_of(federation).items() if new in path.name)
    found = []
    for data in stored:
        parts = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
        telling = [part for part in parts if is_telling(part) and part not in own]
        assert telling
        found += telling
    return found


def is_telling(part: bytes) -> bool:
    """Whether it is numbers, not names nor zeros."""
    return len(part) == PART_BYTES and not part.isascii() and len(set(part)) > 8


@pytest.mark.slow
def test_erased_rows_and_the_models_that_used_them_are_gone_everywhere(
    federation: FederationFolder, tmp_path: Path
) -> None:
    old = train(tmp_path, "before")
    model = old["model"]
    stored = [data for path, data in files_of(federation).items() if path.name == f"{model}.share"]
    assert len(stored) == 3  # of three roles; what is beside them names runs, as ledgers do
    bank = ("--home", federation.parties["bank"].home)
    ids = tmp_path / "gone.txt"
    ids.write_text("\n".join([*ERASED, "person-unknown"]) + "\n")
    erase = ("party", "data", "erase", "people", "--ids", ids, *bank)

    report = run(*erase)
    assert (report["erased"], report["n_ids"], report["n_rows"]) == (False, 5, 4)
    assert report["retraining_owed"] == [model]
    assert report["models"][0]["is_certain"]
    assert run("party", "models", "show", model, *bank)["state"] == "usable"

    report = run(*erase, "--yes", "--withdraw-models")
    assert report["withdrawn"] == [model]
    predict = ["predict", model, "--data", "bank=people", "--data", "shop=people", "--align"]
    out = str(tmp_path / "out.csv")
    refused = CliRunner().invoke(app, [*predict, "--out", out]).exception
    assert "was withdrawn by party bank" in str(refused)

    new = train(tmp_path, "after")
    needles = telling_parts(stored, federation, new["model"])
    assert (old["n_rows"], new["n_rows"]) == (N_ROWS, N_ROWS - len(ERASED))
    assert (
        CliRunner().invoke(app, [*predict[:1], new["model"], *predict[2:], "--out", out]).exit_code
        == 0
    )
    assert run(*erase)["retraining_owed"] == []  # the rows are not there, nor in any model

    assert run("models", "delete", "before", "--yes")["away"] == []
    for party in PARTIES:
        home = ("--home", federation.parties[party].home)
        assert run("party", "models", "delete", model, "--yes", *home)["files"] == []
    run("runs", "prune", "--older-than", "0s", "--name", "before", "--state", "finished", "--yes")
    for party in PARTIES:  # the owners remove the rows, too: here nothing changes sources
        source = federation.parties[party].home / "people.parquet"
        kept = [each for each in IDS if each not in ERASED]
        pyarrow.parquet.write_table(tables(kept)[party]["people"], source)
    found = files_of(federation)
    for path, content in found.items():
        assert not any(needle in content for needle in needles), path
        assert not any(each.encode() in content for each in ERASED), path
    named = {path.name for path in found if model in path.name}
    assert named == {f"{model}.withdrawn"}
    assert run("models", "show", "after")["state"] == "usable"
