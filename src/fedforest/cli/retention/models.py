"""`fedforest models` and `fedforest party models`: list, withdraw and delete models.

A party's commands work on its folder. A running party goes by it from the next request on, and the
coordinator is not asked.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedforest.cli.services import Home  # noqa: TC001 - typer reads the annotations
from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal, Yes, confirm
from fedforest.reports.formats import format_time

if TYPE_CHECKING:
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.messages.results import ModelState
    from fedforest.runtime.party.retention.model_folder import OwnModel

models = typer.Typer(help="Models of the federation.", no_args_is_help=True)
party_models = typer.Typer(help="What a party keeps of models.", no_args_is_help=True)

WhichModel = Annotated[
    str, typer.Argument(help="A model: the name or the id of its run, or the id's first digits.")
]
OwnModelId = Annotated[str, typer.Argument(help="A model's id, or its first digits.")]


@models.callback()
def models_commands() -> None:
    """Models of finished runs; each has the id of its run."""


@models.command("list")
def list_models(profile: Profile = "", as_json: AsJson = False) -> None:
    """List the models that you may see, the oldest first, withdrawn ones among them.

    Example: fedforest models list
    """
    from fedforest.runtime.messages.orders import ListModels

    with _federation(profile) as federation:
        found = _ask(federation, ListModels())
    if as_json:
        Terminal(as_json).show_json([_describe(model) for model in found])
        return
    for model in found:
        typer.echo(
            f"{model.model[:12]}  {model.name or '-':20}  {model.protocol:10}  {_say(model)}"
        )
    if not found:
        typer.echo("There is no model yet.")


@models.command("show")
def show_model(model: WhichModel, profile: Profile = "", as_json: AsJson = False) -> None:
    """Say whether a model may be used, or who withdrew it and when.

    Example: fedforest models show churn
    """
    from fedforest.runtime.messages.orders import ShowModel

    with _federation(profile) as federation:
        [found] = _ask(federation, ShowModel(model=_find(federation, model)))
    _show(Terminal(as_json), found)


@models.command("withdraw")
def withdraw_model(
    model: WhichModel,
    yes: Yes = False,
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Withdraw a model for good: from the next request on it answers nothing, at any role.

    Parties that are away hear of it when they come back. Files stay until they are deleted.

    Example: fedforest models withdraw churn
    """
    from fedforest.runtime.messages.orders import WithdrawModel

    with _federation(profile) as federation:
        found = _find(federation, model)
        confirm(f"Withdraw model {found}, for good?", yes=yes)
        [state] = _ask(federation, WithdrawModel(model=found))
    _show(Terminal(as_json, quiet), state)


@models.command("delete")
def delete_model(
    model: WhichModel,
    yes: Yes = False,
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Withdraw a model, and delete what the coordinator keeps of it: model, result, journals.

    Owners of parties are asked to delete theirs: fedforest party models delete.

    Example: fedforest models delete churn --yes
    """
    from fedforest.runtime.messages.orders import DeleteModel

    with _federation(profile) as federation:
        found = _find(federation, model)
        confirm(f"Delete model {found} and all that is kept of its run?", yes=yes)
        [state] = _ask(federation, DeleteModel(model=found))
    _show(Terminal(as_json, quiet), state)


@party_models.callback()
def party_models_commands() -> None:
    """What a party keeps of models: partial forests, coefficients, whole horizontal forests."""


@party_models.command("list")
def list_own_models(home: Home, as_json: AsJson = False) -> None:
    """List the models in a party's folder: which data sets went into them, and their state.

    Example: fedforest party models list --home ./bank
    """
    found = _folder(home).list()
    if as_json:
        Terminal(as_json).show_json([model.to_json() for model in found])
        return
    for model in found:
        typer.echo(f"{model.model}  of {', '.join(model.data) or '-'}  {_say_own(model)}")
    if not found:
        typer.echo("This party keeps no model.")


@party_models.command("show")
def show_own_model(model: OwnModelId, home: Home, as_json: AsJson = False) -> None:
    """Show a model in a party's folder: data sets, runs, files, and who withdrew it.

    Example: fedforest party models show 4f2a --home ./bank
    """
    _show_own(Terminal(as_json), _folder(home).find(model))


@party_models.command("withdraw")
def withdraw_own_model(
    model: OwnModelId,
    home: Home,
    yes: Yes = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Withdraw a model here for good: this party answers nothing about it from now on.

    A vertical model is of no use then: predictions need every party. No
    coordinator can undo it.

    Example: fedforest party models withdraw 4f2a --home ./bank
    """
    folder = _folder(home)
    found = folder.find(model)
    confirm(f"Withdraw model {found.model} at this party, for good?", yes=yes)
    _show_own(Terminal(as_json, quiet), folder.withdraw(found.model))


@party_models.command("delete")
def delete_own_model(
    model: OwnModelId,
    home: Home,
    yes: Yes = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Withdraw a model here, and delete its files; one line says what was deleted, and when.

    Example: fedforest party models delete 4f2a --home ./bank --yes
    """
    folder = _folder(home)
    found = folder.find(model)
    confirm(f"Delete the files of model {found.model} at this party?", yes=yes)
    _show_own(Terminal(as_json, quiet), folder.delete(found.model))


def _federation(profile: str) -> Federation:
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile

    return Federation(choose_profile(profile))


def _ask(federation: Federation, order: Any) -> list[ModelState]:
    from fedforest.runtime.messages.results import ModelList

    return federation.ask(order, ModelList).models


def _find(federation: Federation, text: str) -> str:
    from fedforest.cli.runs import find_model

    return find_model(federation, text).run


def _folder(home: Path) -> Any:
    from fedforest.runtime.party.retention.model_folder import PartyModelFolder

    return PartyModelFolder(home)


def _describe(model: ModelState) -> dict[str, Any]:
    import msgspec

    return {**msgspec.structs.asdict(model), "state": model.state}


def _show(terminal: Terminal, model: ModelState) -> None:
    if terminal.as_json:
        terminal.show_json(_describe(model))
        return
    typer.echo(f"model {model.model}{f' ({model.name})' if model.name else ''}: {_say(model)}")
    if model.away:
        typer.echo(f"not connected, and told when they come back: {', '.join(model.away)}")


def _say(model: ModelState) -> str:
    if model.withdrawn_at is None:
        return f"usable, since {format_time(model.created)}"
    said = f"withdrawn by {model.withdrawn_by} on {format_time(model.withdrawn_at)}"
    if model.deleted_at is not None:
        said += f", deleted by {model.deleted_by} on {format_time(model.deleted_at)}"
    return said


def _show_own(terminal: Terminal, model: OwnModel) -> None:
    if terminal.as_json:
        terminal.show_json(model.to_json())
        return
    typer.echo(f"model {model.model}: {_say_own(model)}")
    if model.data:
        typer.echo(f"  of the data sets {', '.join(model.data)}, by runs {', '.join(model.runs)}")
    if model.files:
        typer.echo(f"  files: {', '.join(model.files)}")
    if model.continued_by:
        typer.echo(f"  its trees are also in: {', '.join(model.continued_by)}")


def _say_own(model: OwnModel) -> str:
    gone = model.withdrawal
    if gone is None:
        return "usable"
    said = f"withdrawn by {gone.by} on {format_time(gone.at)}"
    if gone.deleted_at is not None:
        return f"{said}, deleted by {gone.deleted_by} on {format_time(gone.deleted_at)}"
    if gone.deletion_asked_by:
        said += f"; {gone.deletion_asked_by}, asks for its deletion: fedforest party models delete"
    return said
