"""What a coordinator tries in order to get protected labels under another name.

It names the label and the weight of a run. A label column that is named as the weight, or not named
at all so that it is a feature, leaves past the noise and the budget of labels.
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import PolicyRefusal, RemoteProtocolError
from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.protocol.horizontal.messages import DeclareTable
from fedforest.protocol.payloads import EncodedLabels
from fedforest.protocol.vertical.messages import BinColumns, FindSplits, StartTrees, TakeLabels
from fedforest.runtime.messages.roles import HorizontalRole, LinearRole, VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import DataSetRules
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.lone_party import LoneParty
from tests.hostile.played_coordinator import PlayedCoordinator
from tests.protocol.horizontal.asking_one import pack_candidates

N_ROWS = 60
STUMP = ForestParameters(n_estimators=1, max_depth=1, min_samples_leaf=5, bootstrap=False)
TERMS = Terms(asker="ann", n_parties=2, forest=STUMP)
NOISY = msgspec.structs.replace(TERMS, label_epsilon=0.1)
GINI, SQUARES = BY_NAME["gini"].wire, BY_NAME["squared_error"].wire
NOTHING = memoryview(b"")
NAMED: Any = {"label_columns": ("y",)}
STRICT = DataSetRules(label_protection="randomized_response", epsilon_ceiling=0.1, **NAMED)
CEILING = DataSetRules(epsilon_ceiling=0.1, label_columns=("y", "z"))
DECLARED = DataSetRules(epsilon_ceiling=0.1, label_columns=("y",))


def _play(folder: Path, rules: DataSetRules) -> PlayedCoordinator:
    rng = np.random.default_rng(0)
    table: dict[str, Any] = {
        "x": rng.normal(size=N_ROWS),
        "y": rng.integers(0, 2, N_ROWS),
        "z": rng.random(N_ROWS),
    }
    return PlayedCoordinator(folder, rules, people=table)


@pytest.mark.parametrize("weight", ["y", "z"])
def test_noisy_labels_do_not_leave_with_true_ones_as_their_weights(
    tmp_path: Path, weight: str
) -> None:
    played = _play(tmp_path, STRICT)
    with pytest.raises(PolicyRefusal, match="is no weight"):
        played.begin(VerticalRole(data="people", label="y", weight=weight), NOISY)


def test_labels_are_not_read_as_weights_of_a_linear_model_before_anything_is_charged(
    tmp_path: Path,
) -> None:
    played = _play(tmp_path, CEILING)
    with pytest.raises(PolicyRefusal, match="is not for use"):
        played.begin(LinearRole(data="people", label="z", weight="y", is_regression=True), TERMS)


def test_a_label_is_the_weight_of_no_run_under_any_policy(tmp_path: Path) -> None:
    played = _play(tmp_path, DataSetRules(weight_columns=("y",)))
    with pytest.raises(PolicyRefusal, match="is no weight"):
        played.begin(VerticalRole(data="people", label="y", weight="y"), TERMS)
    declared = _play(tmp_path / "declared", DataSetRules(label_columns=("y",)))
    with pytest.raises(PolicyRefusal, match="is not for use"):
        declared.begin(VerticalRole(data="people", label="x", weight="y"), TERMS)


def test_weights_that_the_owner_named_go_with_noisy_labels(tmp_path: Path) -> None:
    rules = msgspec.structs.replace(STRICT, weight_columns=("z",))
    _play(tmp_path, rules).begin(VerticalRole(data="people", label="y", weight="z"), NOISY)


def test_rows_that_go_left_at_a_label_column_do_not_tell_labels(tmp_path: Path) -> None:
    """The coordinator says nothing of a label, makes up its own, and splits by the true ones."""
    played = _play(tmp_path, DECLARED)
    played.begin(VerticalRole(data="people"), TERMS)
    assert played.ask(BinColumns(1, STUMP.max_bins, GINI)).size.n_columns == 2
    made_up = memoryview((np.arange(N_ROWS) % 2).astype("u1").tobytes())
    played.ask(TakeLabels(2, GINI, EncodedLabels(made_up, NOTHING, NOTHING)))
    played.ask(
        StartTrees(
            memoryview(bytes(8)),
            bootstrap=False,
            n_draws=N_ROWS,
            min_rows_leaf=5,
            with_left_out=False,
        )
    )
    with pytest.raises(RemoteProtocolError, match="a candidate is no column"):
        played.ask(FindSplits(None, pack_candidates([[2]], 3)))


def test_another_entry_over_the_same_table_does_not_make_labels_features(tmp_path: Path) -> None:
    party = LoneParty(tmp_path)
    party.demand('[data.people]\nlabel_columns = ["y"]\n')
    party.write("rows.csv", {"x": range(N_ROWS), "y": [0, 1] * (N_ROWS // 2)})
    for name in ("people", "again"):
        party.add(name, source="rows.csv")
        party.begin(VerticalRole(data=name), TERMS)
        assert party.ask(BinColumns(1, STUMP.max_bins, GINI)).size.n_columns == 1


def test_a_label_is_no_column_of_a_horizontal_run_with_another_label(tmp_path: Path) -> None:
    played = _play(tmp_path, DataSetRules(label_columns=("y", "z")))
    forest = msgspec.structs.replace(
        TERMS,
        forest=ForestParameters(task="regression", criterion="squared_error", min_samples_leaf=5),
    )
    played.begin(HorizontalRole(data="people", label="z", is_regression=True), forest)
    assert played.ask(DeclareTable(is_regression=True, criterion=SQUARES)).size.n_columns == 1


def test_columns_that_are_no_labels_do_not_leave_as_labels(tmp_path: Path) -> None:
    for number, allowed in enumerate([("y",), ()]):
        played = _play(tmp_path / str(number), DataSetRules(label_columns=allowed))
        with pytest.raises(PolicyRefusal, match="is no label"):
            played.begin(VerticalRole(data="people", label="x", is_regression=True), TERMS)


@pytest.mark.parametrize(
    "rule", [{"epsilon_ceiling": 1.0}, {"label_protection": "randomized_response"}]
)
def test_a_policy_that_protects_labels_says_which_they_are(
    tmp_path: Path, rule: dict[str, Any]
) -> None:
    for label in ("y", None):
        played = _play(tmp_path / str(label), DataSetRules(**rule))
        with pytest.raises(PolicyRefusal, match="does not say which columns are labels"):
            played.begin(VerticalRole(data="people", label=label), NOISY)
