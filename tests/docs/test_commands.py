"""Commands of the documents, run in a federation of two organisations or parsed as they stand.

| Document | Its commands |
|---|---|
| deployment.md | all run but `pip` and `warm-up`, in order, at the organisation of a section |
| federation.md | its Python runs in that federation; `start` is run by deployment.md |
| runs.md, audit.md, users.md | those in `RUN` run there, with our names for the guide's |
| catalogue.md, policy.md | run by `tests/cli/test_guides.py` |
| all others, and the rest of these | parsed by the command line: they need other members |
"""

import os
import re
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import chdir
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer
from typer.main import get_command
from typer.testing import CliRunner

from fedforest.cli.main import app
from tests.docs.documents import DOCS, DOCUMENTS, ROOT, command_lines, python_blocks
from tests.integration.federation_folder import find_port
from tests.integration.organisations import Organisation, on_loopback
from tests.transport.grpc_federations import wait_until

GUIDES = DOCS / "how-to"
PARSED = [path for path in DOCUMENTS if any("fedforest " in line for line in command_lines(path))]
RUN = {
    "runs.md": (
        "fedforest runs list",
        "fedforest runs show tumours",
        "fedforest runs show tumours --leakage",
        "fedforest runs log tumours",
        "fedforest runs watch tumours",
    ),
    "audit.md": (
        "fedforest audit verify --home ./party",
        "fedforest audit summary --home ./party",
        "fedforest audit report RUN --home ./party",
    ),
    "users.md": ("fedforest coordinator parties --home ./coordinator",),
}
NAMES = {"churn": "tumours", "4f2a": "tumours", "3f2a": "RUN", "./bank": "./party"}


def words_of(line: str) -> list[str]:
    return shlex.split(line.removeprefix(".venv/bin/").removesuffix("&"), comments=True)


