"""All tasks of a party, by the type of their role."""

from typing import Any

from fedforest.runtime.messages.roles import AnyRole
from fedforest.runtime.party.scoring import ALONE, SCORING
from fedforest.runtime.trainings.party_task import PartyTask
from fedforest.runtime.trainings.registry import TRAININGS

_BY_ROLE: dict[type[Any], PartyTask[Any, Any]] = {
    task.role_type: task for task in (*TRAININGS, SCORING, ALONE)
}


def task_of(role: AnyRole) -> PartyTask[Any, Any]:
    """Return the task of a role."""
    return _BY_ROLE[type(role)]
