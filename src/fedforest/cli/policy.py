"""`fedforest party policy`: what a party lets be done with its data, as its owner writes it."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedforest.cli.services import Home  # noqa: TC001 - typer reads the annotations
from fedforest.cli.terminal import AsJson, Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedforest.runtime.party.policy import DataSetRules, PolicyFile

policy = typer.Typer(help="What may be done with a party's data.", no_args_is_help=True)


@policy.callback()
def policy_commands() -> None:
    """Show and check the rules for a party's data; the party enforces them, whatever is asked."""


@policy.command("init")
def init_policy(home: Home, as_json: AsJson = False) -> None:
    """Write a policy file that says what holds already, to be changed in an editor.

    Example: fedforest party policy init --home ./bank
    """
    from fedforest.errors import ConfigurationError
    from fedforest.runtime.party.policy import FILE_NAME
    from fedforest.runtime.party.policy_template import TEMPLATE
    from fedforest.runtime.recovery.run_store import write_file

    path = home / FILE_NAME
    if path.exists():
        raise ConfigurationError(f"there is a policy already: {path}; change it in an editor")
    write_file(path, TEMPLATE.encode())
    if as_json:
        Terminal(as_json).show_json({"file": str(path)})
        return
    typer.echo(f"Wrote {path}; see what holds with `fedforest party policy show --home {home}`.")


@policy.command("show")
def show_policy(home: Home, as_json: AsJson = False) -> None:
    """Show what holds for every data set, and what was spent of it so far.

    Example: fedforest party policy show --home ./bank
    """
    import msgspec

    from fedforest.runtime.party.catalogue.entries import EntryFolder
    from fedforest.runtime.party.policy import PolicyFile
    from fedforest.runtime.party.spending import Budgets

    rules_file = PolicyFile(home)
    named = rules_file.check()
    names = sorted({*EntryFolder(home).names(), *named})
    budgets = Budgets(home)
    found = {"any other": _describe(rules_file.rules(""), 0.0)}
    for name in names:
        ceiling = budgets.ceiling(name, rules_file)
        rules = msgspec.structs.replace(rules_file.rules(name), epsilon_ceiling=ceiling)
        found[name] = _describe(rules, budgets.read(name, ceiling).spent)
    if as_json:
        Terminal().show_json(found)
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"Policy of {escape(str(home))}", title_justify="left")
    for column in ("", *found):
        table.add_column(escape(column), overflow="fold")
    for rule in next(iter(found.values())):
        table.add_row(rule, *(escape(_say(rules[rule])) for rules in found.values()))
    Terminal().out.print(table)


@policy.command("check")
def check_policy(
    home: Home,
    file: Annotated[
        Path | None, typer.Argument(help="Also: would this run (docs/how-to/runs.md) be allowed?")
    ] = None,
    asker: Annotated[str, typer.Option(help="The user who would ask.")] = "",
    party: Annotated[
        str, typer.Option(help="The party's name in the run; by default as in its certificate.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Find mistakes in the policy file, and try a run against it without running anything.

    Example: fedforest party policy check --home ./bank

    Example: fedforest party policy check run.toml --asker ann --home ./bank
    """
    from fedforest.runtime.party.policy import PolicyFile

    rules_file = PolicyFile(home)
    named = rules_file.check()
    reasons: list[str] = []
    if file is not None:
        reasons = _try_run(home, rules_file, file, asker, party or _name_of(home))
    if as_json:
        verdict = {} if file is None else {"allowed": not reasons, "reasons": reasons}
        Terminal(as_json).show_json({"data": list(named), **verdict})
    else:
        _print_verdict(rules_file, named, reasons, is_tried=file is not None)
    if reasons:
        raise typer.Exit(1)


def _print_verdict(
    rules_file: PolicyFile, named: Sequence[str], reasons: Sequence[str], *, is_tried: bool
) -> None:
    where = rules_file.path if rules_file.path.exists() else "there is no policy file; the defaults"
    typer.echo(f"{where}: no mistakes, rules of their own for {', '.join(named) or 'no data set'}")
    for reason in reasons:
        typer.echo(f"refused: {reason}")
    if is_tried and not reasons:
        what = "budgets are looked at when labels are asked for"
        typer.echo(f"allowed: such a run would begin; {what}")


def _try_run(home: Path, rules_file: PolicyFile, file: Path, asker: str, party: str) -> list[str]:
    """List every rule that a declared run would break; no peer is asked."""
    import msgspec

    from fedforest.errors import ConfigurationError
    from fedforest.estimators.run_files import order_run
    from fedforest.runtime.client.run_files import read_run_file
    from fedforest.runtime.party.approval import find_refusals
    from fedforest.runtime.party.catalogue.catalogue import Catalogue
    from fedforest.runtime.trainings.registry import training_of

    order = msgspec.structs.replace(order_run(read_run_file(file)), asker=asker)
    training = training_of(order)
    role = training.roles(order).get(party)
    if role is None:
        raise ConfigurationError(f"{file}: party {party!r} takes no part; name one with --party")
    rules, terms = rules_file.rules(role.data), training.terms(order)
    data = Catalogue(home).read(role.data)
    shape = data.n_rows, data.columns.num_columns
    return [str(refusal) for refusal in find_refusals(rules, role, terms, shape)]


def _name_of(home: Path) -> str:
    from fedforest.runtime.membership.homes import load_credentials

    return load_credentials(home).identity.name


def _describe(rules: DataSetRules, spent: float) -> dict[str, Any]:
    """Rules by name, with None where there is no limit, and epsilon spent so far."""
    import math

    import msgspec

    told: dict[str, Any] = {**msgspec.to_builtins(rules), "epsilon_spent": spent}
    return {rule: None if value == math.inf else value for rule, value in told.items()} | {
        "epsilon_spent": "without limit" if spent == math.inf else spent
    }


def _say(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
