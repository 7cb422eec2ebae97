"""Invitations to a federation: tokens that let one newcomer in, once, until they expire.

A token holds the enrolment address and the authority's fingerprint, so that both sides are
authenticated at the first contact. The coordinator stores only a digest of the token's secret. A
token may be used again with the same key: a newcomer may be killed while it joins.
"""

import base64
import hashlib
import hmac
import os
import secrets
import stat
import time
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.runtime.membership.user_roles import DEFAULT_ROLE, UserRole
from fedforest.runtime.recovery.run_store import write_file
from fedforest.transport.identity import Identity

PREFIX = "fedforest-invitation-"
_SECRET_BYTES = 24
_CHECK_BYTES = 4
_LARGEST_FILE = 4096  # bytes
_FILE = "invitations.json"
_KEPT_SECONDS = 90 * 86400.0  # after its end; later, a refusal says that it is unknown
InvitedRole = Literal["party", "user"]


class Invitation(msgspec.Struct, frozen=True, array_like=True):
    """The content of a token."""

    federation: str
    role: InvitedRole
    name: str
    enrolment: str  # address where newcomers enrol
    coordinator: str  # address where parties and users connect afterwards
    fingerprint: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    secret: Annotated[bytes, msgspec.Meta(min_length=_SECRET_BYTES, max_length=_SECRET_BYTES)]

    def __repr__(self) -> str:
        return f"<Invitation of {self.role} {self.name!r} to {self.federation!r}>"

    def as_token(self) -> str:
        """Encode the invitation as one word of plain characters."""
        body = msgspec.msgpack.encode(self)
        return PREFIX + base64.urlsafe_b64encode(_checksum(body) + body).decode().rstrip("=")

    @classmethod
    def of_token(cls, token: str) -> "Invitation":
        """Read a token; raises `ConfigurationError` if it is invalid or incomplete."""
        text = token.strip()
        try:
            if not text.startswith(PREFIX):
                raise ValueError
            word = text.removeprefix(PREFIX)
            data = base64.urlsafe_b64decode(word + "=" * (-len(word) % 4))
            if _checksum(data[_CHECK_BYTES:]) != data[:_CHECK_BYTES]:
                raise ValueError
            invitation = msgspec.msgpack.decode(data[_CHECK_BYTES:], type=cls)
            # folders are called by these names: they are checked before any is made
            Identity(invitation.federation, invitation.role, invitation.name)
            return invitation
        except (ValueError, msgspec.DecodeError):
            raise ConfigurationError(
                "this is no invitation; paste the whole word that `coordinator invite` printed"
            ) from None


def read_token_file(path: Path) -> str:
    """Read a token from a file that only its owner can read."""
    if str(path).startswith(PREFIX):
        raise ConfigurationError(
            "a token in a command line is seen by everybody on this machine: leave it out, and "
            "paste it when it is asked for, or name a file. Ask for a new one if others work here"
        )
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigurationError(
                    f"{path} may be read by others than its owner; chmod 600 it"
                )
            return file.read(_LARGEST_FILE).decode("ascii", "replace")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None


class StoredInvitation(msgspec.Struct, frozen=True):
    """An invitation as the coordinator stores it."""

    digest: str
    role: InvitedRole
    name: str
    expires: float
    key: str = ""  # digest of the key that used it
    user_role: UserRole = DEFAULT_ROLE  # of a user


class Invitations:
    """The invitations of a coordinator, in one file of its folder.

    Callers that change them must hold the membership's lock.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / _FILE

    def add(
        self,
        role: InvitedRole,
        name: str,
        valid_seconds: float,
        user_role: UserRole = DEFAULT_ROLE,
    ) -> bytes:
        """Add an invitation; return its secret, which is not stored.

        Unused earlier invitations for the same name become invalid.
        """
        secret = secrets.token_bytes(_SECRET_BYTES)
        kept = [entry for entry in self._load() if _is_kept(entry, role, name)]
        expires = time.time() + valid_seconds
        self._save(
            [*kept, StoredInvitation(_digest(secret), role, name, expires, user_role=user_role)]
        )
        return secret

    def redeem(self, secret: bytes, key: str) -> StoredInvitation:
        """Use up an invitation for a key; raises `ConfigurationError`."""
        entries, digest = self._load(), _digest(secret)
        for number, entry in enumerate(entries):
            if not hmac.compare_digest(entry.digest, digest):
                continue
            if entry.key and entry.key != key:
                raise _refusal(f"the invitation of {entry.name!r} was used before by another key")
            if entry.expires < time.time():
                raise _refusal(f"the invitation of {entry.name!r} has expired")
            if not entry.key:
                entries[number] = msgspec.structs.replace(entry, key=key)
                self._save(entries)
            return entry
        raise _refusal("the invitation is unknown here")

    def cancel(self, role: InvitedRole, name: str) -> None:
        """Delete all invitations for this role and name."""
        self._save([entry for entry in self._load() if (entry.role, entry.name) != (role, name)])

    def _load(self) -> list[StoredInvitation]:
        if not self._path.exists():
            return []
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[StoredInvitation])
        except msgspec.DecodeError:
            raise ConfigurationError(f"{self._path} is damaged; restore it from a copy") from None

    def _save(self, entries: list[StoredInvitation]) -> None:
        write_file(self._path, msgspec.json.encode(entries))


def _is_kept(entry: StoredInvitation, role: InvitedRole, name: str) -> bool:
    is_replaced = (entry.role, entry.name) == (role, name) and not entry.key
    return not is_replaced and entry.expires > time.time() - _KEPT_SECONDS


def _refusal(what: str) -> ConfigurationError:
    return ConfigurationError(f"{what}; ask the operator for a new one")


def _digest(secret: bytes) -> str:
    return hashlib.sha256(b"fedforest invitation" + secret).hexdigest()


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(b"fedforest token" + body).digest()[:_CHECK_BYTES]
