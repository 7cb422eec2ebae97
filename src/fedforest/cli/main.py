"""The `fedforest` command: its options, its commands, and how it fails.

Each command has its own file, which imports the heavy libraries only when the command runs; that
keeps `--help` quick. Errors the package raises on purpose end as one line and exit code 1, a wrong
command line as exit code 2, Ctrl-C as exit code 130, and anything else is a bug and keeps its
traceback. With `--json` that line is an object.
"""

import json
import sys
from typing import Annotated

import typer

from fedforest import __version__
from fedforest.cli.align import align, alignments, party_alignments
from fedforest.cli.audit import audit
from fedforest.cli.data import data
from fedforest.cli.demo import demo
from fedforest.cli.export import export
from fedforest.cli.membership import join_as_user, show_identity
from fedforest.cli.mpi import mpi
from fedforest.cli.operation.backup import (
    back_up_coordinator,
    back_up_party_folder,
    restore_coordinator_folder,
    restore_party_folder,
    settle_coordinator,
    settle_party,
)
from fedforest.cli.operation.doctor import doctor
from fedforest.cli.operation.mlflow_log import log_to_mlflow
from fedforest.cli.operation.renew import renew_certificate
from fedforest.cli.operation.status import status
from fedforest.cli.papers.data_sets import paper_data
from fedforest.cli.papers.reproduce import reproduce
from fedforest.cli.planning.plan import plan
from fedforest.cli.policy import policy
from fedforest.cli.predict import predict
from fedforest.cli.retention.erasure import erase_data
from fedforest.cli.retention.models import models, party_models
from fedforest.cli.retention.prune import prune_party, prune_runs
from fedforest.cli.runs import runs
from fedforest.cli.services import coordinator, party
from fedforest.cli.train import train
from fedforest.cli.warm_up import warm_up
from fedforest.cli.web.serve import serve, tokens
from fedforest.errors import FederationError
from fedforest.extras import explain_missing_extras
from fedforest.printable import printable

app = typer.Typer(
    name="fedforest",
    help="Tree ensembles over data that may not be pooled.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help starts in half the time
    pretty_exceptions_show_locals=False,  # local variables hold rows and, later, keys
)
app.command()(demo)
app.command("warm-up")(warm_up)
app.command()(doctor)
app.command()(status)
app.command("join")(join_as_user)
app.command("identity")(show_identity)
app.command("renew")(renew_certificate)
app.command()(plan)
app.command()(train)
app.add_typer(runs, name="runs")
runs.command("prune")(prune_runs)
runs.command("mlflow")(log_to_mlflow)
app.add_typer(models, name="models")
app.command()(align)
app.add_typer(alignments, name="alignments")
app.command()(predict)
app.command()(export)
app.command()(serve)
app.add_typer(tokens, name="tokens")
app.command()(reproduce)
app.add_typer(paper_data, name="data")
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(mpi)
app.add_typer(coordinator, name="coordinator")
app.add_typer(party, name="party")
party.add_typer(data, name="data")
data.command("erase")(erase_data)
party.add_typer(policy, name="policy")
party.add_typer(party_alignments, name="alignments")
party.add_typer(party_models, name="models")
party.command("prune")(prune_party)
app.add_typer(audit, name="audit")
coordinator.command("backup")(back_up_coordinator)
coordinator.command("restore")(restore_coordinator_folder)
coordinator.command("settle")(settle_coordinator)
party.command("backup")(back_up_party_folder)
party.command("restore")(restore_party_folder)
party.command("settle")(settle_party)


# click's own, which newer releases of typer bring along under another name
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedforest {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Tree ensembles over data that may not be pooled."""


def app_entry() -> None:
    """Run the command line and exit the process."""
    as_json = "--json" in sys.argv[1:]
    try:
        with explain_missing_extras("this command"):
            # else usage errors are told, and the process ended, before we hear of them
            code = app(prog_name="fedforest", standalone_mode=not as_json)
    except FederationError as error:
        _complain(type(error).__name__, str(error), _describe(error), as_json=as_json)
        sys.exit(1)
    except _USAGE_ERROR as error:
        _complain("UsageError", error.format_message(), {}, as_json=as_json)  # type: ignore[attr-defined] # see above
        sys.exit(2)
    except typer.Abort:
        sys.exit(130)
    sys.exit(code)


def _describe(error: FederationError) -> dict[str, object]:
    """Return the code and fields of an error, for programs."""
    about = {"code": error.code, "party": error.party, "fields": dict(error.fields)}
    return {name: value for name, value in about.items() if value}


def _complain(kind: str, text: str, about: dict[str, object], *, as_json: bool) -> None:
    """Print the error on one line of standard error."""
    one_line = printable(" ".join(text.split()))
    complaint = json.dumps({"error": kind, "message": one_line, **about}, default=str)
    typer.echo(complaint if as_json else f"fedforest: {one_line}", err=True)
