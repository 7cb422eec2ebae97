"""Revocations as parties keep them, so that no copy of a coordinator's folder lets members back in.

    revoked.json    in a party's folder: whom the authority revoked, with its signature

A party only adds to them. It answers in the name of no revoked user, and tells a coordinator that
names fewer: one that was restored from an older copy hears so of what it forgot.
"""

from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from fedforest.errors import ConfigurationError, StorageError
from fedforest.runtime.messages.revocations import Revocation
from fedforest.runtime.recovery.run_store import write_file
from fedforest.transport.identity import Identity, Role, parse_identity
from fedforest.transport.signing import is_signed, sign
from fedforest.transport.tls import read_file

PURPOSE = b"fedforest revocation 1"
_FILE = "revoked.json"


def sign_revocation(identity: Identity, key: bytes) -> Revocation:
    """Sign a revocation with the key (PEM) of the authority."""
    text = str(identity)
    return Revocation(text, sign(key, PURPOSE, text.encode()))


def read_revoked(revocations: Iterable[Revocation], authority: bytes) -> dict[Identity, Revocation]:
    """Return whom an authority (PEM) revoked; raises `ConfigurationError` if it did not sign."""
    found = {}
    for each in revocations:
        if not is_signed(authority, PURPOSE, each.identity.encode(), each.signature):
            raise ConfigurationError.stating(
                "a revocation is not signed by the authority of this federation"
            )
        found[parse_identity(each.identity)] = each
    return found


class KeptRevocations:
    """The revocations that one party heard of."""

    def __init__(self, home: Path) -> None:
        self._path = home / _FILE
        self._authority = home / "tls" / "authority.pem"
        self._kept = self._load()

    def has(self, role: Role, name: str) -> bool:
        """Tell whether this member was revoked."""
        return any((known.role, known.name) == (role, name) for known in self._kept)

    def add(self, told: Collection[Revocation]) -> list[Revocation]:
        """Keep what a coordinator names; return what it did not name."""
        unknown = [each for each in told if each not in self._kept.values()]
        new = read_revoked(unknown, read_file(self._authority)) if unknown else {}
        named = {each.identity for each in told}
        unnamed = [each for each in self._kept.values() if each.identity not in named]
        if new.keys() - self._kept.keys():
            self._kept = {**new, **self._kept}
            write_file(self._path, msgspec.json.encode(list(self._kept.values())))
        return unnamed

    def _load(self) -> dict[Identity, Revocation]:
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=list[Revocation])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError):
            raise StorageError(f"{self._path} cannot be read; restore a copy") from None
        return {parse_identity(each.identity): each for each in kept}
