"""`fedforest party policy`: what a party lets be done with its data, as its owner writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedforest.cli.services import Home  # noqa: TC001 - typer reads the annotations

if TYPE_CHECKING:
    from fedforest.runtime.policy import Rules

policy = typer.Typer(help="What may be done with a party's data.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]

TEMPLATE = """\
# What this party lets be done with its data. Read again whenever a run or a prediction begins.
# Lines that are commented out show what holds without them; docs/policy.md explains each.

[default]                         # for every data set
# use = true                      # false: only data sets that say `use = true` below
# askers = ["ann", "bob"]         # users who may ask; without this line, everybody
# protocols = ["vertical", "horizontal", "linear", "prediction"]
# columns = ["age", "city"]       # that runs may see; without this line, all but those hidden
# hidden_columns = []
# min_rows_per_leaf = 5
# label_protection = "encoded"    # or "randomized_response"
# largest_label_epsilon = inf     # of one vertical run with randomized response
# aggregations = ["plain", "masked", "ring", "shamir"]
# noise = ["none", "local", "global"]
# epsilon_ceiling = inf           # of all runs together, on the label of a row
# largest_lookahead = 64
# complete_model = false          # true: splits may leave for a model that predicts alone
# prediction_rows_per_day = 1_000_000
# alignment = true
# validation = true
# alone = true

# [data.patients]                 # for one data set; what it does not say is as above
# min_rows_per_leaf = 20
"""


@policy.callback()
def policy_commands() -> None:
    """What may be done with a party's data; enforced at the party, whatever is asked."""


@policy.command("init")
def init_policy(home: Home) -> None:
    """Write a policy file that says what holds already, to be changed in an editor.

    Example: fedforest party policy init --home ./bank
    """
    from fedforest.errors import ConfigurationError
    from fedforest.runtime.policy import FILE_NAME
    from fedforest.runtime.run_store import write_file

    path = home / FILE_NAME
    if path.exists():
        raise ConfigurationError(f"there is a policy already: {path}; change it in an editor")
    write_file(path, TEMPLATE.encode())
    typer.echo(f"Wrote {path}; see what holds with `fedforest party policy show`.")


@policy.command("show")
def show_policy(home: Home, as_json: AsJson = False) -> None:
    """Show what holds for every data set, and what was spent of it so far.

    Example: fedforest party policy show --home ./bank
    """
    from fedforest.runtime.catalogue.entries import EntryFolder
    from fedforest.runtime.policy import PolicyFile
    from fedforest.runtime.spending import Budgets

    rules_file = PolicyFile(home)
    named = rules_file.check()
    names = sorted({*EntryFolder(home).names(), *named})
    found = {"any other": _describe(rules_file.rules(""), 0.0)}
    for name in names:
        rules = rules_file.rules(name)
        spent = Budgets(home).read(name, rules.epsilon_ceiling).spent
        found[name] = _describe(rules, spent)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"Policy of {escape(str(home))}", title_justify="left")
    for column in ("", *found):
        table.add_column(escape(column), overflow="fold")
    for rule in next(iter(found.values())):
        table.add_row(rule, *(escape(_say(rules[rule])) for rules in found.values()))
    Console().print(table)


@policy.command("check")
def check_policy(  # noqa: PLR0913, PLR0917 - options of a command
    home: Home,
    data: Annotated[str | None, typer.Option(help="Also: would a run on this data set do?")] = None,
    protocol: Annotated[str, typer.Option(help="vertical or horizontal.")] = "vertical",
    asker: Annotated[str, typer.Option(help="The user who asks.")] = "",
    label: Annotated[
        str | None, typer.Option(help="The label, if it is a column of this data set.")
    ] = None,
    min_samples_leaf: Annotated[int, typer.Option(min=1, help="Rows in a leaf, at least.")] = 5,
    label_epsilon: Annotated[
        float | None, typer.Option(help="Epsilon of RandomizedResponse (vertical).")
    ] = None,
    aggregation: Annotated[
        str, typer.Option(help="plain, masked, ring or shamir (horizontal).")
    ] = "plain",
    noise: Annotated[str, typer.Option(help="none, local or global (horizontal).")] = "none",
) -> None:
    """Find mistakes in the policy file, and try a run against it without running anything.

    Example: fedforest party policy check --home ./bank

    Example: fedforest party policy check --home ./bank --data loans --min-samples-leaf 3
    """
    from fedforest.errors import PolicyRefusal
    from fedforest.runtime.policy import PolicyFile
    from fedforest.runtime.run_approval import check_leaf_size, check_run
    from fedforest.runtime.terms import Terms

    rules_file = PolicyFile(home)
    named = rules_file.check()
    where = rules_file.path if rules_file.path.exists() else "there is no policy file; the defaults"
    typer.echo(f"{where}: no mistakes, rules of their own for {', '.join(named) or 'no data set'}")
    if data is None:
        return
    terms = Terms(
        asker=asker, min_samples_leaf=min_samples_leaf, label_epsilon=label_epsilon, noise=noise
    )
    rules = rules_file.rules(data)
    try:
        check_run(rules, _make_role(protocol, data, label, aggregation), terms)
        check_leaf_size(rules, terms, 0)
    except PolicyRefusal as refusal:
        typer.echo(f"refused: {refusal}")
        raise typer.Exit(1) from None
    typer.echo("allowed: such a run would begin; budgets are looked at when labels are asked for")


def _make_role(protocol: str, data: str, label: str | None, aggregation: str) -> Any:
    from fedforest.runtime.orders import Choice
    from fedforest.runtime.roles import HorizontalRole, VerticalRole

    if protocol == "vertical":
        return VerticalRole(data=data, is_regression=False, label=label)
    if protocol != "horizontal":
        raise typer.BadParameter("it is vertical or horizontal", param_hint="--protocol")
    choice = None if aggregation == "plain" else Choice(aggregation, {})
    return HorizontalRole(data=data, is_regression=False, label=label, aggregation=choice)


def _describe(rules: Rules, spent: float) -> dict[str, Any]:
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
