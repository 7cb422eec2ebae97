"""A new key for a party; other parties pin its fingerprint before they work with it again."""

from pathlib import Path

from fedforest.errors import ConfigurationError
from fedforest.runtime.disclosure.egress_ledger import EgressLedger
from fedforest.runtime.membership.homes import make_keys, replace_identity
from fedforest.runtime.recovery.run_store import RunStore


def renew_identity(home: Path, name: str) -> None:
    """Make a new identity key; a party that never had keys gets its first ones.

    A run under way agreed on masks by the old key, so it must end before.
    """
    with EgressLedger(home, name):  # refused while the service runs
        if not (home / "keys").exists():
            make_keys(home)
            return
        runs = RunStore(home).unfinished() if (home / "runs").exists() else []
        if runs:
            raise ConfigurationError(
                f"{len(runs)} run(s) under way need the present key, such as {runs[0].hex()}; have "
                "them finished or cancelled first"
            )
        replace_identity(home)
