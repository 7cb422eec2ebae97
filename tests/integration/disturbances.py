"""What happens to roles while a training is underway, at seeded moments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedforest.errors import FederationError
from fedforest.runtime.messages.orders import ListRuns
from fedforest.runtime.messages.results import Exchanged, News, RunAccepted, RunList, RunState
from tests.integration.federation_folder import Role
from tests.integration.processes import AnyResult, Processes, result_type
from tests.integration.samples import AnyTraining


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Something that is done when the user has heard of so many exchanges."""

    n_exchanges: int
    act: Callable[[], None]


class Disturber:
    """Counts the exchanges that the coordinator tells of, and acts when it is time."""

    def __init__(self, disturbances: Sequence[Disturbance]) -> None:
        self.waiting = sorted(disturbances, key=lambda disturbance: disturbance.n_exchanges)
        self._n_exchanges = 0

    def tell(self, event: News) -> None:
        if not isinstance(event, Exchanged) or event.note.get("replayed"):
            return
        self._n_exchanges += 1
        while self.waiting and self._n_exchanges >= self.waiting[0].n_exchanges:
            self.waiting.pop(0).act()


def train_disturbed(
    processes: Processes, order: AnyTraining, disturbances: Sequence[Disturbance]
) -> AnyResult:
    """The result of a training, all disturbances having happened."""
    disturber = Disturber(disturbances)
    with processes.user() as user:
        result = user.train(order, result_type(order), disturber.tell)
    assert not disturber.waiting, "the run was over before it could be disturbed"
    return result


def kill_and_restart(processes: Processes, role: str) -> Callable[[], None]:
    """What a role does that dies without warning and is started again by its machine."""

    def act() -> None:
        processes.folder.role(role).kill()
        processes.folder.role(role).start()

    return act


def train_until(
    processes: Processes, order: AnyTraining, n_exchanges: int, act: Callable[[str], None]
) -> tuple[str, FederationError]:
    """The run, and what its user was told when something was done to it that ended it."""
    accepted: list[str] = []
    disturber = Disturber([Disturbance(n_exchanges, lambda: act(accepted[0]))])

    def tell(event: News) -> None:
        if isinstance(event, RunAccepted):
            accepted.append(event.run)
        disturber.tell(event)

    with processes.user() as user, pytest.raises(FederationError) as caught:
        user.train(order, result_type(order), tell)
    return accepted[0], caught.value


def state_of(processes: Processes, run: str) -> RunState:
    with processes.user() as user:
        return next(state for state in user.ask(ListRuns(), RunList).runs if state.run == run)


def journal_of(role: Role, run: str) -> Path:
    return role.home / "runs" / run / "journal"
