"""Somebody on a newcomer's machine wants its token; somebody who makes tokens wants its files."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.errors import ConfigurationError
from fedforest.runtime.membership.invitations import Invitation

INVITATION = Invitation(
    "clinics", "party", "bank", "127.0.0.1:1", "127.0.0.1:2", bytes(32), bytes(24)
)
TOKEN = INVITATION.as_token()


def complaint(*arguments: str, typed: str = "") -> str:
    outcome = CliRunner().invoke(app, arguments, input=typed)
    assert outcome.exception is not None
    return str(outcome.exception)


@pytest.mark.parametrize("words", [("party", "join"), ("join",)], ids=["party", "user"])
def test_a_token_in_the_command_line_is_refused_and_not_repeated(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    told = complaint(*words, TOKEN, "--home", str(tmp_path / "new"))
    assert "seen by everybody" in told
    assert TOKEN not in told
    assert not (tmp_path / "new").exists()


def test_a_token_in_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token.txt"
    file.write_text(TOKEN)
    file.chmod(0o644)
    assert "chmod 600" in complaint("party", "join", str(file), "--home", str(tmp_path / "new"))
    file.chmod(0o600)
    told = complaint("party", "join", str(file), "--home", str(tmp_path / "new"))
    assert "no coordinator to enrol with" in told  # so it was read


def test_a_token_comes_by_standard_input(tmp_path: Path) -> None:
    for words in (("party", "join"), ("party", "join", "-")):
        told = complaint(*words, "--home", str(tmp_path / "new"), typed=f"{TOKEN}\n")
        assert "no coordinator to enrol with" in told


@pytest.mark.parametrize("federation", ["../../../tmp", "/etc", "a\nb", "", "a/b"])
def test_a_token_makes_no_folder_outside_of_the_profiles(federation: str) -> None:
    forged = msgspec.structs.replace(INVITATION, federation=federation, role="user")
    with pytest.raises(ConfigurationError, match="no invitation"):
        Invitation.of_token(forged.as_token())
