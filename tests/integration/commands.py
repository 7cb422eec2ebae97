"""Commands of a user of a federation, run in this process against real ones."""

from typer.testing import CliRunner, Result

from fedforest.cli.main import app
from tests.integration.processes import Processes


def invoke(processes: Processes, *arguments: str) -> Result:
    """What came of `fedforest ARGUMENTS`, by the user of a federation."""
    runner = CliRunner(env={"FEDFOREST_PROFILE": processes.folder.profile})
    return runner.invoke(app, list(arguments))


def fedforest(processes: Processes, *arguments: str) -> str:
    """What a command that succeeds prints."""
    outcome = invoke(processes, *arguments)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout
