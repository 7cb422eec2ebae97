"""What a coordinator tries in order to read labels from whether a run is refused.

A refusal comes before anything is charged. If it depends on the labels of rows that the coordinator
chose, it tells them: of one row, at any epsilon.
"""

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import FederationError, PolicyRefusal, RemoteProtocolError
from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.queries import Queries
from fedforest.protocol.aggregation.options import Masked
from fedforest.protocol.fates import pack_fates
from fedforest.protocol.horizontal.contract import describe_protection
from fedforest.protocol.horizontal.messages import DeclareTable
from fedforest.protocol.payloads import RowBits
from fedforest.protocol.vertical.messages import (
    BinColumns,
    FinishTrees,
    RowMoves,
    ShareLabels,
    StartTrees,
    TakeLabels,
    WeighColumns,
)
from fedforest.runtime.messages.orders import OptionChoice
from fedforest.runtime.messages.roles import AnyRole, HorizontalRole, RowChoice, VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.party.row_selection import hold_out
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.lone_party import ALIGNMENT, LoneParty
from tests.hostile.played_coordinator import PlayedCoordinator
from tests.protocol.horizontal.asking_one import describe

N_ROWS, RARE, HALF = 60, 7, 0.5
GINI = BY_NAME["gini"].wire
NOTHING = memoryview(b"")
FOREST = ForestParameters(n_estimators=1, max_depth=1, min_samples_leaf=5, bootstrap=False)
NOISE = GlobalDP(epsilon_query=0.1)
VERTICAL = Terms(asker="ann", n_parties=2, forest=FOREST, label_epsilon=0.1)
HORIZONTAL = Terms(asker="ann", n_parties=2, forest=FOREST, privacy=OptionChoice.of(NOISE))
NUMBERS = msgspec.structs.replace(
    HORIZONTAL,
    forest=ForestParameters("regression", 1, "squared_error", max_depth=1, min_samples_leaf=5),
    privacy=OptionChoice.of(GlobalDP(epsilon_query=0.1, target_bounds=(0.0, 2.0))),
)
STRICT = DataSetRules(
    label_protection="randomized_response", epsilon_ceiling=1000.0, label_columns=("y",)
)
CHOICES = [RowChoice(held_out=HALF, seed=seed) for seed in range(8)]
HAS_RARE = [not hold_out(N_ROWS, HALF, seed)[RARE] for seed in range(8)]


