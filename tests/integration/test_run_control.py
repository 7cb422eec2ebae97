"""Runs cancelled, resumed and left to themselves by commands, against real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from fedforest.errors import ConfigurationError, PartyLost, TooFewParties
from fedforest.runtime.messages.orders import WatchRun
from fedforest.runtime.messages.results import HorizontalResult
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from tests.integration.commands import fedforest, invoke
from tests.integration.disturbances import journal_of, state_of, train_until
from tests.integration.federation_folder import START_SECONDS, wait_for
from tests.integration.processes import Processes
from tests.integration.samples import NAMES, horizontal, vertical
from tests.integration.test_run_commands import write

SCRIPT = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "import runpy; runpy.run_module('fedforest', run_name='__main__')"
)  # a shell's background processes ignore Ctrl-C, and so would what is started here


def test_a_cancelled_run_is_forgotten_by_the_parties_and_cannot_be_resumed(
    hasty: Processes,
) -> None:
    shop = hasty.folder.parties["shop"]
    run, _ = train_until(hasty, vertical(2), 4, lambda _: shop.kill())
    bank = hasty.folder.parties["bank"]
    assert journal_of(bank, run).exists()
    outcome = invoke(hasty, "runs", "cancel", run[:12])
    assert outcome.exit_code == 0
    assert outcome.stderr == f"run {run} is cancelled\n"
    assert state_of(hasty, run).state == "cancelled"
    assert not journal_of(bank, run).exists()
    again = invoke(hasty, "runs", "resume", run)
    assert isinstance(again.exception, ConfigurationError)
    assert "was cancelled" in str(again.exception)


@pytest.mark.slow
def test_a_horizontal_run_is_resumed_without_the_party_that_is_gone(hasty: Processes) -> None:
    shop = hasty.folder.parties["shop"]
    run, error = train_until(hasty, horizontal(2), 4, lambda _: shop.kill())
    assert isinstance(error, PartyLost)
    away = invoke(hasty, "runs", "resume", run)
    assert isinstance(away.exception, TooFewParties)
    assert "Nothing of the run is lost" in away.stderr
    told = fedforest(hasty, "runs", "resume", run, "--without", "shop", "--json")
    assert json.loads(told.splitlines()[-1])["state"] == "finished"
    with hasty.user() as user:
        assert user.ask(WatchRun(run=run), HorizontalResult).model == run
    assert journal_of(shop, run).exists()
    hasty.folder.start()
    wait_for(lambda: not journal_of(shop, run).exists(), hasty.folder)  # it was told of the end


def test_ctrl_c_leaves_a_watched_run_going(pair: Processes, tmp_path: Path) -> None:
    shop = pair.folder.parties["shop"]
    file = write(tmp_path, "left alone", "vertical")
    shop.signal(signal.SIGSTOP)  # so that the run is under way for as long as this takes
    try:
        watching = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, "train", str(file), "--watch"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "FEDFOREST_PROFILE": pair.folder.profile, "NO_COLOR": "1"},
        )
        with watching:
            assert watching.stderr is not None
            lines = iter(watching.stderr.readline, "")  # first of the plan, which shop cannot tell
            run = next(line for line in lines if line.startswith("run ")).split()[1]
            time.sleep(0.2)  # the watch begins
            watching.send_signal(signal.SIGINT)
            out, err = watching.communicate(timeout=START_SECONDS)
    finally:
        shop.signal(signal.SIGCONT)
    assert watching.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert "The run goes on at the coordinator" in err
    assert f"fedforest runs watch {run[:12]}" in err
    told = fedforest(pair, "runs", "watch", run, "--json")
    assert json.loads(told.splitlines()[-1])["state"] == "finished"


def test_rows_in_common_are_counted_by_a_command(pair: Processes) -> None:
    ids = {"bank": [f"p{i}" for i in range(40)], "shop": [f"p{i}" for i in range(25, 60)]}
    ids["shop"] += ["p99", "p99"]
    for party in NAMES[:2]:
        home = pair.folder.parties[party].home
        table = {"id": ids[party], "x": np.zeros(len(ids[party]))}
        pyarrow.parquet.write_table(pyarrow.table(table), home / "people.parquet")
        Catalogue(home).add("people", Entry(source="people.parquet", id=["id"]))
    data = [word for party in NAMES[:2] for word in ("--data", f"{party}=people")]
    told = json.loads(fedforest(pair, "align", *data, "--json"))
    assert told["common"] == 15
    assert told["rows"] == {"bank": 40, "shop": 37}
    assert told["without_an_id_of_their_own"] == {"bank": 0, "shop": 2}
    assert "15" in fedforest(pair, "align", *data)
    wrong = invoke(pair, "align", "--data", "bank=people")
    assert isinstance(wrong.exception, ConfigurationError)


@pytest.mark.parametrize("command", ["list", "show"])
def test_pages_about_runs_have_no_colours_where_none_are_wanted(
    pair: Processes, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    run = pair.train(vertical(2, n_trees=1, max_depth=1)).model
    arguments = ["runs", command, *([run] if command == "show" else [])]
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert "\x1b" not in fedforest(pair, *arguments)
