"""Commands that make a federation, bring members into it, and take them out again."""

import json
import re
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from fedforest.cli.services import Home, coordinator, party

NewHome = Annotated[Path, typer.Option("--home", help="The role's folder, made if missing.")]
Token = Annotated[
    str, typer.Argument(help="What `coordinator invite` printed; - reads it from standard input.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but results.")]
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_REVOKE_SECONDS = 10.0  # for the running coordinator to have cut somebody off


@coordinator.command("init")
def init(
    name: Annotated[str, typer.Argument(help="Its name: lower-case letters, digits, hyphens.")],
    home: NewHome,
    address: Annotated[
        str, typer.Option(help="Where parties and users connect.")
    ] = "127.0.0.1:7400",
    enrolment: Annotated[str, typer.Option(help="Where newcomers enrol.")] = "127.0.0.1:7401",
    host: Annotated[
        str, typer.Option(help="The name by which others reach this machine; stands in tokens.")
    ] = "",
) -> None:
    """Make a federation: its authority, its coordinator's certificate and settings.

    Example: fedforest coordinator init clinics --home ./coordinator --address 0.0.0.0:7400
    --enrolment 0.0.0.0:7401 --host coordinator.clinics.example
    """
    from fedforest.runtime.coordinator_home import make_coordinator
    from fedforest.runtime.homes import CoordinatorSettings

    make_coordinator(
        home, name, CoordinatorSettings(address=address, enrolment=enrolment, host=host)
    )
    typer.echo(f"Federation {name} is in {home}. Next:")
    typer.echo(f"  fedforest coordinator start --home {home}")
    typer.echo(f"  fedforest coordinator invite NAME --home {home}")


@coordinator.command("invite")
def invite(
    name: Annotated[str, typer.Argument(help="Who is invited.")],
    home: Home,
    user: Annotated[bool, typer.Option("--user", help="A user, not a party.")] = False,
    valid: Annotated[str, typer.Option(help="How long: 30m, 12h, 2d.")] = "24h",
) -> None:
    """Print a token that lets one newcomer in, once. Send it by a way that others do not read.

    Example: fedforest coordinator invite bank --home ./coordinator --valid 2h
    """
    from fedforest.runtime.coordinator_home import load_members, public_addresses

    role: Literal["user", "party"] = "user" if user else "party"
    addresses = public_addresses(home)
    typer.echo(load_members(home).invite(role, name, addresses, _read_duration(valid)))
    how = "fedforest join TOKEN" if user else "fedforest party join TOKEN --home FOLDER"
    typer.echo(f"Good once, within {valid}; {name} runs: {how}", err=True)


@coordinator.command("parties")
def parties(home: Home, as_json: AsJson = False) -> None:
    """List who belongs to the federation, until when, and who is connected now.

    Example: fedforest coordinator parties --home ./coordinator
    """
    from fedforest.runtime.coordinator_home import describe_members

    described = describe_members(home)
    if as_json:
        typer.echo(json.dumps(described, indent=2))
        return
    if not described["running"]:
        typer.echo("The coordinator is not running.")
    if not described["members"]:
        typer.echo("Nobody has joined yet; invite with `fedforest coordinator invite NAME`.")
    for member in described["members"]:
        state = "connected" if member["connected"] else "not connected"
        typer.echo(
            f"{member['role']:6} {member['name']:20} since {member['since'][:10]}  certificate "
            f"until {member['expires'][:16]}  {state}".rstrip()
        )
    for identity in described["revoked"]:
        typer.echo(f"revoked {identity}")


@coordinator.command("revoke")
def revoke(name: Annotated[str, typer.Argument(help="Who is let in no more.")], home: Home) -> None:
    """Refuse a member for ever; a running coordinator cuts its open connections at once.

    Example: fedforest coordinator revoke bank --home ./coordinator
    """
    from fedforest.runtime.coordinator_home import load_members
    from fedforest.runtime.presence import read_presence

    gone = set(map(str, load_members(home).revoke(name)))
    deadline = time.monotonic() + _REVOKE_SECONDS
    while (present := read_presence(home)) is not None and not gone <= set(present.revoked):
        if time.monotonic() > deadline:
            typer.echo("The running coordinator has not confirmed it; see its log.", err=True)
            raise typer.Exit(1)
        time.sleep(0.05)
    for identity in sorted(gone):
        typer.echo(f"{identity} is refused from now on")


@party.command("join")
def join(token: Token, home: NewHome, quiet: Quiet = False) -> None:
    """Enrol with an invitation; the private key is made here and never leaves.

    Example: fedforest party join fedforest-invitation-... --home ./bank
    """
    from fedforest.masking.key_agreement import fingerprint
    from fedforest.runtime.homes import load_identity
    from fedforest.runtime.joining import join as enrol

    invitation = enrol(_read_token(token), "party", home)
    own = fingerprint(load_identity(home).public)
    if quiet:
        typer.echo(own)
        return
    typer.echo(f"{invitation.name} belongs to {invitation.federation} now. Its fingerprint is")
    typer.echo(f"  {own}")
    typer.echo("Tell it to the other parties by telephone or in person, and pin theirs:")
    typer.echo(f"  fedforest party trust NAME FINGERPRINT --home {home}")


@party.command("identity")
def identity(home: Home, as_json: AsJson = False) -> None:
    """Print the fingerprint by which other parties know this one.

    Example: fedforest party identity --home ./bank
    """
    from fedforest.masking.key_agreement import fingerprint
    from fedforest.runtime.homes import load_credentials, load_identity

    name = load_credentials(home).identity.name
    own = fingerprint(load_identity(home).public)
    typer.echo(json.dumps({"name": name, "fingerprint": own}) if as_json else own)


@party.command("trust")
def trust(
    name: Annotated[str, typer.Argument(help="The other party.")],
    pin: Annotated[str, typer.Argument(help="Its fingerprint, confirmed by other means.")],
    home: Home,
    replace: Annotated[bool, typer.Option("--replace", help="Its key is a new one.")] = False,
) -> None:
    """Pin another party's fingerprint; masked, ring and shared sums and alignment need everybody's.

    Example: fedforest party trust shop mzxw-6ytb-... --home ./bank
    """
    from fedforest.runtime.homes import PARTY_FILE, PartySettings, read_settings
    from fedforest.runtime.pins import Pins

    settings = read_settings(home, PARTY_FILE, PartySettings)
    Pins(home, settings.pins).trust(name, pin, replace=replace)
    typer.echo(f"{name} is trusted by that fingerprint")


def join_as_user(
    token: Token,
    home: Annotated[
        Path | None, typer.Option(help="The profile's folder; by default named as the federation.")
    ] = None,
) -> None:
    """Enrol as a user, who may order trainings and predictions.

    Example: fedforest join fedforest-invitation-...
    """
    from fedforest.runtime.homes import profiles_folder
    from fedforest.runtime.invitations import Invitation
    from fedforest.runtime.joining import join as enrol

    text = _read_token(token)
    invitation = Invitation.of_token(text)
    folder = home if home is not None else profiles_folder() / invitation.federation
    enrol(text, "user", folder)
    name = str(home) if home is not None else invitation.federation
    typer.echo(f"{invitation.name} may give orders to {invitation.federation}; transport={name!r}")


def _read_token(token: str) -> str:
    return sys.stdin.readline() if token == "-" else token


def _read_duration(text: str) -> float:
    matched = re.fullmatch(r"([0-9]{1,4})([smhd])", text)
    if matched is None:
        raise typer.BadParameter(
            "it is a number and s, m, h or d, such as 12h", param_hint="--valid"
        )
    return float(matched[1]) * _UNITS[matched[2]]
