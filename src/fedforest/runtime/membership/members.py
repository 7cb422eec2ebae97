"""The membership of a federation: its authority, invitations, members and revoked identities.

The files are in the coordinator's folder; the running coordinator and an operator's commands change
them, one at a time:

    authority/         the key that signs certificates
    invitations.json   digests of the tokens of invitations
    members.json       each member, its key, and the expiry of its certificate
    revoked.json       identities that are refused from then on, also on open connections
"""

import fcntl
import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import msgspec

from fedforest.errors import ConfigurationError, FederationError
from fedforest.runtime.event_log import log_event
from fedforest.runtime.membership.invitations import Invitation, Invitations, InvitedRole
from fedforest.runtime.membership.revocations import read_revoked, sign_revocation
from fedforest.runtime.membership.user_roles import DEFAULT_ROLE, UserRole
from fedforest.runtime.messages.revocations import Revocation
from fedforest.runtime.recovery.run_store import write_file
from fedforest.transport.authority import Authority, make_authority
from fedforest.transport.enrolment import Application
from fedforest.transport.identity import Identity, parse_identity
from fedforest.transport.tls import (
    Credentials,
    digest_certificate,
    digest_of_key,
    key_of,
    read_request,
)

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 30.0

_LOG = logging.getLogger(__name__)
Kind = TypeVar("Kind")


class Member(msgspec.Struct, frozen=True):
    """A member: a party or a user that enrolled."""

    role: InvitedRole
    name: str
    key: str  # digest of the public key that its certificates are for
    since: str
    expires: str
    user_role: UserRole = DEFAULT_ROLE  # of a user


