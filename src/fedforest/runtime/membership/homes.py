"""The folders of coordinators, parties and users: settings, certificates, keys.

    coordinator   coordinator.toml  tls/  runs/  models/  authority/, members: membership.py
    party         party.toml        tls/  runs/  models/  keys/  pins.json  policy.toml
                  catalogue/  budgets/  ledger/
    user          profile.toml      tls/

A party's keys are made when it joins and never leave its folder; lost ones are never made anew by
themselves.
"""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.limits import read_memory
from fedforest.masking.key_agreement import IdentityKey
from fedforest.runtime.membership.run_limits import LimitsOfUsers
from fedforest.runtime.recovery.disk import sync_folder
from fedforest.runtime.recovery.run_store import write_file, write_files
from fedforest.transport.tls import Credentials

if TYPE_CHECKING:  # these bring numba, which commands about members can do without
    from fedforest.runtime.messages.roles import PartyKeys

COORDINATOR_FILE = "coordinator.toml"
PARTY_FILE = "party.toml"
PROFILE_FILE = "profile.toml"
HOME_VARIABLE = "FEDFOREST_HOME"
_ADDRESS = re.compile(r"[^\s/:]+:[0-9]{1,5}|\[[0-9a-f:]+\]:[0-9]{1,5}")
_SECRET_BYTES = 32
_RESTORE = (
    "restore it from a copy of the party's folder. It is never made anew by itself: other parties "
    "know this one by its keys, and its permanent noisy answers come from them"
)

Settings = TypeVar("Settings", bound="SettingsFile")


class SettingsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of settings files."""


class CoordinatorSettings(SettingsFile, frozen=True):
    """`coordinator.toml`."""

    address: str = "127.0.0.1:7400"  # where members connect
    enrolment: str = "127.0.0.1:7401"  # where newcomers enrol with their invitations
    host: str = ""  # the name by which others reach this machine; empty: as in the addresses
    # the life of certificates; holders renew them when a third of it is left
    certificate_days: Annotated[float, msgspec.Meta(gt=0, le=3650)] = 30.0
    patience_seconds: float = 60.0  # for a party that is away, in one exchange
    threads: int = 2  # that work at the same time
    limits: LimitsOfUsers = LimitsOfUsers()  # of the runs of users


class PartySettings(SettingsFile, frozen=True):
    """`party.toml`."""

    coordinator: str  # its address
    pins: dict[str, str] = {}  # fingerprints of other parties' keys, confirmed by other means
    threads: int = 2  # that work at the same time
    memory_limit: str = ""  # such as "4 GB"; larger tables are read in pieces. Empty: no limit


class ProfileSettings(SettingsFile, frozen=True):
    """`profile.toml`."""

    coordinator: str  # its address


def read_settings(home: Path, name: str, kind: type[Settings]) -> Settings:
    """Read a settings file; errors name the file and what is wrong in it."""
    path = home / name
    try:
        return msgspec.toml.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def read_memory_limit(home: Path) -> int | None:
    """Return the memory for a party's tables in bytes; None without a limit or a settings file."""
    if not (home / PARTY_FILE).exists():
        return None
    return read_memory(read_settings(home, PARTY_FILE, PartySettings).memory_limit)


def load_credentials(home: Path) -> Credentials:
    """Load the certificate of a folder, its key and the federation's authority."""
    return Credentials.load(home / "tls")


def load_keys(home: Path, name: str, pins: Mapping[str, str]) -> "PartyKeys":
    """Load a party's key and lasting secret."""
    from fedforest.runtime.messages.roles import PartyKeys  # noqa: PLC0415 - see above

    lasting = _load_secret(home / "keys" / "lasting")
    return PartyKeys(name, load_identity(home), lasting, pins)


def load_identity(home: Path) -> IdentityKey:
    """Load the key by which other parties know this one."""
    private = _load_secret(home / "keys" / "identity")
    return IdentityKey.from_randomness(lambda _: private)


def make_keys(home: Path) -> None:
    """Make the keys of a party that never had any; keys that are there stay."""
    folder = home / "keys"
    if not folder.exists():
        if (home / "runs").exists():  # a party that worked before had keys
            raise ConfigurationError(f"{folder} is missing; {_RESTORE}")
        draft = home / "keys.draft"  # both keys or none
        draft.mkdir(mode=0o700, parents=True, exist_ok=True)
        keys = {name: secrets.token_bytes(_SECRET_BYTES) for name in ("lasting", "identity")}
        write_files(draft, keys)
        draft.replace(folder)
        sync_folder(home)


def replace_identity(home: Path) -> None:
    """Make a new key by which other parties know this one; the lasting secret stays."""
    _load_secret(home / "keys" / "lasting")
    load_identity(home)
    write_file(home / "keys" / "identity", secrets.token_bytes(_SECRET_BYTES))


def _load_secret(path: Path) -> bytes:
    if not path.exists():
        raise ConfigurationError(
            f"{path} is missing; {_RESTORE}"
            if path.parent.exists() or (path.parents[1] / "runs").exists()
            else f"there are no keys in {path.parent}; make them with `fedforest party identity "
            f"--new --home {path.parents[1]}`"
        )
    secret = path.read_bytes()
    if len(secret) != _SECRET_BYTES:
        raise ConfigurationError(f"{path} is damaged; restore it from a copy")
    return secret


def profiles_folder() -> Path:
    """Return the folder of users' profiles, each in a folder of its name."""
    return Path(os.environ.get(HOME_VARIABLE, "~/.fedforest")).expanduser() / "profiles"


def find_profile(transport: Any) -> Path:
    """Find the folder of a user's profile by folder, name or coordinator's address."""
    if not isinstance(transport, str) or not transport:
        raise ConfigurationError(
            f"transport is {transport!r}; it must be None, or the name, folder or address of a "
            "profile"
        )
    if (Path(transport) / "profile.toml").exists():
        return Path(transport)
    profiles = profiles_folder()
    if (profiles / transport / "profile.toml").exists():
        return profiles / transport
    known = sorted(path.parent for path in profiles.glob("*/profile.toml"))
    if _ADDRESS.fullmatch(transport):
        for folder in known:
            settings = read_settings(folder, "profile.toml", ProfileSettings)
            if settings.coordinator == transport:
                return folder
    names = ", ".join(repr(folder.name) for folder in known) or "none"
    raise ConfigurationError(
        f"there is no profile for transport {transport!r} in {profiles}; there are: {names}. "
        "`fedforest join` makes one from the invitation that the coordinator's owner sends"
    )
