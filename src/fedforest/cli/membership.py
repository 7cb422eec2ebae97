"""Commands that make a federation, bring members into it, and take them out again."""

import sys
import time
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedforest.cli.services import Home, coordinator, party
from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal, read_duration
from fedforest.runtime.membership.user_roles import UserRole

if TYPE_CHECKING:
    from fedforest.runtime.membership.pins import Pins

NewHome = Annotated[Path, typer.Option("--home", help="The role's folder, made if missing.")]
TokenFile = Annotated[
    str,
    typer.Argument(
        metavar="[FILE]",
        help="A file with what `coordinator invite` printed. Without one, or with -, the token is "
        "asked for, or read from standard input.",
    ),
]
IsUser = Annotated[bool, typer.Option("--user", help="It is a user, not a party.")]
_ROLES = "viewer, service, scientist or operator."
LONGEST_LINE = 4096  # characters of a token
_REVOKE_SECONDS = 10.0  # for the running coordinator to have cut somebody off


@coordinator.command("init")
def init(  # noqa: PLR0913, PLR0917 - options of a command
    name: Annotated[str, typer.Argument(help="Its name: lower-case letters, digits, hyphens.")],
    home: NewHome,
    address: Annotated[
        str, typer.Option(help="Where parties and users connect.")
    ] = "127.0.0.1:7400",
    enrolment: Annotated[str, typer.Option(help="Where newcomers enrol.")] = "127.0.0.1:7401",
    host: Annotated[
        str, typer.Option(help="The name by which others reach this machine; stands in tokens.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Make a federation: its authority, its coordinator's certificate and settings.

    Example: fedforest coordinator init clinics --home ./coordinator --address 0.0.0.0:7400
    --enrolment 0.0.0.0:7401 --host coordinator.clinics.example
    """
    from fedforest.runtime.coordinator.home import make_coordinator
    from fedforest.runtime.membership.homes import CoordinatorSettings

    make_coordinator(
        home, name, CoordinatorSettings(address=address, enrolment=enrolment, host=host)
    )
    if as_json:
        Terminal(as_json).show_json({"federation": name, "home": str(home)})
        return
    typer.echo(f"Federation {name} is in {home}. Next:")
    typer.echo(f"  fedforest coordinator start --home {home}")
    typer.echo(f"  fedforest coordinator invite NAME --home {home}")


@coordinator.command("invite")
def invite(  # noqa: PLR0913, PLR0917 - options of a command
    name: Annotated[str, typer.Argument(help="Who is invited.")],
    home: Home,
    user: Annotated[bool, typer.Option("--user", help="A user, not a party.")] = False,
    user_role: Annotated[
        UserRole, typer.Option("--role", help="What the user may do.")
    ] = "scientist",
    valid: Annotated[str, typer.Option(help="How long: 30m, 12h, 2d.")] = "24h",
    as_json: AsJson = False,
) -> None:
    """Print a token that lets one newcomer in, once. Send it by a way that others do not read.

    Example: fedforest coordinator invite bank --home ./coordinator --valid 2h

    Example: fedforest coordinator invite ada --user --role viewer --home ./coordinator
    """
    from fedforest.runtime.coordinator.home import load_members, public_addresses

    role: Literal["user", "party"] = "user" if user else "party"
    addresses = public_addresses(home)
    seconds = read_duration(valid, "--valid")
    token = load_members(home).invite(role, name, addresses, seconds, user_role)
    if as_json:
        told = {"name": name, "role": role, "token": token, "valid_seconds": seconds}
        told |= {"user_role": user_role} if user else {}
        Terminal(as_json).show_json(told)
        return
    typer.echo(token)
    how = "fedforest join" if user else "fedforest party join --home FOLDER"
    typer.echo(f"Good once, within {valid}; {name} runs, and pastes it: {how}", err=True)


@coordinator.command("parties")
def parties(home: Home, as_json: AsJson = False) -> None:
    """List who belongs to the federation, until when, and who is connected now.

    Example: fedforest coordinator parties --home ./coordinator
    """
    from fedforest.runtime.coordinator.home import describe_members

    described = describe_members(home)
    if as_json:
        Terminal(as_json).show_json(described)
        return
    if not described["running"]:
        typer.echo("The coordinator is not running.")
    if not described["members"]:
        typer.echo("Nobody has joined yet; invite with `fedforest coordinator invite NAME`.")
    for member in described["members"]:
        state = "connected" if member["connected"] else "not connected"
        role = member["user_role"] or member["role"]
        typer.echo(
            f"{role:9} {member['name']:20} since {member['since'][:10]}  certificate "
            f"until {member['expires'][:16]}  {state}".rstrip()
        )
    for identity in described["revoked"]:
        typer.echo(f"revoked {identity}")


@coordinator.command("grant")
def grant(
    name: Annotated[str, typer.Argument(help="A user.")],
    user_role: Annotated[UserRole, typer.Argument(metavar="ROLE", help=_ROLES)],
    home: Home,
    as_json: AsJson = False,
) -> None:
    """Change what a user may do, from its next request on.

    Example: fedforest coordinator grant ada operator --home ./coordinator
    """
    from fedforest.runtime.coordinator.home import load_members

    load_members(home).grant(name, user_role)
    if as_json:
        Terminal(as_json).show_json({"name": name, "user_role": user_role})
        return
    typer.echo(f"{name} is a {user_role} from now on")


@coordinator.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="Who is let in no more.")],
    home: Home,
    as_json: AsJson = False,
) -> None:
    """Refuse a member for ever; a running coordinator cuts its open connections at once.

    Example: fedforest coordinator revoke bank --home ./coordinator
    """
    from fedforest.errors import TransportError
    from fedforest.runtime.coordinator.home import load_members
    from fedforest.runtime.membership.presence import read_presence

    gone = set(map(str, load_members(home).revoke(name)))
    deadline = time.monotonic() + _REVOKE_SECONDS
    while (present := read_presence(home)) is not None and not gone <= set(present.revoked):
        if time.monotonic() > deadline:
            raise TransportError("the running coordinator has not confirmed it; see its log")
        time.sleep(0.05)
    if as_json:
        Terminal(as_json).show_json({"revoked": sorted(gone)})
        return
    for identity in sorted(gone):
        typer.echo(f"{identity} is refused from now on")


@party.command("join")
def join(
    home: NewHome, token_file: TokenFile = "-", as_json: AsJson = False, quiet: Quiet = False
) -> None:
    """Enrol with an invitation; the private key is made here and never leaves.

    The token is no argument: everybody on this machine sees those of running commands.

    Example: fedforest party join --home ./bank

    Example: fedforest party join token.txt --home ./bank
    """
    from fedforest.masking.key_agreement import fingerprint
    from fedforest.runtime.membership.homes import load_identity
    from fedforest.runtime.membership.joining import join as enrol

    invitation = enrol(_read_token(token_file), "party", home)
    own = fingerprint(load_identity(home).public)
    if as_json:
        known = {"name": invitation.name, "federation": invitation.federation}
        Terminal(as_json).show_json({**known, "fingerprint": own})
        return
    if quiet:
        typer.echo(own)
        return
    typer.echo(f"{invitation.name} belongs to {invitation.federation} now. Its fingerprint is")
    typer.echo(f"  {own}")
    typer.echo("Tell it to the other parties by telephone or in person, and pin theirs:")
    typer.echo(f"  fedforest party trust NAME FINGERPRINT --home {home}")


@party.command("identity")
def identity(
    home: Home,
    new: Annotated[bool, typer.Option("--new", help="Make a new key first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the fingerprint by which other parties know this one.

    With --new by a new key: stop the party's service and end its runs before, and have every other
    party pin the new fingerprint (`fedforest party trust --replace`) afterwards.

    Example: fedforest party identity --home ./bank

    Example: fedforest party identity --new --home ./bank
    """
    from fedforest.masking.key_agreement import fingerprint
    from fedforest.runtime.membership.homes import load_credentials, load_identity
    from fedforest.runtime.membership.key_rotation import renew_identity

    name = load_credentials(home).identity.name
    if new:
        renew_identity(home, name)
    own = fingerprint(load_identity(home).public)
    if as_json:
        Terminal(as_json).show_json({"name": name, "fingerprint": own})
    else:
        typer.echo(own)


@party.command("trust")
def trust(  # noqa: PLR0913, PLR0917 - options of a command
    name: Annotated[str, typer.Argument(help="The other party, or the user.")],
    pin: Annotated[str, typer.Argument(help="Its fingerprint, confirmed by other means.")],
    home: Home,
    user: IsUser = False,
    replace: Annotated[bool, typer.Option("--replace", help="Its key is a new one.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Pin another party's fingerprint; masked, ring and shared sums and alignment need everybody's.

    Warns of a name that no run has named so far, where runs have named others: pins may be there
    before their parties are.

    With --user, pin the key of a user. From then on this party answers in the name of that user
    only what was signed by that key; `asker_proof = "pinned"` in policy.toml demands it of all.

    Example: fedforest party trust shop mzxw-6ytb-... --home ./bank

    Example: fedforest party trust ann k5qw-ml3a-... --user --home ./bank
    """
    if user:
        _trust_user(name, pin, home, replace=replace, terminal=Terminal(as_json, quiet))
        return
    _refuse_self(home, name, pin)
    pins = _read_pins(home)
    pins.trust(name, pin, replace=replace)
    terminal = Terminal(as_json, quiet)
    missing = sorted(pins.peers() - set(pins))
    if as_json:
        terminal.show_json({"trusted": name, "pinned": sorted(pins), "not_pinned": missing})
        return
    terminal.say(f"{name} is trusted by that fingerprint; pinned are: {', '.join(sorted(pins))}")
    if pins.peers() and name not in pins.peers():
        near = get_close_matches(name, pins.peers(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"they named {', '.join(pins.peers())}"
        terminal.say(f"Warning: no run has named a party {name!r} so far; {hint}")
    if missing:
        terminal.say(f"Runs also named, and nobody has pinned: {', '.join(missing)}")


@party.command("distrust")
def distrust(
    name: Annotated[str, typer.Argument(help="The other party, or the user.")],
    home: Home,
    user: IsUser = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Remove another party's pin: protected sums and alignment with it are refused from now on.

    For a pin that was a mistake, or a party that left. A run that has begun goes on until this
    party is started again. With --user, remove the pin of a user.

    Example: fedforest party distrust shop --home ./bank
    """
    from fedforest.runtime.membership.pins import UserPins

    pins = UserPins(home) if user else _read_pins(home)
    pins.distrust(name)
    terminal = Terminal(as_json, quiet)
    if as_json:
        terminal.show_json({"distrusted": name, "pinned": sorted(pins)})
        return
    terminal.say(f"{name} is not trusted any more; pinned are: {', '.join(sorted(pins)) or '-'}")


def _trust_user(name: str, pin: str, home: Path, *, replace: bool, terminal: Terminal) -> None:
    from fedforest.runtime.membership.pins import UserPins

    pins = UserPins(home)
    pins.trust(name, pin, replace=replace)
    if terminal.as_json:
        terminal.show_json({"trusted": name, "pinned": sorted(pins)})
        return
    terminal.say(f"user {name} is trusted by that key; pinned are: {', '.join(sorted(pins))}")


def _read_pins(home: Path) -> "Pins":
    from fedforest.runtime.membership.homes import PARTY_FILE, PartySettings, read_settings
    from fedforest.runtime.membership.pins import Pins

    return Pins(home, read_settings(home, PARTY_FILE, PartySettings).pins)


def _refuse_self(home: Path, name: str, pin: str) -> None:
    """Refuse a party's own fingerprint: a party needs no pin of itself."""
    from fedforest.errors import ConfigurationError
    from fedforest.masking.key_agreement import fingerprint
    from fedforest.runtime.membership.homes import load_credentials, load_identity

    if name == load_credentials(home).identity.name:
        raise ConfigurationError(f"{name!r} is this party itself; pin the others")
    if pin.strip().lower() == fingerprint(load_identity(home).public):
        raise ConfigurationError(
            f"this is the fingerprint of this party itself; ask who operates {name!r} for what "
            "`fedforest party identity` prints there"
        )


def join_as_user(
    token_file: TokenFile = "-",
    home: Annotated[
        Path | None, typer.Option(help="The profile's folder; by default named as the federation.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Enrol as a user, who may order trainings and predictions.

    The token is no argument: everybody on this machine sees those of running commands.

    Example: fedforest join

    Example: fedforest join token.txt
    """
    from fedforest.runtime.membership.homes import profiles_folder
    from fedforest.runtime.membership.invitations import Invitation
    from fedforest.runtime.membership.joining import join as enrol

    text = _read_token(token_file)
    invitation = Invitation.of_token(text)
    folder = home if home is not None else profiles_folder() / invitation.federation
    enrol(text, "user", folder)
    name = str(home) if home is not None else invitation.federation
    if as_json:
        known = {"name": invitation.name, "federation": invitation.federation}
        Terminal(as_json).show_json({**known, "profile": name})
        return
    typer.echo(f"{invitation.name} may give orders to {invitation.federation}; transport={name!r}")


def show_identity(profile: Profile = "", as_json: AsJson = False) -> None:
    """Print the fingerprint of your key, with which you sign what you ask of parties.

    Tell it to their owners by telephone or in person; they pin it: `fedforest party trust --user`.

    Example: fedforest identity

    Example: fedforest identity --profile clinics
    """
    from fedforest.runtime.membership.homes import load_credentials
    from fedforest.runtime.membership.profiles import choose_profile
    from fedforest.transport.signing import own_fingerprint

    credentials = load_credentials(choose_profile(profile or None))
    name, own = credentials.identity.name, own_fingerprint(credentials)
    if as_json:
        Terminal(as_json).show_json({"name": name, "fingerprint": own})
    else:
        typer.echo(own)


def _read_token(source: str) -> str:
    """Read a token from a file, from standard input, or from the user at the terminal."""
    from fedforest.runtime.membership.invitations import read_token_file

    if source != "-":
        return read_token_file(Path(source))
    if sys.stdin.isatty():
        prompt = "Token (it is not shown): "
        return str(typer.prompt(prompt, hide_input=True, err=True, prompt_suffix=""))
    return sys.stdin.readline(LONGEST_LINE)