class Membership:
    """The members of one federation, in its coordinator's folder."""

    def __init__(self, home: Path, certificate_days: float = CERTIFICATE_DAYS) -> None:
        self._home = home
        self._authority = Authority.load(home / "authority")
        self._life = timedelta(days=certificate_days)
        self._invitations = Invitations(home)
        self._signed: dict[Identity, Revocation] = {}
        self._refused: tuple[object, set[Identity]] = (None, set())  # stamp of the file, contents

    @classmethod
    def create(cls, home: Path, federation: str) -> "Membership":
        """Create a federation: its authority, and the coordinator's own certificate."""
        if (home / "authority").exists():
            raise ConfigurationError(f"{home} holds a federation already; choose another folder")
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = make_authority(federation, timedelta(days=AUTHORITY_DAYS))
        life = timedelta(days=CERTIFICATE_DAYS)
        authority.issue("coordinator", "coordinator", life).save(home / "tls")
        authority.save(home / "authority")  # last, so that a killed command can be repeated
        return cls(home)

    @staticmethod
    def is_in(home: Path) -> bool:
        """Tell whether the coordinator of this folder is also the federation's authority."""
        return (home / "authority").exists()

    @property
    def federation(self) -> str:
        """The federation's name."""
        return self._authority.federation

    def invite(
        self,
        role: InvitedRole,
        name: str,
        addresses: tuple[str, str],
        valid_seconds: float,
        user_role: UserRole = DEFAULT_ROLE,
    ) -> str:
        """Make a token for one newcomer; `addresses` are of the enrolment and the coordinator."""
        identity = Identity(self.federation, role, name)
        with self._alone():
            if identity in self.revoked():
                raise ConfigurationError(
                    f"{role} {name!r} was revoked, which is for ever; invite it by another name"
                )
            secret = self._invitations.add(role, name, valid_seconds, user_role)
        fingerprint = digest_certificate(self._authority.certificate)
        return Invitation(self.federation, role, name, *addresses, fingerprint, secret).as_token()

    def enrol(self, application: Application, host: str) -> bytes:
        """Issue a certificate for a newcomer with an invitation; log success and refusal."""
        try:
            key = read_request(application.request)
            with self._alone():
                invited = self._invitations.redeem(application.secret, digest_of_key(key))
                role, name = invited.role, invited.name
                identity = Identity(self.federation, role, name)
                self._refuse_revoked(identity)
                certificate = self._authority.certify(key, identity, self._life)
                self._note(identity, digest_of_key(key), invited.user_role)
        except FederationError as error:
            log_event(
                _LOG, "enrolment refused", severity=logging.WARNING, host=host, reason=str(error)
            )
            raise
        log_event(_LOG, "enrolled", role=role, name=name, host=host)
        return certificate

    def renew(self, identity: Identity, shown: bytes) -> bytes:
        """Issue a member's next certificate, for the key of the present one."""
        key = key_of(shown)
        with self._alone():
            self._refuse_revoked(identity)
            known = {member.key for member in self.members() if _is(member, identity)}
            if digest_of_key(key) not in known:
                raise ConfigurationError(
                    f"{identity} is no member by this key; it enrolled again, or elsewhere"
                )
            certificate = self._authority.certify(key, identity, self._life)
            self._note(identity, digest_of_key(key))
        log_event(_LOG, "renewed", role=identity.role, name=identity.name)
        return certificate

    def renew_own(self, credentials: Credentials) -> bytes:
        """Issue the coordinator's own next certificate."""
        return self._authority.certify(
            key_of(credentials.certificate), credentials.identity, self._life
        )

    def members(self) -> list[Member]:
        """List the members that are not revoked, by role and name."""
        gone = self.revoked()
        kept = self._load("members.json", list[Member], [])
        return sorted(
            (member for member in kept if not any(_is(member, identity) for identity in gone)),
            key=lambda member: (member.role, member.name),
        )

    def parties(self) -> list[str]:
        """List the names of all parties that are not revoked."""
        return [member.name for member in self.members() if member.role == "party"]

    def users(self) -> dict[str, UserRole]:
        """Return the role of every user that is not revoked."""
        return {member.name: member.user_role for member in self.members() if member.role == "user"}

    def grant(self, name: str, user_role: UserRole) -> None:
        """Change the role of a user; a running coordinator goes by it at once."""
        with self._alone():
            check_user(name, self.users())
            kept = self._load("members.json", list[Member], [])
            changed = [
                msgspec.structs.replace(member, user_role=user_role)
                if (member.role, member.name) == ("user", name)
                else member
                for member in kept
            ]
            write_file(self._home / "members.json", msgspec.json.encode(changed))
        log_event(_LOG, "granted", name=name, role=user_role)

    def revoke(self, name: str) -> list[Identity]:
        """Revoke all roles of a member for good, and delete its invitations."""
        with self._alone():
            found = [
                Identity(self.federation, member.role, member.name)
                for member in self.members()
                if member.name == name
            ]
            if not found:
                raise ConfigurationError(
                    f"nobody called {name!r} is a member; see `coordinator parties`"
                )
            texts = sorted({*map(str, self.revoked()), *map(str, found)})
            write_file(self._home / "revoked.json", msgspec.json.encode(texts))
            for identity in found:
                self._invitations.cancel(identity.role, name)  # type: ignore[arg-type] # a member's
        return found

    def revocations(self) -> list[Revocation]:
        """Return all revocations, signed for parties to keep."""
        for identity in self.revoked() - self._signed.keys():
            self._signed[identity] = sign_revocation(identity, self._authority.key)
        return [self._signed[identity] for identity in sorted(self._signed, key=str)]

    def recall(self, revocations: Collection[Revocation]) -> set[Identity]:
        """Revoke again who was revoked before this folder was restored; return who that is.

        Parties name them; what this authority did not sign is refused.
        """
        told = set(read_revoked(revocations, self._authority.certificate))
        with self._alone():
            forgotten = told - self.revoked()
            texts = sorted({*map(str, self.revoked()), *map(str, told)})
            if forgotten:
                write_file(self._home / "revoked.json", msgspec.json.encode(texts))
            for identity in forgotten:
                self._invitations.cancel(identity.role, identity.name)  # type: ignore[arg-type] # a member's
        return forgotten

    def revoked(self) -> set[Identity]:
        """Return all revoked identities."""
        return set(map(parse_identity, self._load("revoked.json", list[str], [])))

    def is_revoked(self, identity: Identity) -> bool:
        """Tell whether a member was revoked by now; cheap enough to ask at every call."""
        try:
            state = (self._home / "revoked.json").stat()
        except FileNotFoundError:
            return False
        stamp = (state.st_ino, state.st_mtime_ns, state.st_size)  # the file only grows
        if stamp != self._refused[0]:
            self._refused = (stamp, self.revoked())
        return identity in self._refused[1]

    def _refuse_revoked(self, identity: Identity) -> None:
        if identity in self.revoked():
            raise ConfigurationError(f"{identity} was revoked")

    def _note(self, identity: Identity, key: str, user_role: UserRole | None = None) -> None:
        """Note a certificate; a renewed one (without `user_role`) keeps the role of its user."""
        now = datetime.now(UTC)
        kept = self._load("members.json", list[Member], [])
        known = next((member for member in kept if _is(member, identity)), None)
        member = Member(
            identity.role,  # type: ignore[arg-type] # coordinators are not enrolled
            identity.name,
            key,
            _text(now) if known is None else known.since,
            _text(now + self._life),
            user_role or (DEFAULT_ROLE if known is None else known.user_role),
        )
        others = [other for other in kept if not _is(other, identity)]
        write_file(self._home / "members.json", msgspec.json.encode([*others, member]))

    def _load(self, name: str, kind: type[Kind], missing: Kind) -> Kind:
        path = self._home / name
        if not path.exists():
            return missing
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except msgspec.DecodeError:
            raise ConfigurationError(f"{path} is damaged; restore it from a copy") from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the files against other threads and processes."""
        with (self._home / "membership.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def check_members(names: Iterable[str], members: Collection[str]) -> None:
    """Refuse a request that names a party which is not a member."""
    for name in names:
        if name not in members:
            close = get_close_matches(name, members, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            error = ConfigurationError(
                f"{name!r} is no party of this federation, or was revoked; {hint}"
                f"its parties are: {', '.join(map(repr, sorted(members))) or 'none'}"
            )
            error.party = name
            raise error


def check_user(name: str, users: Collection[str]) -> None:
    """Refuse a request that names a user who is not a member."""
    if name not in users:
        close = get_close_matches(name, users, 1)
        hint = f"; did you mean {close[0]!r}?" if close else "; see `coordinator parties`"
        raise ConfigurationError(f"there is no user {name!r} in this federation{hint}")


def _is(member: Member, identity: Identity) -> bool:
    return (member.role, member.name) == (identity.role, identity.name)


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
