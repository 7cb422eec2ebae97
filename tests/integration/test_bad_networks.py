"""A network that drops, delays, truncates, doubles and corrupts: the model is the same."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from fedforest.runtime.messages.orders import PredictVertical
from fedforest.runtime.messages.results import Predictions
from tests.faulty_proxy import Fault, FaultyProxy, Harm
from tests.integration.processes import Processes, start_processes
from tests.integration.samples import TRAININGS, vertical

HARMS = (Harm.DROP, Harm.DELAY, Harm.TRUNCATE, Harm.DUPLICATE, Harm.CORRUPT)
DELAY_SECONDS = 0.5
N_FAULTS = 3
MOST_BYTES_BETWEEN = 9_000  # a training moves more than three times as many


class Relayed(NamedTuple):
    """A federation one of whose parties is behind a relay."""

    processes: Processes
    proxy: FaultyProxy


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relayed]:
    folder = tmp_path_factory.mktemp("relayed")
    with start_processes(folder, 2, is_started=False) as processes:
        address = processes.folder.address
        with FaultyProxy(address) as proxy:
            settings = processes.folder.parties["shop"].home / "party.toml"
            settings.write_text(settings.read_text().replace(address, proxy.address))
            processes.folder.start()
            yield Relayed(processes, proxy)


@pytest.mark.parametrize(
    "training",
    [
        "horizontal, masked",
        pytest.param("vertical with randomized labels", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize("harm", HARMS)
def test_a_training_over_a_bad_network_ends_with_the_same_model(
    relayed: Relayed, harm: Harm, training: str
) -> None:
    rng = np.random.default_rng([HARMS.index(harm), len(training)])
    order = TRAININGS[training](2)
    relayed.proxy.plan(
        [
            Fault(harm, int(n), from_party=None, seconds=DELAY_SECONDS)
            for n in rng.integers(500, MOST_BYTES_BETWEEN, N_FAULTS)
        ]
    )
    relayed.processes.check(order, relayed.processes.train(order))
    assert relayed.proxy.n_faults_left == 0


def test_a_prediction_over_a_bad_network_is_the_same(relayed: Relayed) -> None:
    order = vertical(2)
    model = relayed.processes.train(order).model
    predict = PredictVertical(data=order.data, model=model)
    with relayed.processes.user() as user:
        expected = user.ask(predict, Predictions)
        for harm in HARMS:
            relayed.proxy.plan([Fault(harm, 1_000, from_party=None, seconds=DELAY_SECONDS)])
            assert user.ask(predict, Predictions) == expected
            assert relayed.proxy.n_faults_left == 0
