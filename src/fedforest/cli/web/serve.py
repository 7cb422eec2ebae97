"""`fedforest serve` and `fedforest tokens`: models behind HTTP, and who may ask them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedforest.cli.terminal import AsJson, Terminal
from fedforest.reports.formats import format_time

tokens = typer.Typer(help="Tokens by which applications ask.", no_args_is_help=True)

TokenFile = Annotated[Path, typer.Option("--file", help="The file of tokens; it holds digests.")]


def serve(  # noqa: PLR0913, PLR0917 - options of a command
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Model files, or NAME=FILE.")
    ],
    address: Annotated[str, typer.Option(help="Where it listens.")] = "127.0.0.1:8080",
    token_file: Annotated[
        Path | None,
        typer.Option("--tokens", help="Who may ask: a file of `fedforest tokens add`."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="A TLS certificate, as PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key, as PEM.")] = None,
    rate: Annotated[
        float, typer.Option(min=0.0, help="Requests a second for each token; 0 is no limit.")
    ] = 0.0,
    at_once: Annotated[int, typer.Option(min=1, help="Requests that are worked on at once.")] = 64,
    as_json: AsJson = False,
) -> None:
    """Answer predictions over HTTP, offline, with the models of files.

    A model is what `fedforest export` and `to_bytes()` write: a horizontal one, or a vertical one
    whose parties allowed it. Without --tokens one token is made for this process, and printed.

    Example: fedforest serve forest.model

    Example: fedforest serve churn=forest.model --tokens tokens.json --address 127.0.0.1:8080
    """
    from fedforest.cli.services import stop_on_signals
    from fedforest.extras import explain_missing_extras
    from fedforest.runtime.event_log import start_logging
    from fedforest.runtime.membership.service_tokens import OneToken, ServiceTokens

    with explain_missing_extras("serving"):
        from fedforest.web.api.guard import Guard, WebLimits
        from fedforest.web.server import WebAddress, WebServer
        from fedforest.web.serving.app import make_app
        from fedforest.web.serving.model import ServedModel

    start_logging("json" if as_json else "text")
    served = [ServedModel.open(given) for given in models]
    names = [model.name for model in served]
    if len(set(names)) < len(names):
        raise typer.BadParameter("two models have one name; write NAME=FILE", param_hint="MODEL")
    known = OneToken() if token_file is None else ServiceTokens(token_file)
    bounds = WebLimits(requests_per_second=rate, at_once=at_once)
    stop = stop_on_signals()
    with WebServer(
        make_app(served, Guard(known, bounds)), WebAddress(address, certificate, key)
    ) as web:
        told = {"url": web.url, "models": names}
        word = known.word if isinstance(known, OneToken) else ""
        if as_json:
            Terminal(as_json).show_json(told | ({"token": word} if word else {}))
        else:
            typer.echo(f"serving {', '.join(names)} at {web.url}/v1/models")
            if word:
                typer.echo(f"token, good until this process ends: {word}")
        stop.wait()


@tokens.callback()
def tokens_commands() -> None:
    """Tokens of applications; a file holds digests only."""


@tokens.command("add")
def add_token(  # noqa: PLR0913, PLR0917 - options of a command
    name: Annotated[str, typer.Argument(help="What it is for.")],
    file: TokenFile,
    days: Annotated[float, typer.Option(help="How long it is valid.")] = 90.0,
    user: Annotated[
        str, typer.Option(help="The user of a federation whom it stands for at a coordinator.")
    ] = "",
    order: Annotated[
        bool | None,
        typer.Option(
            "--order/--no-order",
            help="Whether it may also begin and change something; by default if it has a USER.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token for an application or a browser, and print it: it is shown once.

    Example: fedforest tokens add scoring --file tokens.json --days 30

    Example: fedforest tokens add ada --user ada --file ./coordinator/tokens.json --days 1
    """
    from fedforest.runtime.membership.service_tokens import SCOPES, ServiceTokens

    may_order = bool(user) if order is None else order
    scopes = SCOPES if may_order else SCOPES[:-1]
    word = ServiceTokens(file).issue(name, user=user, scopes=scopes, days=days)
    if as_json:
        Terminal(as_json).show_json({"name": name, "token": word, "days": days})
        return
    typer.echo(word)
    typer.echo(f"{name} sends it as: Authorization: Bearer {word[:8]}...", err=True)


@tokens.command("list")
def list_tokens(file: TokenFile, as_json: AsJson = False) -> None:
    """List tokens, and until when they are valid.

    Example: fedforest tokens list --file tokens.json
    """
    from fedforest.runtime.membership.service_tokens import ServiceTokens

    known = ServiceTokens(file).all()
    if as_json:
        told = [
            {"name": token.name, "scopes": token.scopes, "expires": token.expires}
            for token in known
        ]
        Terminal(as_json).show_json(told)
        return
    for token in known:
        typer.echo(
            f"{token.name:20} {', '.join(token.scopes):20} until {format_time(token.expires)}"
        )


@tokens.command("remove")
def remove_token(
    name: Annotated[str, typer.Argument(help="Its name.")], file: TokenFile, as_json: AsJson = False
) -> None:
    """Make a token invalid, also for a server that is running.

    Example: fedforest tokens remove scoring --file tokens.json
    """
    from fedforest.runtime.membership.service_tokens import ServiceTokens

    ServiceTokens(file).remove(name)
    if as_json:
        Terminal(as_json).show_json({"removed": name})
    else:
        typer.echo(f"{name} is refused from now on")