@pytest.mark.parametrize("document", PARSED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_is_understood_by_the_command_line(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for home in ("bank", "party", "coordinator"):
        (tmp_path / home).mkdir()
    for line in command_lines(document):
        words = [word for word in words_of(line) if word != "..."]
        if words[:1] == ["fedforest"]:
            parse(words[1:])


def parse(words: list[str]) -> None:
    """Let the command line read the words; raises what is wrong with them, and runs nothing."""
    command, context = get_command(app), None
    while (inner := getattr(command, "commands", None)) is not None:
        name, *words = words
        command = inner[name]
    context = command.make_context(command.name, list(words))
    context.close()


def test_a_wrong_command_is_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(["runs", "list", "--gone"])
    with pytest.raises(Exception, match="Missing parameter: run"):
        parse(["runs", "show"])


class Reader:
    """A reader of the deployment guide: types its commands at both organisations."""

    def __init__(self, organisations: Mapping[str, Organisation]) -> None:
        self.organisations = organisations
        self.tokens: dict[str, str] = {}
        self.places = {"0.0.0.0": "127.0.0.1", "clinic.example": "127.0.0.1"}
        self.places |= {port: str(find_port()) for port in ("7400", "7401")}

    def type_section(self, number: int, *names: str) -> None:
        """Type the commands of a section at these organisations."""
        text = (GUIDES / "deployment.md").read_text()
        section = re.split(r"^## ", text, flags=re.MULTILINE)[number]
        for name in names:
            for block in re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL):
                self._type_block(block, self.organisations[name])

    def _type_block(self, block: str, at: Organisation) -> None:
        for file, content in re.findall(r"cat > (\S+) <<'END'\n(.*?)END\n", block, re.DOTALL):
            (at.folder / file).write_text(content)
        commands = re.sub(r"^cat > .*?^END\n", "", block, flags=re.DOTALL | re.MULTILINE)
        for line in commands.replace("\\\n", " ").splitlines():
            here = line.partition(" #")[0].strip()
            for word, ours in self.places.items():
                here = here.replace(word, ours)
            if here.startswith("fedforest") and "warm-up" not in here:
                self.type_line(here, at)

    def type_line(self, line: str, at: Organisation) -> str:
        """Type one line, and what it asks for; return what it prints."""
        words = words_of(line)[1:]
        if line.endswith("&"):
            at.start(*words)
            if words[0] == "coordinator":
                wait_until(
                    lambda: is_listening(int(self.places["7401"])), "the coordinator listens"
                )
            return ""
        typed = None
        if words[-1] == "join" or words[:2] == ["party", "join"]:
            typed = self.tokens["ann" if words[0] == "join" else at.name] + "\n"
        if words[:2] == ["party", "trust"]:
            (other,) = set(self.organisations) - {at.name}
            words[2:4] = [other, self.fingerprint_of(other)]
        with chdir(at.folder):
            outcome = CliRunner(env=settings_of(at)).invoke(app, words, input=typed)
        assert outcome.exit_code == 0, f"{line}\n{outcome.output}{outcome.exception!r}"
        if words[:2] == ["coordinator", "invite"]:
            self.tokens[words[2]] = outcome.stdout.strip().splitlines()[-1]
        return outcome.stdout

    def fingerprint_of(self, name: str) -> str:
        told = self.type_line("fedforest party identity --home ./party", self.organisations[name])
        return next(word for word in told.split() if word.count("-") > 5)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def settings_of(at: Organisation) -> dict[str, str]:
    return {"FEDFOREST_HOME": str(at.folder / "user"), "NO_COLOR": "1", "COLUMNS": "200"}


def write_tables(organisations: Mapping[str, Organisation]) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X.insert(0, "patient_number", range(len(X)))
    columns = {
        "clinic": X.iloc[:, :16].assign(diagnosis=y),
        "laboratory": X.iloc[:, [0, *range(16, 31)]],
    }
    for name, at in organisations.items():
        columns[name].to_csv(at.folder / "patients.csv", index=False)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The federation that the deployment guide makes, up to its trained model."""
    with on_loopback(tmp_path_factory.mktemp("guide"), ("clinic", "laboratory")) as organisations:
        write_tables(organisations)
        reader = Reader(organisations)
        reader.type_section(1, "clinic")
        reader.type_section(2, "clinic", "laboratory")
        reader.type_section(3, "clinic", "laboratory")
        reader.type_section(4, "clinic")  # ann works at the clinic
        yield reader


@pytest.mark.slow
def test_the_deployment_guide_ends_with_answers_beside_the_clinics_ids(reader: Reader) -> None:
    reader.type_section(5, "clinic")
    assert (reader.organisations["clinic"].folder / "answers.parquet").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("guide", "line"), [(guide, line) for guide in RUN for line in RUN[guide]])
def test_a_command_of_another_guide_runs_in_the_same_federation(
    reader: Reader, guide: str, line: str
) -> None:
    told = [shlex.join(words_of(each)) for each in command_lines(GUIDES / guide)]
    for name, ours in NAMES.items():
        told = [each.replace(name, ours) for each in told]
    assert line in told
    at = reader.organisations["clinic"]
    if "RUN" in line:
        shown = reader.type_line("fedforest runs show tumours --json", at)
        line = line.replace("RUN", re.findall(r'"(?:id|run)": ?"(\w+)"', shown)[0])
    assert reader.type_line(line, at)


@pytest.mark.slow
def test_the_python_of_the_guide_to_federations_runs(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic, laboratory = reader.organisations["clinic"], reader.organisations["laboratory"]
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    tables = {"patients": X.iloc[:, :15].assign(outcome=y), "values": X.iloc[:, 15:]}
    for at, name in ((clinic, "patients"), (laboratory, "values")):
        for data in (name, f"new_{name}"):
            tables[name].to_csv(at.folder / f"{data}.csv", index=False)
            reader.type_line(
                f"fedforest party data add {data} {data}.csv --replace --home ./party", at
            )
    profiles = clinic.folder / "user" / "profiles"
    os.symlink(profiles / "patients", profiles / "clinics")
    monkeypatch.setenv("FEDFOREST_HOME", str(clinic.folder / "user"))
    names: dict[str, object] = {}
    for block in python_blocks(GUIDES / "federation.md"):
        exec(compile(block.code, "federation.md", "exec"), names)
