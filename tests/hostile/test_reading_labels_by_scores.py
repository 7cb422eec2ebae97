"""What a coordinator tries in order to read true labels from scores: of chosen rows, votes or runs.

The score of one row is its label.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import PolicyRefusal, PrivacyError, RemoteProtocolError
from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.privacy.budget import BudgetLedger
from fedforest.privacy.composition import PrivacySpending
from fedforest.protocol.contract import Gate
from fedforest.protocol.payloads import EncodedLabels
from fedforest.protocol.scoring.contract import CONTRACT
from fedforest.protocol.scoring.messages import ScoreOwnVotes, ScoreVotes
from fedforest.protocol.scoring.party import ScoringParty, TrueClasses
from fedforest.protocol.vertical.messages import BinColumns, ShareLabels, TakeLabels
from fedforest.runtime.messages.roles import (
    AloneRole,
    HorizontalRole,
    RowChoice,
    ScoringRole,
    VerticalRole,
)
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.approval import RunAccountant, check_run
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.party.scoring import ALONE
from fedforest.runtime.trainings.party_task import Demands
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.played_coordinator import PlayedCoordinator

N_ROWS = 60
FOREST = ForestParameters(n_estimators=2, max_depth=2, min_samples_leaf=5)
HELD_OUT = RowChoice(held_out=0.25, seed=1)
VALIDATED = Terms(asker="ann", forest=FOREST, validates=True, stands_alone=True)
GINI = BY_NAME["gini"].wire
NOTHING = memoryview(b"")
LIMITED = [
    DataSetRules(label_protection="randomized_response", label_columns=("y",)),
    DataSetRules(epsilon_ceiling=1.0, label_columns=("y",)),
]


def _table() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=N_ROWS), "y": rng.integers(0, 2, N_ROWS)}


def _play(folder: Path, rules: DataSetRules = DataSetRules()) -> PlayedCoordinator:  # noqa: B008 - frozen
    return PlayedCoordinator(folder, rules, people=_table())


def _trained(folder: Path, rows: RowChoice = HELD_OUT, terms: Terms = VALIDATED) -> tuple[Any, str]:
    """A party whose run agreed on scores and baselines, and the id of that run."""
    played = _play(folder)
    run = played.begin(HorizontalRole(data="people", label="y", rows=rows), terms)
    return played, run.hex()


def _alone(rows: RowChoice = HELD_OUT) -> AloneRole:
    return AloneRole(data="people", label="y", rows=rows, seed=1)


@pytest.mark.parametrize("rules", LIMITED)
def test_no_baseline_is_scored_where_labels_are_protected(
    tmp_path: Path, rules: DataSetRules
) -> None:
    played = _play(tmp_path, rules)
    noisy = msgspec.structs.replace(VALIDATED, label_epsilon=0.5)
    whole = played.begin(VerticalRole(data="people", label="y", rows=HELD_OUT), noisy)
    part = msgspec.structs.replace(noisy, part_of=whole.hex())
    with pytest.raises(PrivacyError, match="protected by noise"):
        played.begin(_alone(), part)
    scoring = ScoringRole(
        data="people",
        label="y",
        rows=msgspec.structs.replace(HELD_OUT, is_validation=True),
        model=whole.hex(),
    )
    with pytest.raises(PrivacyError, match="protected by noise"):
        played.begin(scoring, part)


@pytest.mark.parametrize("rules", LIMITED)
def test_no_run_that_is_scored_begins_where_labels_are_protected(rules: DataSetRules) -> None:
    accountant = RunAccountant(rules, _book_under(rules), b"")
    for scores in (ScoreOwnVotes(), ScoreVotes(NOTHING)):
        with pytest.raises(PolicyRefusal):
            accountant.approve(scores, n_rows=1000)
    assert not accountant.has_approved
    demands = Demands("horizontal", scores=True, stands_alone=True)
    assert demands == ALONE.demands(_alone(), VALIDATED)
    with pytest.raises(PolicyRefusal, match=r"scores on true labels|RandomizedResponse"):
        check_run(rules, _alone(), VALIDATED)


def _book_under(rules: DataSetRules) -> Callable[[PrivacySpending], None]:
    return partial(BudgetLedger(rules.epsilon_ceiling).reserve, "run")


def test_a_baseline_on_one_held_out_row_does_not_tell_its_label(tmp_path: Path) -> None:
    played, run = _trained(tmp_path)
    part = msgspec.structs.replace(VALIDATED, part_of=run)
    with pytest.raises(RemoteProtocolError, match="other data, labels or rows"):
        played.begin(_alone(RowChoice(held_out=1e-9, seed=1)), part)


def test_a_run_that_holds_out_few_rows_is_not_scored(tmp_path: Path) -> None:
    rows = RowChoice(held_out=1e-9, seed=1)
    played, run = _trained(tmp_path, rows)
    played.begin(_alone(rows), msgspec.structs.replace(VALIDATED, part_of=run))
    with pytest.raises(PolicyRefusal, match="fewer than 10 rows"):
        played.ask(ScoreOwnVotes())


def test_scores_of_runs_that_were_never_agreed_on_are_refused(tmp_path: Path) -> None:
    played = _play(tmp_path)
    for part_of in ("", bytes(16).hex()):
        with pytest.raises(RemoteProtocolError, match="not agreed on here"):
            played.begin(_alone(), msgspec.structs.replace(VALIDATED, part_of=part_of))


def test_a_run_that_declared_no_scores_has_none(tmp_path: Path) -> None:
    quiet = msgspec.structs.replace(VALIDATED, validates=False, stands_alone=False)
    played, run = _trained(tmp_path, terms=quiet)
    with pytest.raises(RemoteProtocolError, match="other terms"):
        played.begin(_alone(), msgspec.structs.replace(VALIDATED, part_of=run))
    with pytest.raises(RemoteProtocolError, match="did not declare"):
        played.begin(_alone(), msgspec.structs.replace(quiet, part_of=run))


def test_baselines_are_not_scored_again_and_again(tmp_path: Path) -> None:
    played, run = _trained(tmp_path)
    part = msgspec.structs.replace(VALIDATED, part_of=run)
    played.begin(_alone(), part)
    assert played.ask(ScoreOwnVotes()).scores.n_rows == 15
    with pytest.raises(RemoteProtocolError, match="no more parts"):
        played.begin(_alone(), part)


def test_a_baseline_of_another_protocol_than_its_run_is_refused(tmp_path: Path) -> None:
    """A party's own rows alone would be scored beside each party's columns alone."""
    over_columns = VerticalRole(data="people", label="y", rows=HELD_OUT)
    played = _play(tmp_path / "columns")
    run = played.begin(over_columns, VALIDATED).hex()
    with pytest.raises(RemoteProtocolError, match="another protocol"):
        played.begin(_alone(), msgspec.structs.replace(VALIDATED, part_of=run))
    played, run = _trained(tmp_path / "rows")
    baseline = msgspec.structs.replace(over_columns, is_alone=True)
    with pytest.raises(RemoteProtocolError, match="another protocol"):
        played.begin(baseline, msgspec.structs.replace(VALIDATED, part_of=run))


def test_a_forest_grown_on_made_up_labels_does_not_pass_for_one_of_true_ones(
    tmp_path: Path,
) -> None:
    played = _play(tmp_path)
    played.begin(VerticalRole(data="people", label="y", rows=HELD_OUT), VALIDATED)
    played.ask(BinColumns(1, FOREST.max_bins, GINI))
    made_up = EncodedLabels(memoryview(bytes(45)), NOTHING, NOTHING)
    with pytest.raises(RemoteProtocolError, match="not those that their owner gave out"):
        played.ask(TakeLabels(2, GINI, made_up))
    shared = played.ask(ShareLabels((1, 0))).labels
    with pytest.raises(RemoteProtocolError, match="not those that their owner gave out"):
        played.ask(TakeLabels(2, GINI, made_up))
    played.ask(TakeLabels(2, GINI, shared))


@pytest.mark.parametrize(("n_predicted", "n_counts"), [(1, 0), (9, 0), (10, 4), (0, 4)])
def test_votes_that_single_out_a_few_rows_get_no_counts_of_classes(
    n_predicted: int, n_counts: int
) -> None:
    """Few rows predicted as one class would tell how many of them have which label."""
    accountant = RunAccountant(DataSetRules(), lambda _: None, b"")
    truth = TrueClasses(np.arange(30) % 2, 2)
    votes = np.tile([1.0, 0.0], (30, 1))
    votes[:n_predicted] = [0.0, 1.0]
    party = ScoringParty(truth, accountant=accountant)
    asked = ScoreVotes(memoryview(votes.astype("<f8").tobytes()))
    told: Any = Gate(CONTRACT, None, party, accountant).handle(asked)
    assert len(told.scores.confusion) == 8 * n_counts
    assert accountant.has_approved
