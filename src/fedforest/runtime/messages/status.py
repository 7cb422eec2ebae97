"""The state of a federation for `fedforest status`; users see less of it than operators."""

import msgspec


class MemberStatus(msgspec.Struct, frozen=True, array_like=True):
    """A party or a user; what only operators see is None or empty for others."""

    name: str
    connected: bool = False
    release: str = ""  # as a connected party says
    user_role: str = ""
    expires: str | None = None  # the certificate
    latency_seconds: float | None = None  # of a connected party, there and back


class WaitingRun(msgspec.Struct, frozen=True, array_like=True):
    """A run that is queued or worked on."""

    run: str
    name: str
    user: str
    state: str
    doing: str


class FederationStatus(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The coordinator, its parties and its queue; fields of operators are None for others."""

    release: str
    protocol_version: int
    now: float  # seconds since 1970, by the coordinator's clock
    started: float
    parties: list[MemberStatus]
    runs: list[WaitingRun]  # that the user may see
    n_queued: int  # of all users, queued or worked on
    users: list[MemberStatus] | None = None
    revoked: list[str] | None = None  # identities
    certificate_expires: str | None = None  # of the coordinator
    disk_free_bytes: int | None = None
    disk_bytes: int | None = None
