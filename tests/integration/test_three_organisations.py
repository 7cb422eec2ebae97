"""Organisations that never met go from nothing to models of all their data, by commands alone."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from sklearn.datasets import load_breast_cancer

from tests.integration.federation_folder import START_SECONDS, find_port
from tests.integration.organisations import (
    Organisation,
    in_namespaces,
    on_loopback,
    reason_without_namespaces,
)
from tests.transport.grpc_federations import wait_until

HOSPITALS = ("clinic", "insurer", "laboratory")
N_OWN = 480  # patients that each knows, of 569
VERTICAL = """\
name = "together"
protocol = "vertical"
align = true
alone = true
seed = 1
[parties]
clinic = "patients"
insurer = "patients"
laboratory = "patients"
[label]
party = "clinic"
column = "diagnosis"
[validation]
share = 0.25
[parameters]
n_estimators = 10
min_samples_leaf = 5
"""
HORIZONTAL = """\
name = "side by side"
protocol = "horizontal"
aggregation = "Masked"
seed = 1
[parties]
clinic = "cases"
insurer = "cases"
laboratory = "cases"
[label]
column = "diagnosis"
[validation]
[parameters]
n_estimators = 10
min_samples_leaf = 5
"""

Place = Callable[[Path, Sequence[str]], AbstractContextManager[dict[str, Organisation]]]


@pytest.fixture(
    params=[
        pytest.param(on_loopback, id="on loopback"),
        pytest.param(in_namespaces, id="in namespaces", marks=pytest.mark.exhaustive),
    ]
)
def organisations(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[dict[str, Organisation]]:
    place: Place = request.param
    if place is in_namespaces and (reason := reason_without_namespaces()):
        pytest.skip(reason)
    with place(tmp_path, ("association", *HOSPITALS, "stranger")) as found:
        yield found


def write_tables(organisations: dict[str, Organisation]) -> int:
    """Columns of patients who are only partly the same; rows of cases; how many all three know."""
    bunch = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in bunch.feature_names]
    rng = np.random.default_rng(0)
    known = []
    for number, hospital in enumerate(HOSPITALS):
        folder, own = organisations[hospital].folder, slice(10 * number, 10 * number + 10)
        patients = rng.permutation(len(bunch.target))[:N_OWN]
        known.append(set(patients.tolist()))
        columns = {"patient": [f"P-{row:04}" for row in patients]}
        columns |= {name: bunch.data[patients, i] for i, name in enumerate(names)}
        kept = ["patient", *names[own]]
        if hospital == "clinic":
            columns["diagnosis"] = [str(bunch.target_names[c]) for c in bunch.target[patients]]
            kept.append("diagnosis")
        pyarrow.csv.write_csv(pyarrow.table(columns).select(kept), folder / "patients.csv")
        cases = {name: bunch.data[number::3, i] for i, name in enumerate(names)}
        cases["diagnosis"] = bunch.target[number::3]
        pyarrow.parquet.write_table(pyarrow.table(cases), folder / "cases.parquet")
    return len(set.intersection(*known))


def found_and_join(organisations: dict[str, Organisation]) -> None:
    """The association makes a federation; hospitals join, know each other and name their data."""
    association = organisations["association"]
    ports = [find_port() for _ in range(2)]
    addresses = [f"{association.address}:{port}" for port in ports]
    association.run(
        *("coordinator", "init", "clinics", "--home", "coordinator"),
        *("--address", addresses[0], "--enrolment", addresses[1]),
    )
    association.start("coordinator", "start", "--home", "coordinator")
    wait_until(
        lambda: "newcomers enrol at" in association.read_log(),
        "the coordinator listens",
        START_SECONDS,
    )
    for name in (*HOSPITALS, "stranger"):
        token = association.run("coordinator", "invite", name, "--home", "coordinator").strip()
        organisations[name].keep_secret("token.txt", token)
        organisations[name].run("party", "join", "token.txt", "--home", "party")
    pins = {
        name: organisations[name].run("party", "identity", "--home", "party").strip()
        for name in HOSPITALS
    }
    for name in HOSPITALS:
        for other in HOSPITALS:
            if other != name:
                organisations[name].run("party", "trust", other, pins[other], "--home", "party")
        add = ("party", "data", "add")
        home = ("--home", "party", "--quiet")
        organisations[name].run(*add, "patients", "patients.csv", "--id", "patient", *home)
        organisations[name].run(*add, "cases", "cases.parquet", *home)
        organisations[name].start("party", "start", "--home", "party")
    token = association.run("coordinator", "invite", "ann", "--user", "--home", "coordinator")
    organisations["clinic"].keep_secret("token.txt", token)
    organisations["clinic"].run("join", "token.txt")


def connected(association: Organisation) -> set[str]:
    told = association.ask("coordinator", "parties", "--home", "coordinator")
    return {member["name"] for member in told["members"] if member["connected"]}


@pytest.mark.slow
def test_they_train_predict_and_audit_by_commands_alone(
    organisations: dict[str, Organisation],
) -> None:
    n_common = write_tables(organisations)
    found_and_join(organisations)
    association, clinic = organisations["association"], organisations["clinic"]
    wait_until(lambda: connected(association) == set(HOSPITALS), "all came", START_SECONDS)
    check_vertical(clinic, n_common)
    check_standing(clinic, n_common)
    check_horizontal(clinic)
    check_policy(organisations)
    check_revocation(organisations)
    check_ledgers(organisations)


def check_vertical(clinic: Organisation, n_common: int) -> None:
    (clinic.folder / "vertical.toml").write_text(VERTICAL)
    told = clinic.ask("train", "vertical.toml", "--watch", "--quiet")
    assert told["state"] == "finished"
    assert told["alignment"]["n_common"] == n_common
    scores = told["validation"]
    assert scores["federated"]["n_rows"] == pytest.approx(n_common / 4, abs=1)
    assert scores["federated"]["values"]["accuracy"] > 0.9
    assert set(scores["alone"]) == set(HOSPITALS)
    data = [word for name in HOSPITALS for word in ("--data", f"{name}=patients")]
    clinic.run("predict", "together", *data, "--out", "answers.parquet", "--home", "party")
    answers = pyarrow.parquet.read_table(clinic.folder / "answers.parquet")
    assert answers.num_rows == n_common
    own = pyarrow.csv.read_csv(clinic.folder / "patients.csv").to_pydict()
    truth = dict(zip(own["patient"], own["diagnosis"], strict=True))
    rows = zip(answers["patient"].to_pylist(), answers["predicted"].to_pylist(), strict=True)
    assert np.mean([truth[patient] == predicted for patient, predicted in rows]) > 0.9


def check_standing(clinic: Organisation, n_common: int) -> None:
    """An alignment that is kept; ids join its predictions without the folder of a party."""
    data = [word for name in HOSPITALS for word in ("--data", f"{name}=patients")]
    made = clinic.ask("align", "--name", "patients", "--days", "7", *data)
    assert (made["standing"], made["common"]) == ("patients", n_common)
    assert clinic.ask("align", "--extend", "patients")["common"] == n_common
    [listed] = clinic.ask("alignments", "list")
    assert (listed["name"], listed["n_extensions"]) == ("patients", 1)
    kept = clinic.ask("party", "alignments", "list", "--home", "party")
    assert {each["name"] for each in kept} == {"patients"}
    answers = ("--standing", "patients", *data, "--out", "answers.csv")
    told = clinic.ask("predict", "together", *answers)
    own = ("--data", "patients", "--home", "party", "--out", "ids.csv")
    clinic.run("party", "alignments", "ids", told["alignment"], *own)
    clinic.run("predict", "together", *answers, "--ids", "ids.csv")
    by_file = pyarrow.csv.read_csv(clinic.folder / "answers.csv")
    clinic.run("predict", "together", *answers, "--home", "party")
    assert by_file.equals(pyarrow.csv.read_csv(clinic.folder / "answers.csv"))
    (clinic.folder / "few.csv").write_text("patient\n1\n")
    refused = clinic.run("predict", "together", *answers, "--ids", "few.csv", fails=True)
    assert "1 ids are no names of" in refused
    assert clinic.ask("alignments", "remove", "patients") == {"removed": "patients", "away": []}
    assert clinic.ask("party", "alignments", "list", "--home", "party") == []


def check_horizontal(clinic: Organisation) -> None:
    (clinic.folder / "horizontal.toml").write_text(HORIZONTAL)
    told = clinic.ask("train", "horizontal.toml", "--watch", "--quiet")
    assert told["validation"]["federated"]["values"]["accuracy"] > 0.85
    clinic.run("export", "side by side", "--out", "forest.model")
    clinic.run("predict", "forest.model", "--data", "cases.parquet", "--out", "cases.csv")
    assert len((clinic.folder / "cases.csv").read_text().splitlines()) == 1 + 190


def check_policy(organisations: dict[str, Organisation]) -> None:
    """A rule of one party stops a run, names itself to who asked, and no more than itself."""
    insurer, clinic = organisations["insurer"], organisations["clinic"]
    policy = insurer.folder / "party" / "policy.toml"
    policy.write_text("[default]\nmin_rows_per_leaf = 50\n")
    insurer.run("party", "policy", "check", "--home", "party")
    refusal = clinic.run("train", "vertical.toml", "--watch", "--quiet", fails=True)
    assert "insurer" in refusal
    assert "at least 50 rows" in refusal
    refused = clinic.run("export", "together", "--out", "whole.model", fails=True)
    finished = re.search(r"the latest finished one of that name is (\w+)", refused)
    assert finished is not None
    refused = clinic.run("export", finished[1], "--out", "whole.model", fails=True)
    assert "policy" in refused
    assert not (clinic.folder / "whole.model").exists()
    policy.unlink()


def check_revocation(organisations: dict[str, Organisation]) -> None:
    """Who is revoked is cut off at once, and comes back by no means."""
    association, stranger = organisations["association"], organisations["stranger"]
    stranger.start("party", "start", "--home", "party")
    wait_until(lambda: "stranger" in connected(association), "it came", START_SECONDS)
    association.run("coordinator", "revoke", "stranger", "--home", "coordinator")
    wait_until(lambda: "stranger" not in connected(association), "it is cut off", START_SECONDS)
    assert connected(association) == set(HOSPITALS)
    association.run("coordinator", "invite", "stranger", "--home", "coordinator", fails=True)
    stranger.stop()
    n_read = len(stranger.read_log())
    stranger.start("party", "start", "--home", "party")
    wait_until(
        lambda: "was revoked" in stranger.read_log()[n_read:], "it is told so again", START_SECONDS
    )
    assert connected(association) == set(HOSPITALS)
    clinic = organisations["clinic"]
    named = VERTICAL.replace('laboratory = "patients"', 'stranger = "patients"')
    (clinic.folder / "with a stranger.toml").write_text(named)
    refusal = clinic.run("train", "with a stranger.toml", fails=True)
    assert "'stranger' is no party of this federation, or was revoked" in refusal


def check_ledgers(organisations: dict[str, Organisation]) -> None:
    for name in HOSPITALS:
        assert organisations[name].ask("audit", "verify", "--home", "party")["whole"]
        summary = organisations[name].run("audit", "summary", "--home", "party")
        assert "keyed hash" in summary  # of ids, for the alignment
    clinic = organisations["clinic"]
    clinic.stop()  # a file that is being written can be checked, but not be changed by two
    (ledger,) = sorted((clinic.folder / "party" / "ledger").glob("*.jsonl"))
    written = bytearray(ledger.read_bytes())
    written[len(written) // 2] ^= 1
    ledger.write_bytes(written)
    assert ledger.name in clinic.run("audit", "verify", "--home", "party", fails=True)