def _table(rare: Any = 2) -> dict[str, Any]:
    """Two classes, and one row of a third."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N_ROWS).astype(np.asarray([rare]).dtype)
    y[RARE] = rare
    return {"x": rng.normal(size=N_ROWS), "y": y}


def _play(folder: Path, rules: DataSetRules = STRICT, **tables: Any) -> PlayedCoordinator:
    return PlayedCoordinator(folder, rules, **(tables or {"people": _table()}))


def _is_begun(played: PlayedCoordinator, role: AnyRole, terms: Terms) -> bool:
    try:
        played.begin(role, terms)
    except FederationError:
        return False
    return True


def test_the_coordinators_of_this_file_choose_rows_with_and_without_the_rare_one() -> None:
    assert len(set(HAS_RARE)) == 2


@pytest.mark.parametrize("named", [0, 2])
def test_weights_of_classes_do_not_tell_which_classes_chosen_rows_have(
    tmp_path: Path, named: int
) -> None:
    played = _play(tmp_path)
    for rows in CHOICES:
        weights: Any = [(named, 2.0)]
        role = VerticalRole(data="people", label="y", class_weight=weights, rows=rows)
        assert _is_begun(played, role, VERTICAL)
        played.ask(BinColumns(1, FOREST.max_bins, GINI))
        assert len(played.ask(ShareLabels((0, 1, 2), 0.1)).noisy_labels.codes) == N_ROWS // 2


def test_weights_of_a_class_that_the_table_lacks_are_refused_whatever_rows_are_chosen(
    tmp_path: Path,
) -> None:
    played, weights = _play(tmp_path), [(3, 2.0)]
    for rows in CHOICES:
        role = VerticalRole(data="people", label="y", class_weight=weights, rows=rows)  # type: ignore[arg-type] # as sent
        assert not _is_begun(played, role, VERTICAL)


@pytest.mark.parametrize(
    ("spoiled", "role", "terms"),
    [
        (np.nan, VerticalRole(data="people", label="y"), VERTICAL),
        (2.5, VerticalRole(data="people", label="y"), VERTICAL),
        (np.nan, HorizontalRole(data="people", label="y"), HORIZONTAL),
        (2.5, HorizontalRole(data="people", label="y"), HORIZONTAL),
        (np.nan, HorizontalRole(data="people", label="y", is_regression=True), NUMBERS),
    ],
)
def test_a_label_that_cannot_be_used_is_refused_whatever_rows_are_chosen(
    tmp_path: Path, spoiled: float, role: Any, terms: Terms
) -> None:
    played = _play(tmp_path, people=_table(spoiled))
    chosen = [msgspec.structs.replace(role, rows=rows) for rows in CHOICES]
    assert not any(_is_begun(played, each, terms) for each in chosen)


def test_classes_that_a_horizontal_run_leaves_out_do_not_tell_which_rows_lack_them(
    tmp_path: Path,
) -> None:
    played = _play(tmp_path)
    for rows in CHOICES:
        played.begin(HorizontalRole(data="people", label="y", rows=rows), HORIZONTAL)
        declared = played.ask(DeclareTable(is_regression=False, criterion=GINI)).labels
        assert declared.classes == (0, 1, 2)
        protection = describe_protection(NOISE, 2, Queries(1, 1, 1))
        noisy = {"protection": protection, "rows_apart": True, "both_sides": True}
        without = describe(1, 2, n_trees=1, max_depth=1, candidates_per_node=1, **noisy)
        without = msgspec.structs.replace(without, names=("x",), most_losses=0)
        with pytest.raises(FederationError, match="lack a class of this party"):
            played.ask(without)


def _train_one_tree(played: PlayedCoordinator, data: str) -> str:
    """A forest of this data set, whose classes are those that its labels have."""
    terms = msgspec.structs.replace(VERTICAL, label_epsilon=None)
    run = played.begin(VerticalRole(data=data, label="y"), terms)
    n_classes = played.ask(BinColumns(1, FOREST.max_bins, GINI)).scale.n_classes
    labels = played.ask(ShareLabels(tuple(range(n_classes)))).labels
    played.ask(TakeLabels(n_classes, GINI, labels))
    start = StartTrees(
        memoryview(bytes(8)), bootstrap=False, n_draws=N_ROWS, min_rows_leaf=5, with_left_out=False
    )
    played.ask(start)
    closed = pack_fates(np.zeros(1, np.bool_), np.zeros(1, np.uint8))
    played.ask(FinishTrees(RowMoves(closed, RowBits(NOTHING), RowBits(NOTHING))))
    played.ask(WeighColumns(NOTHING, memoryview(np.ones(1, "<f8").tobytes())))
    played.end(run)
    return run.hex()


@pytest.mark.parametrize(
    "protection", [{}, {"label_epsilon": None, "encrypts_labels": True}], ids=["noisy", "encrypted"]
)
def test_a_forest_of_another_data_set_does_not_tell_which_classes_chosen_rows_have(
    tmp_path: Path, protection: dict[str, Any]
) -> None:
    """The classes of that forest are compared with those of the chosen rows."""
    open_rules = DataSetRules(label_columns=("y",))
    known = _table() | {"y": np.arange(N_ROWS) % 2}
    played = _play(tmp_path, open_rules, people=_table(), known=known)
    model = _train_one_tree(played, "known")
    more = msgspec.structs.replace(
        VERTICAL, forest=dataclasses.replace(FOREST, n_estimators=2), **protection
    )
    for rows in CHOICES:
        role = VerticalRole(data="people", label="y", continues=model, rows=rows)
        with pytest.raises(RemoteProtocolError, match="forest of another data set or label"):
            played.begin(role, more)


@pytest.mark.parametrize("aggregation", [None, OptionChoice.of(Masked())])
def test_labels_that_must_be_noisy_are_not_counted_in_a_horizontal_run_without_noise(
    tmp_path: Path, aggregation: OptionChoice | None
) -> None:
    rules = DataSetRules(label_protection="randomized_response", label_columns=("y",))
    role = HorizontalRole(data="people", label="y", aggregation=aggregation, least_participants=2)
    plain = msgspec.structs.replace(HORIZONTAL, privacy=None)
    with pytest.raises(PolicyRefusal, match="labels must be protected by noise"):
        _play(tmp_path, rules).begin(role, plain)


def test_parties_of_a_horizontal_run_do_not_choose_their_rows_by_alignments(tmp_path: Path) -> None:
    """A party whose peers use one row each is alone in sums over all of them."""
    party = LoneParty(tmp_path)
    party.write("rows.csv", {"id": range(N_ROWS), "x": range(N_ROWS), "y": [0, 1] * 30})
    party.add("people", source="rows.csv", id=["id"])
    party.align("people", np.array([3]))
    role = HorizontalRole(data="people", label="y", rows=RowChoice(alignment=ALIGNMENT))
    with pytest.raises(RemoteProtocolError, match="are not aligned"):
        party.begin(role, msgspec.structs.replace(HORIZONTAL, privacy=None))
