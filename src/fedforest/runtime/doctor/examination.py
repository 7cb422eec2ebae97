"""Examine the folder of a role, or a machine without one; nothing is changed by it.

Each check is a generator of findings in a module of its own. They go on where one has failed, so
that one call tells of everything.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from fedforest.errors import FederationError
from fedforest.runtime.doctor.certificates import Clock, examine_certificate, examine_modes
from fedforest.runtime.doctor.connection import examine_connection
from fedforest.runtime.doctor.coordinator import examine_coordinator
from fedforest.runtime.doctor.disk import examine_disk
from fedforest.runtime.doctor.environment import examine_environment
from fedforest.runtime.doctor.findings import Diagnoses, Diagnosis, good, problem
from fedforest.runtime.doctor.party import examine_party, extras_of_party
from fedforest.runtime.membership.homes import (
    COORDINATOR_FILE,
    PARTY_FILE,
    PROFILE_FILE,
    CoordinatorSettings,
    PartySettings,
    ProfileSettings,
    SettingsFile,
    read_settings,
)

_SETTINGS: dict[str, tuple[str, type[SettingsFile]]] = {
    COORDINATOR_FILE: ("coordinator", CoordinatorSettings),
    PARTY_FILE: ("party", PartySettings),
    PROFILE_FILE: ("user", ProfileSettings),
}


def examine(home: Path | None, clock: Clock = time.time) -> Iterator[Diagnosis]:
    """Examine a role's folder and the machine; only the machine where `home` is None."""
    if home is None:
        yield from examine_environment(())
        return
    file = next((name for name in _SETTINGS if (home / name).exists()), None)
    if file is None:
        yield problem(
            "settings",
            f"{home} holds none of {', '.join(_SETTINGS)}",
            "it is no folder of a coordinator, a party or a user",
            "name the right folder with --home; `fedforest party join` and `fedforest join` make "
            "one",
        )
        return
    role = _SETTINGS[file][0]
    needed = extras_of_party(home) if role == "party" else {"federation"}
    # users order: what trains and predicts is at the other roles
    environment = list(examine_environment(needed, calls_kernels=role != "user"))
    yield from environment
    yield from examine_disk(home)
    yield from examine_modes(home)
    yield from examine_certificate(home, clock)
    if role == "party":
        yield from examine_party(home)
    has_grpc = not any("'federation'" in each.what for each in environment)
    yield from _examine_settings(home, file, clock, has_grpc=has_grpc)


def _examine_settings(home: Path, file: str, clock: Clock, *, has_grpc: bool) -> Diagnoses:
    """Examine the settings, and, where they can be read, what they name."""
    role, kind = _SETTINGS[file]
    try:
        settings = read_settings(home, file, kind)
    except FederationError as error:
        yield problem("settings", str(error), f"a {role} does not start with it", "correct it")
        return
    yield good("settings", f"{home / file} has no mistakes")
    if role == "coordinator":
        yield from examine_coordinator(home, clock)
    elif has_grpc and isinstance(settings, PartySettings | ProfileSettings):
        yield from examine_connection(home, settings.coordinator, clock)
