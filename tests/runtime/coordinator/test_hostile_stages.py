"""Parties under storms of spoiled messages, as in `test_hostile_services.py`, in parts of a run."""

from pathlib import Path

import numpy as np
import pytest

from fedforest.runtime.messages.results import VerticalResult
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.local_federation import local_federation
from tests.integration.processes import role_files
from tests.runtime.partly_shared import PARTIES, make_pattern, vertical_order
from tests.runtime.service_recordings import RUN, Recording, listen
from tests.runtime.test_hostile_services import Storm

TWO = PARTIES[:2]
FEW, MANY = 500, 20_000  # of every part by itself: `protocol/test_hostile_conversations.py`


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("parts")
    parameters = ForestParameters(n_estimators=2, max_depth=2)
    order = vertical_order(data=dict.fromkeys(TWO, "people"), parameters=parameters, alone=True)
    pattern = make_pattern(folder / "pattern")
    with local_federation(folder / "honest", pattern) as federation:
        requests, replies = listen(federation)
        federation.ask(order, VerticalResult, RUN)
        files = role_files(federation.homes, RUN.hex())
    return Recording(pattern, order, requests, replies, files)


@pytest.mark.parametrize("n_messages", [FEW, pytest.param(MANY, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("party", TWO)
def test_spoiled_messages_in_any_part_change_nothing_and_tell_nothing(
    recording: Recording, party: str, n_messages: int, tmp_path: Path
) -> None:
    storm = Storm(recording, party, tmp_path)
    storm.rage(n_messages, np.random.default_rng(TWO.index(party)))
    storm.service.close()
    kept = role_files({party: storm.home}, RUN.hex())
    assert kept == {name: data for name, data in recording.files.items() if name.startswith(party)}
