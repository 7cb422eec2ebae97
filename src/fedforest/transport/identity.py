"""Identities in a federation: the names that certificates hold and peers are authorised by.

An identity is the URI `fedforest:<federation>/<role>/<name>`. Names are checked when an identity is
made, so that they can stand in logs, paths and addresses. No cryptography here.
"""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from fedforest.errors import ConfigurationError

Role = Literal["coordinator", "party", "user"]

_FEDERATION = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # also a label of a host name
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_URI = re.compile(r"fedforest:([^/]*)/([^/]*)/([^/]*)")


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a member; names are checked: they stand in logs, paths and addresses."""

    federation: str
    role: Role
    name: str

    def __post_init__(self) -> None:
        if not _FEDERATION.fullmatch(self.federation):
            raise ConfigurationError(
                "the name of a federation has 1 to 63 lower-case letters, digits and inner hyphens"
            )
        if self.role not in get_args(Role):
            raise ConfigurationError(f"a role is one of {', '.join(get_args(Role))}")
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"the name of a {self.role} has 1 to 64 letters, digits and inner '.', '_' or '-'"
            )

    def __str__(self) -> str:
        return f"fedforest:{self.federation}/{self.role}/{self.name}"


def parse_identity(uri: str) -> Identity:
    """The identity that a URI names."""
    matched = _URI.fullmatch(uri)
    if matched is None:
        raise ConfigurationError("the certificate holds no identity of a federation")
    return Identity(*matched.groups())  # type: ignore[arg-type] # checks the role itself


def host_name_of_coordinator(federation: str) -> str:
    """The host name that only coordinators' certificates hold, wherever they run."""
    return f"coordinator.{federation}.fedforest"
