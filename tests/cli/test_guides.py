"""What the guides to the catalogue and the policy say is run, or compared with the code."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.estimators.run_files import order_run
from fedforest.runtime.client.run_files import read_run_file
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.trainings.registry import check_run

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"
RUN = """
protocol = "vertical"
parties = { bank = "members", shop = "sales" }
label = { party = "shop", column = "paid" }
parameters = { min_samples_leaf = 5 }
"""


@pytest.mark.parametrize("guide", ["catalogue.md", "policy.md"])
def test_the_commands_of_a_guide_run_as_they_stand_there(
    guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bank").mkdir()
    Path("run.toml").write_text(RUN)
    Path("bank", "members.csv").write_text("age\n31\n")
    if guide == "policy.md":
        Catalogue(Path("bank")).add("members", Entry(source="members.csv"))
    (block,) = re.findall(r"```sh\n(.*?)```", (GUIDES / guide).read_text(), flags=re.DOTALL)
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "fedforest":
            outcome = CliRunner().invoke(app, words[1:])
            assert outcome.exit_code == 0, f"{line}\n{outcome.output}"
        else:
            subprocess.run(line, shell=True, check=True, timeout=60)


def run_files_of(guide: str) -> list[str]:
    text = (GUIDES / guide).read_text()
    typed = re.findall(r"run\.toml <<'END'\n(.*?)END\n", text, flags=re.DOTALL)
    return [*re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL), *typed]


@pytest.mark.parametrize(("guide", "n_files"), [("runs.md", 2), ("deployment.md", 1)])
def test_the_run_files_of_a_guide_are_taken_by_a_coordinator(
    guide: str, n_files: int, tmp_path: Path
) -> None:
    files = run_files_of(guide)
    assert len(files) == n_files
    for text in files:
        (tmp_path / "run.toml").write_text(text)
        check_run(order_run(read_run_file(tmp_path / "run.toml")))


def test_the_guide_to_the_policy_tells_every_rule() -> None:
    table = (GUIDES / "policy.md").read_text().partition("| Rule |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([a-z_]+)`", table, flags=re.MULTILINE) == list(
        DataSetRules.__struct_fields__
    )
    assert f"| {DataSetRules().prediction_rows_per_day:,} |" in table
    assert f"| {DataSetRules().prediction_rows_per_day_total:,} |" in table
    assert f"`min_rows_per_leaf` | {DataSetRules().min_rows_per_leaf} |" in table
    assert f"`largest_lookahead` | {DataSetRules().largest_lookahead} |" in table


def test_the_guide_to_the_catalogue_tells_every_field_of_an_entry() -> None:
    section = (GUIDES / "catalogue.md").read_text().partition("## An entry")[2].partition("## ")[0]
    assert all(re.search(rf"\b{field}\b", section) for field in Entry.__struct_fields__)
