"""The answers of the HTTP API of a federation, as its OpenAPI description shows them.

Times are seconds since 1970. What a user may not see is left out or null.
"""

from typing import Any, Self

import msgspec

from fedforest.reports.facts import describe
from fedforest.runtime.messages.orders import StateName
from fedforest.runtime.messages.results import (
    ModelState,
    RunDetails,
    RunState,
    StandingState,
    ValidationReport,
)
from fedforest.runtime.messages.status import FederationStatus, MemberStatus


class RunEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list."""

    run: str
    name: str
    user: str
    protocol: str
    state: StateName
    doing: str
    created: float
    ended: float | None
    exchanges: int
    bytes: int

    @classmethod
    def of(cls, state: RunState) -> Self:
        """Describe the state of a run."""
        return cls(
            run=state.run,
            name=state.name,
            user=state.user,
            protocol=state.protocol,
            state=state.state,  # type: ignore[arg-type] # as the history knows it
            doing=state.doing,
            created=state.created,
            ended=state.ended,
            exchanges=state.n_exchanges,
            bytes=state.n_bytes,
        )


class RunEntries(msgspec.Struct, frozen=True):
    """Runs, the oldest first."""

    runs: list[RunEntry]


class RunPage(RunEntry, frozen=True, kw_only=True):
    """Everything about a run: the request, its figures, scores, and who learned what."""

    order: dict[str, Any]
    started: float | None
    bytes_to: dict[str, int]
    bytes_from: dict[str, int]
    model: str | None
    rows: int | None
    trees: int | None
    classes: list[Any] | None
    validation: dict[str, Any] | None
    leakage: dict[str, Any] | None
    plan: dict[str, Any] | None
    shared_with: list[str]

    @classmethod
    def of_details(cls, details: RunDetails) -> Self:
        """Describe a run."""
        summary = msgspec.structs.asdict(RunEntry.of(details.state))
        report: ValidationReport | None = details.validation
        return cls(
            **summary,
            order=details.order,
            started=details.started,
            bytes_to=details.bytes_to,
            bytes_from=details.bytes_from,
            model=details.model,
            rows=details.n_rows,
            trees=details.n_trees,
            classes=None if details.classes is None else list(details.classes),
            validation=None if report is None else describe(details)["validation"],
            leakage=details.leakage,
            plan=details.plan,
            shared_with=details.shared_with,
        )


class RunBegun(msgspec.Struct, frozen=True):
    """A run that was accepted; it goes on by itself."""

    run: str


class ModelSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A model of a finished run, whose id it has."""

    id: str
    name: str
    user: str
    protocol: str
    state: str
    created: float | None
    withdrawn_by: str
    withdrawn_at: float | None

    @classmethod
    def of(cls, model: ModelState) -> Self:
        """Describe a model."""
        return cls(
            id=model.model,
            name=model.name,
            user=model.user,
            protocol=model.protocol,
            state=model.state,
            created=model.created,
            withdrawn_by=model.withdrawn_by,
            withdrawn_at=model.withdrawn_at,
        )


class ModelSummaries(msgspec.Struct, frozen=True):
    """Models, the oldest first."""

    models: list[ModelSummary]


class StandingAlignment(msgspec.Struct, frozen=True):
    """A standing alignment, whose rows may be predicted by number or id."""

    name: str
    data: dict[str, str]
    rows: int
    user: str
    created: float
    expires: float

    @classmethod
    def of(cls, state: StandingState) -> Self:
        """Describe a standing alignment."""
        return cls(state.name, state.data, state.n_common, state.user, state.created, state.expires)


class StandingAlignments(msgspec.Struct, frozen=True):
    """The standing alignments of a federation."""

    alignments: list[StandingAlignment]


class FederationMember(msgspec.Struct, frozen=True):
    """A party or a user."""

    name: str
    connected: bool
    release: str
    user_role: str
    expires: str | None

    @classmethod
    def of(cls, member: MemberStatus) -> Self:
        """Describe a member."""
        return cls(member.name, member.connected, member.release, member.user_role, member.expires)


class FederationPage(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the federation; users are shown to operators only."""

    federation: str
    release: str
    protocol_version: int
    now: float
    started: float
    parties: list[FederationMember]
    users: list[FederationMember] | None
    queued: int

    @classmethod
    def of(cls, name: str, status: FederationStatus) -> Self:
        """Describe the federation of this name."""
        return cls(
            federation=name,
            release=status.release,
            protocol_version=status.protocol_version,
            now=status.now,
            started=status.started,
            parties=[FederationMember.of(party) for party in status.parties],
            users=None
            if status.users is None
            else [FederationMember.of(user) for user in status.users],
            queued=status.n_queued,
        )


class PredictionAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prediction for each id or row that was asked for, in its order.

    Null where not all parties have an id. Votes of models whose labels are encrypted come sealed
    for the key of the request instead.
    """

    model: str
    predictions: list[str | float | bool | None]
    ids: list[str | int | list[str | int]] | None = None
    rows: list[int] | None = None
    classes: list[str | float | bool] | None = None
    probabilities: list[list[float] | None] | None = None
    alignment: str = ""
    sealed: list["SealedBlock"] | None = None


class SealedBlock(msgspec.Struct, frozen=True):
    """Votes that the holder of the key alone can open, in base64."""

    key: bytes
    data: bytes
