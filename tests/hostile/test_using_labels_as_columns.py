"""What a coordinator tries in order to read labels that are protected: calling them something else.

A policy protects the column that a run names as its label. Nothing says which column that is: the
same column is a feature, or a weight, of a run that names another label, or none.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedforest.errors import FederationError
from fedforest.protocol.fates import pack_flags
from fedforest.protocol.payloads import EncodedLabels
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    BinColumns,
    FindSplits,
    ShareLabels,
    TakeLabels,
)
from fedforest.runtime.messages.roles import VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import DataSetRules
from tests.hostile.played_coordinator import PlayedCoordinator
from tests.hostile.test_asking_beyond_the_contract import GINI, NOTHING, STUMPS, _start
from tests.protocol.horizontal.asking_one import pack_candidates

N_ROWS = 40
Y = np.random.default_rng(0).integers(0, 2, N_ROWS)
PROTECTED = DataSetRules(label_protection="randomized_response", epsilon_ceiling=1.0)
OPEN = pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="a policy cannot name the columns that are labels"
)


def _begin(folder: Path, role: VerticalRole, **terms: Any) -> PlayedCoordinator:
    x = np.arange(N_ROWS, dtype=np.float64)
    played = PlayedCoordinator(folder, PROTECTED, people={"x": x, "y": Y})
    played.begin(role, Terms(asker="ann", n_parties=2, forest=STUMPS, **terms))
    played.ask(BinColumns(1, STUMPS.max_bins, GINI))
    return played


def _split_by_label(folder: Path) -> Any:
    """Search the column of labels for made-up ones, and have it split the only node."""
    played = _begin(folder, VerticalRole(data="people"))
    made_up = EncodedLabels(memoryview(bytes([0, 1] * (N_ROWS // 2))), NOTHING, NOTHING)
    played.ask(TakeLabels(2, GINI, made_up))
    start = _start(row_seeds=memoryview(bytes(8)), n_draws=N_ROWS)
    played.ask(start)
    played.ask(FindSplits(None, pack_candidates([[1]], 2)))
    applied = played.ask(ApplySplits(pack_flags(np.ones(1, np.bool_)), with_bits=True))
    return np.unpackbits(np.frombuffer(applied.bits.data, np.uint8), bitorder="little")


@OPEN
def test_bits_of_a_run_without_labels_do_not_tell_labels(tmp_path: Path) -> None:
    try:
        told = _split_by_label(tmp_path)
    except FederationError:
        return
    assert not np.array_equal(told[:N_ROWS], 1 - Y)


@OPEN
def test_weights_beside_noisy_labels_do_not_tell_labels(tmp_path: Path) -> None:
    try:
        role = VerticalRole(data="people", label="y", weight="y")
        played = _begin(tmp_path, role, label_epsilon=0.5)
        shared = played.ask(ShareLabels((0, 1), 0.5)).noisy_labels
    except FederationError:
        return
    assert not np.array_equal(np.frombuffer(shared.weights, "<i8") > 0, Y)
