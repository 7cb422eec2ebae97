"""The certificate of a role, its key, and the files that only their owner may read."""

import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from fedforest.errors import FederationError
from fedforest.runtime.doctor.findings import Diagnoses, good, problem, warning
from fedforest.transport.tls import Credentials, read_certificate, read_file

Clock = Callable[[], float]
_SECRET_FILES = ("tls/key.pem", "keys/identity", "keys/lasting", "authority/authority.key")
_AGAIN = (
    "ask the coordinator's operator for an invitation, join in a new folder and move keys/, "
    "catalogue/, models/, budgets/ and ledger/ there"
)


def examine_certificate(home: Path, clock: Clock = time.time) -> Diagnoses:
    """Examine the certificate of a folder: that it is there, whole, and good at this moment."""
    folder = home / "tls"
    try:
        credentials = Credentials(
            *(read_file(folder / f"{name}.pem") for name in ("certificate", "key", "authority"))
        )
        certificate = read_certificate(credentials.certificate)
        credentials.check()
    except FederationError as error:
        yield problem(
            "certificate",
            f"the certificate in {folder} cannot be used: {error}",
            "no other role lets this one in without it",
            "restore tls/ from a copy of this folder, or " + _AGAIN,
        )
        return
    now, who = datetime.fromtimestamp(clock(), UTC), credentials.identity
    expires = f"{credentials.expires:%Y-%m-%d %H:%M} UTC"
    if certificate.not_valid_before_utc > now:
        yield problem(
            "clock",
            f"the certificate begins at {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC, and "
            f"the clock of this machine says {now:%Y-%m-%d %H:%M} UTC",
            "the clock is behind, and every peer's certificate looks as if it were of the future",
            "set the clock, and keep it right by NTP (`timedatectl set-ntp true`)",
        )
    elif credentials.expires <= now:
        yield problem(
            "certificate",
            f"the certificate of {who} expired at {expires}",
            "an expired certificate opens no connection, and cannot be renewed",
            f"see whether the clock is right ({now:%Y-%m-%d %H:%M} UTC here); if it is, {_AGAIN}",
        )
    elif credentials.renewal_due <= now:
        yield warning(
            "certificate",
            f"the certificate of {who} expires at {expires} and was to be renewed before now",
            "a role renews its certificate while it runs, when a third of its life is left",
            "start the service and look into its log for `not renewed`; as a user, run `fedforest "
            "renew`",
        )
    else:
        yield good("certificate", f"the certificate of {who} is good until {expires}")


def examine_modes(home: Path) -> Diagnoses:
    """Find keys that others than their owner can read."""
    there = [home / name for name in _SECRET_FILES if (home / name).exists()]
    is_open = [path for path in there if stat.S_IMODE(path.stat().st_mode) & 0o077]
    for path in is_open:
        yield problem(
            "key mode",
            f"{path} may be read by others than its owner",
            "who reads a key can act as this role",
            f"chmod 600 {path}; if others have accounts on this machine, change the key, too",
        )
    if there and not is_open:
        yield good("key mode", "keys can be read by their owner only")
