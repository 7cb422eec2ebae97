"""The coordinator of a prediction wants outcomes at splits that a row does not reach."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.errors import PolicyRefusal, RemoteProtocolError
from fedforest.protocol.vertical.prediction.classical_walk import AskSplit
from fedforest.protocol.vertical.prediction.messages import LeapRows, RouteRows, SweepRows
from fedforest.runtime.party.models import PartyModels
from fedforest.tree.forest.partial import PartialForest
from tests.hostile.lying_coordinator import BANK, PlayedPrediction, trained_federation
from tests.integration.local_federation import LocalFederation
from tests.runtime.ruled_federations import demand
from tests.runtime.service_recordings import N_ROWS, RUN

ALL_ROWS = np.uint64(2**N_ROWS - 1)  # they fit into a word


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    with trained_federation(tmp_path) as federation:
        demand(federation, "largest_lookahead = 1")
        yield federation


def share_of_bank(federation: LocalFederation) -> PartialForest:
    model, _ = PartyModels(federation.homes[BANK] / "models").read(RUN.hex())
    return model.partial


def root_turns(federation: LocalFederation, outcomes: memoryview) -> NDArray[np.uint64]:
    """For each tree, the turns of all rows at its root that the bank said; at others', left."""
    share = share_of_bank(federation)
    turns = np.full(share.shape.n_trees, ALL_ROWS)
    is_own = share.splits.feature[share.shape.tree_start[:-1]] >= 0
    said = np.zeros((int(is_own.sum()), 8), np.uint8)
    said[:] = np.frombuffer(outcomes, np.uint8).reshape(len(said), 8)  # 60 bits take 8 bytes
    turns[is_own] = said.view(np.uint64).reshape(-1)
    assert 0 < is_own.sum() < len(turns)
    return turns


def test_a_row_is_not_led_against_the_partys_own_outcome(federation: LocalFederation) -> None:
    prediction = PlayedPrediction(federation)
    first = prediction.ask(RouteRows(0, N_ROWS, 1))
    told = root_turns(federation, first.outcomes.data)
    share = share_of_bank(federation)
    for tree, root in enumerate(share.shape.tree_start[:-1].tolist()):
        for row in (0, 17, N_ROWS - 1):
            lie = told.copy()
            lie[tree] ^= np.uint64(1 << row)
            if share.splits.feature[root] >= 0:
                with pytest.raises(RemoteProtocolError, match="contradict"):
                    prediction.ask(RouteRows(0, N_ROWS, 1, memoryview(lie.tobytes())))
    prediction.ask(RouteRows(0, N_ROWS, 1, memoryview(told.tobytes())))  # nothing had moved


@pytest.mark.parametrize(
    "again", [RouteRows(0, N_ROWS, 1), RouteRows(0, 1, 1), SweepRows(0, N_ROWS, 1)]
)
def test_a_row_does_not_set_out_a_second_time_along_other_turns(
    federation: LocalFederation, again: RouteRows | SweepRows
) -> None:
    prediction = PlayedPrediction(federation)
    first = prediction.ask(RouteRows(0, N_ROWS, 1))
    told = root_turns(federation, first.outcomes.data)
    with pytest.raises(RemoteProtocolError, match=r"once more|are agreed on"):
        prediction.ask(again)
    prediction.ask(RouteRows(0, N_ROWS, 1, memoryview(told.tobytes())))
    with pytest.raises(RemoteProtocolError, match=r"once more|are agreed on"):
        prediction.ask(again)


def test_a_row_named_twice_does_not_take_two_paths(federation: LocalFederation) -> None:
    rows = memoryview(np.array([5, 9, 5], "<i4").tobytes())
    with pytest.raises(RemoteProtocolError, match="a row is asked for twice"):
        PlayedPrediction(federation, rows=rows).ask(RouteRows(0, 3, 1))


def test_the_requests_of_benchmarks_do_not_reach_a_party(federation: LocalFederation) -> None:
    own = share_of_bank(federation).own_nodes().tolist()
    prediction = PlayedPrediction(federation)
    for node in own:
        with pytest.raises(RemoteProtocolError, match="not a valid SweepRows or LeapRows or Route"):
            prediction.ask(AskSplit(0, node))


@pytest.mark.parametrize(
    "request_for_more", [RouteRows(0, N_ROWS, 2), SweepRows(0, N_ROWS, 2), LeapRows(0, N_ROWS)]
)
def test_no_request_looks_further_ahead_than_the_policy_lets(
    federation: LocalFederation, request_for_more: RouteRows | SweepRows | LeapRows
) -> None:
    with pytest.raises(PolicyRefusal, match="a lookahead above 1"):
        PlayedPrediction(federation).ask(request_for_more)
