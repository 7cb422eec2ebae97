"""Federations of real processes that the tests of this folder share."""

from collections.abc import Iterator

import pytest

from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import local_federation
from tests.integration.processes import Processes, result_type, start_processes
from tests.integration.samples import TRAININGS, divide


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kernels are compiled once, by this process; the others then find them in the cache."""
    folder = tmp_path_factory.mktemp("compiling")
    pattern = make_federation(folder / "pattern", divide(2))
    with local_federation(folder / "local", pattern) as local:
        for number, training in enumerate(TRAININGS.values()):
            order = training(2)
            local.ask(order, result_type(order), number.to_bytes(16, "little"))


@pytest.fixture(scope="session")
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with start_processes(tmp_path_factory.mktemp("pair"), 2) as processes:
        yield processes


@pytest.fixture
def pair(shared_pair: Processes) -> Processes:
    """A coordinator and two parties; whoever an earlier test left dead is started again."""
    shared_pair.folder.start()
    return shared_pair


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """A coordinator and five parties."""
    with start_processes(tmp_path_factory.mktemp("five"), 5) as processes:
        yield processes


@pytest.fixture(scope="session")
def shared_hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with start_processes(tmp_path_factory.mktemp("hasty"), 2, patience_seconds=2.0) as processes:
        yield processes


@pytest.fixture
def hasty(shared_hasty: Processes) -> Processes:
    """A federation that waits only two seconds for a party that is away; all are there."""
    shared_hasty.folder.start()
    return shared_hasty
