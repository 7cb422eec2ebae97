"""What users may ask a coordinator for: one table of requests and roles, and the owners of runs.

A run, and the model that has its id, belong to the user who ordered it. Its owner shares it with
other users by name; what they may do with it then, their roles say. Operators have the machine of
the coordinator, so that a rule against them would protect nothing here: they may do everything.
Parties ask their own policies who orders and who predicts, whatever stands here.
"""

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import msgspec

from fedforest.errors import AccessRefused, ConfigurationError
from fedforest.runtime.membership.user_roles import UserRole
from fedforest.runtime.messages.envelope import RUN_ID_BYTES
from fedforest.runtime.messages.orders import (
    AlignRows,
    AnyOrder,
    CancelRun,
    CompleteModel,
    DeleteModel,
    DescribeTables,
    EndRunEarly,
    GrantRole,
    InviteMember,
    ListAlignments,
    ListModels,
    ListRuns,
    LogOfRun,
    PredictLinear,
    PredictVertical,
    PruneRuns,
    RemoveAlignment,
    ResumeRun,
    RevokeMember,
    ShareRun,
    ShowModel,
    ShowRun,
    ShowStatus,
    ShowTree,
    TrainHorizontal,
    TrainLinear,
    TrainVertical,
    WatchRun,
    WithdrawModel,
)
from fedforest.runtime.recovery.run_store import RunStore

_FILE = "access.json"
_ID = re.compile(f"[0-9a-f]{{{2 * RUN_ID_BYTES}}}")


class Reach(IntEnum):
    """The runs, or models, that a role may use with a kind of request."""

    NONE = 0
    OWN = 1  # and new ones
    SHARED = 2  # own ones, and those that others share with the user
    ALL = 3


def _reach(viewer: int, service: int, scientist: int) -> Mapping[UserRole, Reach]:
    reach = {"viewer": viewer, "service": service, "scientist": scientist, "operator": Reach.ALL}
    return {role: Reach(value) for role, value in reach.items()}  # type: ignore[misc] # the four roles


_NONE, _OWN, _SHARED = Reach.NONE, Reach.OWN, Reach.SHARED
_ORDERING = _reach(_NONE, _NONE, _OWN)
_STEERING = _reach(_NONE, _NONE, _OWN)
_OPERATING = _reach(_NONE, _NONE, _NONE)
_PREDICTING = _reach(_NONE, _SHARED, _SHARED)
RIGHTS: Mapping[type[Any], Mapping[UserRole, Reach]] = {
    TrainVertical: _ORDERING,
    TrainHorizontal: _ORDERING,
    TrainLinear: _ORDERING,
    AlignRows: _ORDERING,
    DescribeTables: _ORDERING,
    ListAlignments: _reach(_NONE, _NONE, Reach.ALL),
    RemoveAlignment: _ORDERING,
    ListRuns: _reach(_SHARED, _SHARED, _SHARED),
    ShowRun: _reach(_SHARED, _NONE, _SHARED),
    LogOfRun: _reach(_SHARED, _NONE, _SHARED),
    WatchRun: _reach(_NONE, _NONE, _SHARED),  # ends with the result, which may hold the model
    ResumeRun: _STEERING,
    EndRunEarly: _STEERING,
    CancelRun: _STEERING,
    ShareRun: _STEERING,
    PredictVertical: _PREDICTING,
    PredictLinear: _PREDICTING,
    CompleteModel: _reach(_NONE, _NONE, _SHARED),
    ListModels: _reach(_SHARED, _SHARED, _SHARED),
    ShowModel: _reach(_SHARED, _SHARED, _SHARED),
    WithdrawModel: _STEERING,
    DeleteModel: _STEERING,
    PruneRuns: _STEERING,
    ShowTree: _reach(_NONE, _NONE, _SHARED),
    InviteMember: _OPERATING,
    RevokeMember: _OPERATING,
    GrantRole: _OPERATING,
    ShowStatus: _reach(_SHARED, _SHARED, _SHARED),  # runs; all else is reduced by the role
}


