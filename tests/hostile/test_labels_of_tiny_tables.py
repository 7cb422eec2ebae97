"""What a coordinator tries in order to read labels from what is declared before anything is booked.

A party declares its classes, or the range of its targets, over the rows of the run. Over one row
that is its label.
"""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedforest.errors import PolicyRefusal, RemoteProtocolError
from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.privacy.global_dp import GlobalDP
from fedforest.protocol.horizontal.messages import DeclareTable
from fedforest.protocol.vertical.encrypted.messages import EncryptLabels, EndTraining, JudgeRoots
from fedforest.protocol.vertical.messages import BinColumns, FinishTrees, ShareLabels, StartTrees
from fedforest.runtime.messages.orders import OptionChoice
from fedforest.runtime.messages.roles import AnyRole, HorizontalRole, RowChoice, VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.party.row_selection import hold_out
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.played_coordinator import PlayedCoordinator

N_ROWS = 60
GINI = BY_NAME["gini"].wire
FOREST = ForestParameters(n_estimators=1, max_depth=1, min_samples_leaf=5)
NUMBERS = msgspec.structs.replace(
    Terms(n_parties=2),
    forest=ForestParameters("regression", 1, "squared_error", min_samples_leaf=5),
    label_epsilon=0.05,
)
PLAIN = Terms(n_parties=2, forest=FOREST)
NOISY = msgspec.structs.replace(PLAIN, privacy=OptionChoice.of(GlobalDP(epsilon_query=0.01)))
CEILING = DataSetRules(epsilon_ceiling=0.1, label_columns=("y", "z"))
ENCRYPTED = DataSetRules(label_protection="encrypted", label_columns=("y", "z"))
RESPONSE = DataSetRules(label_protection="randomized_response", label_columns=("y", "z"))
ONE_ROW = RowChoice(held_out=1e-9, seed=1, is_validation=True)
ALL_BUT_ONE = RowChoice(held_out=1e-9, seed=1)


def _play(folder: Path, rules: DataSetRules) -> PlayedCoordinator:
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=N_ROWS), "y": rng.integers(0, 2, N_ROWS), "z": rng.random(N_ROWS)}
    return PlayedCoordinator(folder, rules, people=table)


@pytest.mark.parametrize(
    ("role", "terms"),
    [
        (HorizontalRole(data="people", label="y", rows=ONE_ROW), NOISY),
        (VerticalRole(data="people", label="y", rows=ONE_ROW), PLAIN),
    ],
)
def test_a_run_on_one_held_out_row_does_not_declare_its_label(
    tmp_path: Path, role: AnyRole, terms: Terms
) -> None:
    with pytest.raises(RemoteProtocolError, match="rows held out for scores"):
        _play(tmp_path, DataSetRules()).begin(role, terms)


def _play_rare(folder: Path, rules: DataSetRules = CEILING) -> PlayedCoordinator:
    """A party whose only row of class 1 is the one held out."""
    y = np.zeros(N_ROWS, np.int64)
    y[hold_out(N_ROWS, 1e-9, 1)] = 1
    return PlayedCoordinator(folder, rules, people={"x": np.arange(60.0), "y": y})


def test_classes_under_noise_are_those_of_the_table_not_of_chosen_rows(tmp_path: Path) -> None:
    played = _play_rare(tmp_path)
    played.begin(HorizontalRole(data="people", label="y", rows=ALL_BUT_ONE), NOISY)
    told = played.ask(DeclareTable(is_regression=False, criterion=GINI))
    assert told.size.n_rows == N_ROWS - 1
    assert told.labels.classes == (0, 1)


def test_names_of_classes_with_encrypted_labels_are_those_of_the_table(tmp_path: Path) -> None:
    pytest.importorskip("rbcl")
    played = _play_rare(tmp_path, ENCRYPTED)
    terms = msgspec.structs.replace(PLAIN, encrypts_labels=True)
    role = VerticalRole(data="people", label="y", rows=ALL_BUT_ONE, label_party="bank")
    run = played.begin(role, terms)
    assert played.ask(BinColumns(1, FOREST.max_bins, GINI)).scale.n_classes == 2
    played.ask(EncryptLabels((1, 0), 1))
    seed, n_rows = memoryview(bytes(8)), N_ROWS - 1
    start = StartTrees(seed, bootstrap=True, n_draws=n_rows, min_rows_leaf=5, with_left_out=False)
    played.ask(start)
    played.ask(JudgeRoots())
    played.ask(FinishTrees(None))
    played.ask(EndTraining(1))
    named = played.end(run).classes
    assert named is not None
    assert named.labels == [0, 1]


def test_names_of_classes_with_noisy_labels_are_those_of_the_table(tmp_path: Path) -> None:
    played = _play_rare(tmp_path)
    terms = msgspec.structs.replace(PLAIN, label_epsilon=0.1)
    role = VerticalRole(data="people", label="y", rows=ALL_BUT_ONE, has_columns=False)
    run = played.begin(role, terms)
    assert played.ask(BinColumns(1, FOREST.max_bins, GINI)).scale.n_classes == 2
    assert len(played.ask(ShareLabels((1, 0), 0.1)).noisy_labels.codes) == N_ROWS - 1
    named = played.end(run).classes
    assert named is not None
    assert named.labels == [0, 1]


@pytest.mark.parametrize(
    ("role", "terms"),
    [
        (HorizontalRole(data="people", label="y"), PLAIN),
        (VerticalRole(data="people", label="y"), PLAIN),
        (VerticalRole(data="people", label="z", is_regression=True), NUMBERS),
    ],
)
def test_nothing_is_declared_in_a_run_that_the_ceiling_will_refuse(
    tmp_path: Path, role: AnyRole, terms: Terms
) -> None:
    with pytest.raises(PolicyRefusal, match="ceiling"):
        _play(tmp_path, CEILING).begin(role, terms)


def test_the_range_of_targets_that_no_noise_protects_is_not_told(tmp_path: Path) -> None:
    with pytest.raises(PolicyRefusal, match="protected by noise"):
        _play(tmp_path, RESPONSE).begin(
            VerticalRole(data="people", label="z", is_regression=True), NUMBERS
        )
