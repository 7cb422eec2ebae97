"""What a coordinator tries in order to learn more than it declared.

Fresh noise by beginning trees anew, the order of a column by labels and stumps of its own choice,
values by cuts of its own choice, and the size of targets under noise.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import RemoteProtocolError
from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.queries import Queries
from fedforest.protocol.aggregation.messages import Count, Part
from fedforest.protocol.asking import Request
from fedforest.protocol.fates import pack_fates, pack_flags
from fedforest.protocol.horizontal.contract import MOST_RESTARTS, describe_protection
from fedforest.protocol.horizontal.messages import (
    AgreeOnTable,
    CutMoves,
    DeclareTable,
    ProposeThresholds,
)
from fedforest.protocol.linear.messages import Measure, Propose, StandardiseColumns
from fedforest.protocol.payloads import Residuals, RowBits
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    BinColumns,
    FindSplits,
    FinishTrees,
    RowMoves,
    ShareLabels,
    StartTrees,
    TakeLabels,
    WeighColumns,
)
from fedforest.runtime.messages.orders import OptionChoice
from fedforest.runtime.messages.roles import HorizontalRole, LinearRole, VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import DataSetRules
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.played_coordinator import PlayedCoordinator
from tests.protocol.horizontal.asking_one import (
    ask_cuts,
    describe,
    pack_candidates,
    start_trees,
    stay_open,
)

N_ROWS = 60
NOTHING = memoryview(b"")
GINI, SQUARES = BY_NAME["gini"].wire, BY_NAME["squared_error"].wire
STUMPS = ForestParameters(
    n_estimators=2, max_depth=1, min_samples_leaf=5, bootstrap=False, max_features=1
)


def _play(folder: Path) -> PlayedCoordinator:
    rng = np.random.default_rng(0)
    table = {"x0": rng.normal(size=N_ROWS), "x1": rng.normal(size=N_ROWS)}
    labels = {"y": rng.integers(0, 2, N_ROWS), "z": 300.0 * rng.random(N_ROWS)}
    return PlayedCoordinator(
        folder,
        DataSetRules(),
        classes=table | {"y": labels["y"]},
        numbers=table | {"z": labels["z"]},
    )


def _start(**changes: Any) -> StartTrees:
    seeds = np.arange(2, dtype="<u8").tobytes()
    start = StartTrees(
        memoryview(seeds), bootstrap=False, n_draws=N_ROWS, min_rows_leaf=5, with_left_out=False
    )
    return msgspec.structs.replace(start, **changes)


def _begin_vertical(folder: Path, forest: ForestParameters = STUMPS) -> PlayedCoordinator:
    played = _play(folder)
    terms = Terms(asker="ann", n_parties=2, forest=forest)
    played.begin(VerticalRole(data="classes", label="y"), terms)
    played.ask(BinColumns(1, forest.max_bins, GINI))
    return played


def _begin_trees(folder: Path, forest: ForestParameters = STUMPS) -> PlayedCoordinator:
    played = _begin_vertical(folder, forest)
    labels = played.ask(ShareLabels((0, 1))).labels
    played.ask(TakeLabels(2, GINI, labels))
    return played


def _refused(played: PlayedCoordinator, request: Request[Any], reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        played.ask(request)


def test_labels_are_taken_once_so_that_columns_are_not_searched_by_others(tmp_path: Path) -> None:
    played = _begin_vertical(tmp_path)
    labels = played.ask(ShareLabels((0, 1))).labels
    taking = TakeLabels(2, GINI, labels)
    played.ask(taking)
    _refused(played, taking, "TakeLabels is not agreed on after TakeLabels")
    played.ask(_start())
    _refused(played, taking, "TakeLabels is not agreed on after StartTrees")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n_draws": 10}, "draw rows in another way"),
        ({"bootstrap": True}, "draw rows in another way"),
        ({"with_left_out": True}, "not declared"),
        ({"min_rows_leaf": 6}, "another size than declared"),
        ({"min_weight_share": 0.1}, "another size than declared"),
        ({"row_seeds": memoryview(bytes(24))}, "ask for 3 in this run, and 2 are agreed on"),
    ],
)
def test_trees_are_drawn_as_declared_and_no_more_of_them(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    played = _begin_trees(tmp_path)
    _refused(played, _start(**changes), reason)
    played.ask(_start())


def test_further_batches_of_trees_are_counted_with_the_first(tmp_path: Path) -> None:
    played = _begin_trees(tmp_path)
    one = memoryview(bytes(8))
    played.ask(_start(row_seeds=one))
    closed = RowMoves(pack_fates(np.zeros(1, np.bool_), np.zeros(1, np.uint8)), *_no_bits())
    played.ask(FinishTrees(closed))
    played.ask(_start(row_seeds=one))
    played.ask(FinishTrees(closed))
    _refused(played, _start(row_seeds=one), "ask for 3 in this run, and 2 are agreed on")


def test_batches_side_by_side_are_separate_conversations_and_counted_together(
    tmp_path: Path,
) -> None:
    played = _begin_trees(tmp_path)
    one = memoryview(bytes(8))
    played.ask(_start(row_seeds=one))
    search = FindSplits(None, pack_candidates([[0]], 2), slot=1)
    _refused(played, search, "FindSplits is not agreed on after TakeLabels")
    played.ask(_start(row_seeds=one, slot=1))
    _refused(played, _start(row_seeds=one, slot=2), "ask for 3 in this run, and 2 are agreed on")
    played.ask(search)
    apply = ApplySplits(memoryview(b"\x01"), with_bits=True)
    _refused(played, apply, "ApplySplits is not agreed on after StartTrees")
    played.ask(msgspec.structs.replace(apply, slot=1))
    decrease = WeighColumns(memoryview(b""), memoryview(bytes(16)))
    _refused(played, decrease, "trees are still growing")


def test_rows_that_trees_leave_out_are_told_of_one_batch_at_a_time(tmp_path: Path) -> None:
    """Votes are counted in the order of trees; and their rows are not held twice."""
    forest = replace(STUMPS, bootstrap=True)
    terms = Terms(asker="ann", n_parties=2, forest=forest, votes_left_out=True)
    role = VerticalRole(data="classes", label="y", with_left_out=True)
    played = _play(tmp_path / "voting")
    played.begin(role, terms)
    played.ask(BinColumns(1, forest.max_bins, GINI))
    labels = played.ask(ShareLabels((0, 1))).labels
    played.ask(TakeLabels(2, GINI, labels))
    one = {"row_seeds": memoryview(bytes(8)), "bootstrap": True}
    voting = _start(**one, with_left_out=True)
    played.ask(voting)
    voting = msgspec.structs.replace(voting, slot=1)
    _refused(played, voting, "left out of one batch at a time")


def _no_bits() -> tuple[RowBits, RowBits]:
    return RowBits(NOTHING), RowBits(NOTHING)


def _search(played: PlayedCoordinator, columns: list[list[int]], moves: RowMoves | None) -> Any:
    return played.ask(FindSplits(moves, pack_candidates(columns, 2)))


def test_a_node_with_a_split_is_not_asked_for_the_gain_of_another_column(tmp_path: Path) -> None:
    played = _begin_trees(tmp_path)
    played.ask(_start())
    _search(played, [[0], [0]], None)
    stays = RowMoves(pack_fates(np.zeros(2, np.bool_), np.full(2, 4, np.uint8)), *_no_bits())
    with pytest.raises(RemoteProtocolError, match="asked about again that had a split"):
        _search(played, [[1], [1]], stays)


def test_trees_do_not_grow_deeper_than_declared(tmp_path: Path) -> None:
    played = _begin_trees(tmp_path)
    played.ask(_start())
    _search(played, [[0], [0]], None)
    played.ask(ApplySplits(pack_flags(np.ones(2, np.bool_)), with_bits=True))
    deeper = RowMoves(pack_fates(np.ones(2, np.bool_), np.full(2, 3, np.uint8)), *_no_bits())
    with pytest.raises(RemoteProtocolError, match="deeper than the run agreed on"):
        _search(played, [[0]] * 4, deeper)


def test_votes_of_left_out_rows_are_not_told_where_none_were_declared(tmp_path: Path) -> None:
    played = _begin_trees(tmp_path)
    weigh = WeighColumns(NOTHING, NOTHING, with_votes=True, ends_early=True)
    _refused(played, weigh, "not declared")


def _agree(played: PlayedCoordinator, **changes: Any) -> AgreeOnTable:
    n_rows = played.ask(DeclareTable(is_regression=False, criterion=GINI)).size.n_rows
    assert n_rows == N_ROWS
    honest = {"n_trees": 2, "max_depth": 1, "candidates_per_node": 1, "most_losses": 1}
    return describe(2, 2, **(honest | changes))


def _begin_horizontal(folder: Path, noise: LocalDP | GlobalDP | None = None) -> PlayedCoordinator:
    played = _play(folder)
    privacy = None if noise is None else OptionChoice.of(noise)
    terms = Terms(asker="ann", n_parties=2, forest=STUMPS, privacy=privacy)
    played.begin(HorizontalRole(data="classes", label="y"), terms)
    return played


def test_parties_that_do_not_exist_are_not_lost_to_begin_trees_without_end(tmp_path: Path) -> None:
    played = _play(tmp_path)
    terms = Terms(asker="ann", n_parties=1000, forest=STUMPS)
    played.begin(HorizontalRole(data="classes", label="y"), terms)
    agreed = _agree(played, most_losses=MOST_RESTARTS + 1)
    _refused(played, agreed, "begun anew more often than declared")
    played.ask(msgspec.structs.replace(agreed, most_losses=MOST_RESTARTS))


@pytest.mark.parametrize("noise", [GlobalDP(epsilon_query=0.25), LocalDP(keep=0.9)])
def test_a_restart_does_not_buy_fresh_noise(tmp_path: Path, noise: LocalDP | GlobalDP) -> None:
    played = _begin_horizontal(tmp_path, noise)
    protection = describe_protection(noise, 2, Queries(1, 1, 2))
    noisy = {"protection": protection, "rows_apart": True, "both_sides": True}
    agreed = _agree(played, most_losses=2000, **noisy)
    _refused(played, agreed, "begun anew more often than declared")
    played.ask(msgspec.structs.replace(agreed, most_losses=0))
    played.ask(_propose(1, start=start_trees(2, N_ROWS)))
    _refused(played, _propose(2, start=start_trees(2, N_ROWS, left=(1,))), "more often than agreed")


@pytest.mark.parametrize(
    ("declared", "asked"),
    [
        (GlobalDP(epsilon_query=0.25), GlobalDP(epsilon_query=4.0)),
        (GlobalDP(epsilon_query=0.25), LocalDP(keep=0.9)),
        (GlobalDP(epsilon_query=0.25), None),
        (LocalDP(keep=0.9), LocalDP(keep=0.99)),
        (LocalDP(keep=0.9), LocalDP(keep=0.9, bits=30)),
    ],
)
def test_noise_is_the_one_that_was_declared(tmp_path: Path, declared: Any, asked: Any) -> None:
    played = _begin_horizontal(tmp_path, declared)
    protection = describe_protection(asked, 2, Queries(1, 1, 2))
    agreed = _agree(played, protection=protection, rows_apart=True, both_sides=True, most_losses=0)
    _refused(played, agreed, "the noise is not the one declared")


@pytest.mark.parametrize(
    "changes",
    [{"n_trees": 3}, {"max_depth": 2}, {"candidates_per_node": 2}, {"most_losses": 2}],
)
def test_a_horizontal_run_agrees_on_no_more_than_was_declared(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    _refused(played := _begin_horizontal(tmp_path), _agree(played, **changes), "declared")


def _propose(
    step: int, columns: list[list[int]] | None = None, moves: CutMoves | None = None, **start: Any
) -> ProposeThresholds:
    candidates = pack_candidates(columns or [[0], [0]], 2)
    return ProposeThresholds(step, start.get("start"), moves, candidates)


def _count(step: int, thresholds: list[float]) -> Count:
    return Count(step, (Part((), ask_cuts(thresholds, [False] * len(thresholds))),))


def _begin_counting(folder: Path) -> PlayedCoordinator:
    played = _begin_horizontal(folder)
    played.ask(_agree(played))
    played.ask(_propose(1, start=start_trees(2, N_ROWS)))
    played.ask(_count(2, [0.0, 0.0]))
    return played


def test_a_column_of_a_node_is_cut_once(tmp_path: Path) -> None:
    """Counts at many thresholds of one column are its values, with their labels."""
    played = _begin_counting(tmp_path)
    _refused(played, _count(3, [0.1, 0.1]), "Count is not agreed on after Count")
    _refused(played, _propose(3), "a step begins before the last one ended")
    stays = stay_open(2)
    _refused(played, _propose(3, [[0], [1]], stays), "a column of a node is tried again")
    played.ask(_propose(3, [[1], [1]], stays))
    played.ask(_count(4, [0.0, 0.0]))
    _refused(played, _propose(5, [[0], [0]], stays), "a column of a node is tried again")


def test_sums_of_the_same_trees_are_asked_once_in_a_step(tmp_path: Path) -> None:
    played = _begin_horizontal(tmp_path)
    played.ask(_agree(played))
    played.ask(_propose(1, start=start_trees(2, N_ROWS)))
    parts = tuple(Part((), ask_cuts([cut] * 2, [False] * 2)) for cut in (0.0, 0.1))
    _refused(played, Count(2, parts), "asked for twice in one step")


@pytest.mark.parametrize("changes", [{"n_draws": 10}, {"bootstrap": True}])
def test_horizontal_trees_are_drawn_as_declared(tmp_path: Path, changes: dict[str, Any]) -> None:
    played = _begin_horizontal(tmp_path)
    played.ask(_agree(played))
    start = msgspec.structs.replace(start_trees(2, N_ROWS), **changes)
    _refused(played, _propose(1, start=start), "draw rows in another way than declared")


def test_targets_have_no_size_of_their_own_where_bounds_are_declared(tmp_path: Path) -> None:
    exponents = []
    for name, bounds in (("wide", (0.0, 1000.0)), ("narrow", (0.0, 10.0))):
        played = _play(tmp_path / name)
        forest = ForestParameters(
            task="regression",
            criterion="squared_error",
            n_estimators=1,
            max_depth=1,
            min_samples_leaf=5,
            bootstrap=False,
        )
        noise = GlobalDP(epsilon_query=1.0, target_bounds=bounds)
        terms = Terms(asker="ann", forest=forest, privacy=OptionChoice.of(noise))
        played.begin(HorizontalRole(data="numbers", label="z", is_regression=True), terms)
        declared = played.ask(DeclareTable(is_regression=True, criterion=SQUARES)).labels
        exponents.append(declared.target_exponent)
    assert exponents == [10, 4]  # of the bounds; the targets themselves are below 2^9


def test_a_linear_model_takes_no_more_steps_than_declared(tmp_path: Path) -> None:
    played = _play(tmp_path)
    terms = Terms(asker="ann", n_parties=2, most_steps=2)
    played.begin(LinearRole(data="classes", label="y"), terms)
    played.ask(StandardiseColumns(1.0))
    measured = played.ask(Measure(memoryview(bytes(8 * N_ROWS))))
    for step in range(2):
        coefficients = memoryview(bytes(8 * step))
        curvatures = measured.curvatures if step == 0 else None
        played.ask(Propose(_chosen(step), coefficients, curvatures))
    _refused(played, Propose(_chosen(2), memoryview(bytes(16))), "2 are agreed on")


def _chosen(row: int) -> Residuals:
    """Residuals by which a coordinator would read one row of the columns."""
    residuals = np.zeros(N_ROWS)
    residuals[row], residuals[row + 1] = 1.0, -1.0
    return Residuals.of(residuals)
