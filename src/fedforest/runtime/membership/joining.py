"""Join a federation with an invitation.

The key is on the newcomer's disk before the coordinator hears of it. The settings file, which marks
a folder as a member's, is written last. A newcomer that is killed in between joins again with the
same token.
"""

import json
from pathlib import Path

from fedforest.errors import ConfigurationError
from fedforest.runtime.disclosure.egress_ledger import Departure, EgressLedger
from fedforest.runtime.membership.homes import PARTY_FILE, PROFILE_FILE, make_keys
from fedforest.runtime.membership.invitations import Invitation, InvitedRole
from fedforest.runtime.recovery.run_store import write_file
from fedforest.transport.enrolment import Application, apply
from fedforest.transport.identity import Identity
from fedforest.transport.tls import Credentials, load_key, make_request

_SETTINGS = {"party": PARTY_FILE, "user": PROFILE_FILE}
_REVEALS = "the public key of the party's certificate, and that it has the invitation"
_COMMAND = {"party": "fedforest party join", "user": "fedforest join"}


def join(token: str, role: InvitedRole, home: Path) -> Invitation:
    """Enrol in this role with a folder; the private key is created there and stays there."""
    invitation = Invitation.of_token(token)
    if invitation.role != role:
        raise ConfigurationError(
            f"the invitation is for a {invitation.role}, not for a {role}; use "
            f"`{_COMMAND[invitation.role]}`"
        )
    settings = home / _SETTINGS[role]
    if settings.exists():
        raise ConfigurationError(f"{home} belongs to a member already; choose another folder")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = load_key(home / "tls")
    application = Application(invitation.secret, make_request(key))
    if role == "party":
        make_keys(home)
        with EgressLedger(home, invitation.name) as ledger:
            ledger.record(Departure("sent", "Application", _REVEALS, len(application.request)))
    credentials = _enrol(invitation, key, application)
    credentials.save(home / "tls")
    coordinator = json.dumps(invitation.coordinator)
    write_file(settings, f"# written by `{_COMMAND[role]}`\ncoordinator = {coordinator}\n".encode())
    return invitation


def _enrol(invitation: Invitation, key: bytes, application: Application) -> Credentials:
    certificate, authority = apply(
        invitation.enrolment, invitation.federation, invitation.fingerprint, application
    )
    credentials = Credentials(certificate, key, authority)
    credentials.check()
    wanted = Identity(invitation.federation, invitation.role, invitation.name)
    if credentials.identity != wanted:
        raise ConfigurationError(
            f"the coordinator issued a certificate for {credentials.identity}, not for {wanted}; "
            "ask its operator"
        )
    return credentials
