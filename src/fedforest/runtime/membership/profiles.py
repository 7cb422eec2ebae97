"""Choose a user's profile: the one that is named, or the only one there is."""

import os
from pathlib import Path

from fedforest.errors import ConfigurationError
from fedforest.extras import import_extra
from fedforest.runtime.membership.homes import HOME_VARIABLE, find_profile

PROFILE_VARIABLE = "FEDFOREST_PROFILE"


def choose_profile(name: str | None) -> Path:
    """Find a profile's folder by name or folder, else by the environment, else the only one."""
    import_extra("fedforest.transport.grpc.client", "a federation")  # profiles are useless without
    wanted = name or os.environ.get(PROFILE_VARIABLE)
    if wanted:
        return find_profile(wanted)
    folder = Path(os.environ.get(HOME_VARIABLE, "~/.fedforest")).expanduser() / "profiles"
    known = sorted(path.parent for path in folder.glob("*/profile.toml"))
    if len(known) == 1:
        return known[0]
    names = ", ".join(repr(path.name) for path in known)
    there = f"there are several profiles ({names})" if known else f"there is no profile in {folder}"
    raise ConfigurationError(
        f"{there}; say which federation you mean with --profile NAME or FOLDER, or with the "
        f"environment variable {PROFILE_VARIABLE}"
    )