class RunAccess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The owner of a run, and the users that it is shared with."""

    owner: str
    users: list[str] = []


_UNOWNED = RunAccess("")


class Access:
    """Decides on requests by the roles of users and the owners of runs."""

    def __init__(self, store: RunStore, role_of: Callable[[str], UserRole]) -> None:
        self._store = store
        self._role_of = role_of
        self._read: dict[bytes, RunAccess] = {}

    def own(self, run: bytes, user: str) -> None:
        """Record the owner of a new run."""
        self._keep(run, RunAccess(user))

    def share(self, run: bytes, user: str, *, ends: bool = False) -> None:
        """Share a run with a user, or end that."""
        kept = self._of(run)
        others = [other for other in kept.users if other != user]
        self._keep(run, msgspec.structs.replace(kept, users=others if ends else [*others, user]))

    def forget(self, run: bytes) -> None:
        """Forget whose a run was that is deleted."""
        self._read.pop(run, None)

    def users(self, run: bytes) -> list[str]:
        """Return the users that a run is shared with."""
        return sorted(self._of(run).users)

    def shown_to(self, user: str, kind: type[Any] = ListRuns) -> Callable[[bytes], bool]:
        """Return what tells which runs a user's list shows, or another kind of request reaches."""
        reach = RIGHTS[kind][self._role_of(user)]
        return lambda run: self._is_within(reach, user, run)

    def sees_all(self, user: str) -> bool:
        """Tell whether a user sees the whole state of the federation."""
        return RIGHTS[ShowStatus][self._role_of(user)] is Reach.ALL

    def check(self, order: AnyOrder, user: str) -> None:
        """Raise `AccessRefused` if the user may not make this request."""
        self._check(type(order), user, getattr(order, "run", None) or getattr(order, "model", None))
        if isinstance(order, TrainVertical) and order.continues is not None:
            self._check(PredictVertical, user, order.continues)

    def check_alignment(self, name: str, owner: str, user: str) -> None:
        """Raise `AccessRefused` if the user may not remove a standing alignment of this owner."""
        reach = RIGHTS[RemoveAlignment][self._role_of(user)]
        if reach is not Reach.ALL and user != owner:
            raise AccessRefused.of("access.alignment", user=user, alignment=name)

    def _check(self, kind: type[Any], user: str, about: str | None) -> None:
        """Check a kind of request about a run, or the model with its id; None for a new run."""
        role = self._role_of(user)
        reach = RIGHTS[kind][role]
        if reach is Reach.NONE:
            raise AccessRefused.of("access.role", user=user, role=role, request=kind.__name__)
        if about is None:
            return
        run = _read_id(about)
        if run is not None and self._is_within(reach, user, run):
            return
        if run is not None and self.shown_to(user)(run):
            raise AccessRefused.of("access.owner", user=user, run=about)
        # The same words for a run that does not exist: users learn nothing of others' runs.
        raise AccessRefused.of("access.unknown", user=user, run=about)

    def _is_within(self, reach: Reach, user: str, run: bytes) -> bool:
        kept = self._of(run)
        is_owner = user == kept.owner
        return (
            reach is Reach.ALL
            or (reach >= Reach.OWN and is_owner)
            or (reach >= Reach.SHARED and user in kept.users)
        )

    def _of(self, run: bytes) -> RunAccess:
        if run not in self._read:
            data = self._store.load(run, _FILE)
            if data is None:
                return _UNOWNED
            try:
                self._read[run] = msgspec.json.decode(data, type=RunAccess)
            except msgspec.DecodeError:
                raise ConfigurationError(
                    f"{self._store.folder(run) / _FILE} is damaged; restore it from a copy"
                ) from None
        return self._read[run]

    def _keep(self, run: bytes, access: RunAccess) -> None:
        self._store.save(run, _FILE, msgspec.json.encode(access))
        self._read[run] = access


def _read_id(text: str) -> bytes | None:
    """Read the id of a run, or of its model; None where the text is no id."""
    return bytes.fromhex(text) if _ID.fullmatch(text) else None
