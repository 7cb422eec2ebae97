"""What `deploy/` holds: hardened units that systemd accepts, an image and a compose file.

hadolint and compose are seldom installed; what they would say of these files is looked for here.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from fedforest.cli.main import app

DEPLOY = Path(__file__).parent.parent / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAM = "/opt/fedforest/bin/fedforest"
MOST_EXPOSURE = 2.0  # of 10, as `systemd-analyze security` counts; below 2.0 it says OK
GUIDE = DEPLOY.parent / "docs" / "how-to" / "deployment.md"


@pytest.mark.structure
@pytest.mark.parametrize(
    "file", [*UNITS, DEPLOY / "container" / "compose.yaml"], ids=lambda p: p.name
)
def test_services_are_started_by_commands_that_there_are(file: Path) -> None:
    text = file.read_text()
    commands = re.findall(rf"^ExecStart={PROGRAM} (.*)$", text, flags=re.MULTILINE)
    lists = re.findall(r"^    command: \[(.*)\]$", text, flags=re.MULTILINE)
    commands += [each.replace(",", "").replace('"', "") for each in lists]
    assert commands
    for words in map(str.split, commands):
        command = get_command(app)
        while words and not words[0].startswith("-"):
            command = command.commands[words.pop(0)]  # type: ignore[attr-defined] # a group
        known = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_valid_and_hardened(unit: Path, tmp_path: Path) -> None:
    program = tmp_path / "fedforest"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(PROGRAM, str(program)))
    verified = _analyze("verify", copy)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    told = _analyze("security", "--offline=true", "--no-pager", copy)
    if "Unknown" in told.stderr or "unrecognized" in told.stderr:
        pytest.skip("this systemd looks at no file offline")
    found = re.search(r"exposure level for .*: ([0-9.]+)", told.stdout)
    assert found is not None, told.stdout + told.stderr
    assert float(found[1]) < MOST_EXPOSURE


def _analyze(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.structure
def test_the_image_runs_as_nobody_special_from_a_version_that_is_named() -> None:
    text = (DEPLOY / "container" / "Containerfile").read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and line[0] != "#"]
    steps = [line.split(maxsplit=1) for line in lines]
    assert {each[0] for each in steps} <= {
        *("ARG", "FROM", "WORKDIR", "COPY", "ENV", "RUN", "USER", "VOLUME"),
        *("STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
    }
    [base] = [value for name, value in steps if name == "ARG"]
    assert re.fullmatch(r"PYTHON_IMAGE=\S+:3\.\d+-slim-\w+", base)
    assert all(value.startswith("${PYTHON_IMAGE}") for name, value in steps if name == "FROM")
    after = [name for name, _ in steps[[name for name, _ in steps].index("USER") :]]
    assert "RUN" not in after
    assert dict(steps)["USER"] == "10001:10001"
    assert json.loads(dict(steps)["ENTRYPOINT"]) == ["fedforest"]
    assert "USER" not in [name for name, value in steps if name == "USER" and "root" in value]
    for _, value in (step for step in steps if step[0] == "RUN"):
        assert not re.search(r"\b(sudo|curl|wget|ADD|:latest)\b", value)
    copied = [value.split() for name, value in steps if name == "COPY" and "--from" not in value]
    allowed = (DEPLOY / "container" / "Containerfile.dockerignore").read_text().split()
    for name in (part.removeprefix("./") for parts in copied for part in parts[:-1]):
        assert f"!{name}" in allowed
        assert (DEPLOY.parent / name).exists()


@pytest.mark.structure
def test_containers_have_no_more_rights_than_they_need() -> None:
    text = (DEPLOY / "container" / "compose.yaml").read_text()
    for rule in ("read_only: true", "cap_drop: [ALL]", '"no-new-privileges:true"', "mem_limit:"):
        assert rule in text
    assert text.count("<<: *hardened") == len(
        re.findall(r"^    command:", text, flags=re.MULTILINE)
    )
    assert "privileged: true" not in text
    assert "9464:" not in text  # metrics have no password


@pytest.mark.structure
def test_the_guide_names_every_file() -> None:
    guide = GUIDE.read_text()
    for file in (path for path in DEPLOY.rglob("*") if path.is_file()):
        if not file.name.endswith(".dockerignore"):
            assert f"{file.parent.name}/{file.name}" in guide or file.name in guide, file
