"""What a coordinator that lies can still learn of encrypted labels, in figures.

It asks the label party alone, keeps to everything that it declared, and chooses the rows of each
run. `docs/explanation/privacy.md` states the figures.
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.errors import PolicyRefusal
from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.protocol.scoring.messages import ScoreLeaves
from fedforest.protocol.vertical.encrypted.messages import EncryptLabels, EndTraining, JudgeRoots
from fedforest.protocol.vertical.messages import BinColumns, FinishTrees, StartTrees
from fedforest.runtime.messages.roles import RowChoice, ScoringRole, VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.party.row_selection import hold_out
from fedforest.tree.forest.metrics import CLASS_SCORES
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.lone_party import LoneParty
from tests.hostile.played_coordinator import Asking, PlayedCoordinator

pytest.importorskip("rbcl")
N_ROWS, HELD_OUT = 40, 0.4
GINI = BY_NAME["gini"].wire
RULES = DataSetRules(label_protection="encrypted", label_columns=("y",))
CHOSEN = RowChoice(held_out=HELD_OUT, seed=0)
Labels = NDArray[np.int64]


def _begin_tree(played: Asking, rows: RowChoice, terms: Terms) -> int:
    """Begin one tree at the label party alone; return how many rows it has."""
    played.begin(VerticalRole(data="people", label="y", rows=rows, label_party="bank"), terms)
    n_rows: int = played.ask(BinColumns(1, 255, GINI)).size.n_rows
    played.ask(EncryptLabels((0, 1), 1))
    least = terms.forest.min_samples_leaf if terms.forest else 1
    start = StartTrees(
        memoryview(bytes(8)),
        bootstrap=False,
        n_draws=n_rows,
        min_rows_leaf=int(least),
        with_left_out=False,
    )
    played.ask(start)
    return n_rows


def _terms(least: int, **more: Any) -> Terms:
    forest = ForestParameters(n_estimators=1, min_samples_leaf=least, bootstrap=False)
    return Terms(asker="ann", n_parties=2, forest=forest, encrypts_labels=True, **more)


def _count_right(played: PlayedCoordinator, rows: RowChoice) -> int:
    """How many held-out rows have the class that most of the others have."""
    terms = _terms(N_ROWS, validates=True)  # the tree is one leaf
    _begin_tree(played, rows, terms)
    run = played.run
    played.ask(JudgeRoots())
    played.ask(FinishTrees(None))
    played.ask(EndTraining(1))
    played.end(run)
    held_out = msgspec.structs.replace(rows, is_validation=True)
    role = ScoringRole(data="people", label="y", rows=held_out, model=run.hex())
    played.begin(role, msgspec.structs.replace(terms, part_of=run.hex()))
    n_rows = int(hold_out(N_ROWS, rows.held_out, rows.seed).sum())
    sheet = played.ask(ScoreLeaves(memoryview(bytes(2 * n_rows)), hard_votes=True)).scores
    accuracy: float = sheet.read(is_regression=False).values[CLASS_SCORES[0]]
    return round(accuracy * n_rows)


def test_scores_of_as_many_runs_as_there_are_rows_tell_every_encrypted_label(
    tmp_path: Path,
) -> None:
    """Each score is an exact sum over held-out rows that the coordinator chose by a seed."""
    rng = np.random.default_rng(0)
    y = (rng.random(N_ROWS) < 0.25).astype(np.int64)  # most rows of every run are of class 0
    people: Any = {"x": rng.normal(size=N_ROWS), "y": y}
    with pytest.raises(PolicyRefusal):  # unless the owner allows scores
        _count_right(PlayedCoordinator(tmp_path / "strict", RULES, people=people), CHOSEN)
    allowing = msgspec.structs.replace(RULES, validation=True)
    played = PlayedCoordinator(tmp_path / "allowing", allowing, people=people)
    choices = [RowChoice(held_out=HELD_OUT, seed=seed) for seed in range(N_ROWS + 5)]
    counted = np.array([_count_right(played, rows) for rows in choices])
    asked = np.array([hold_out(N_ROWS, HELD_OUT, rows.seed) for rows in choices], np.float64)
    solved, *_ = np.linalg.lstsq(asked, counted, rcond=None)
    assert (1 - np.rint(solved).astype(np.int64)).tolist() == y.tolist()


def test_whether_a_root_becomes_a_leaf_tells_if_chosen_rows_share_a_label(tmp_path: Path) -> None:
    """By alignments, one row beside nine that are known to share one: a label for each run."""
    party = LoneParty(tmp_path)
    rules = 'label_protection = "encrypted"\nlabel_columns = ["y"]'
    party.demand(f"[default]\n{rules}\n")
    y = np.r_[np.zeros(9, np.int64), np.random.default_rng(1).integers(0, 2, 20)]
    party.write("rows.csv", {"id": range(29), "x": range(29), "y": y.tolist()})
    party.add("people", source="rows.csv", id=["id"])
    told = []
    for row in range(9, 29):
        chosen = party.align("people", np.r_[np.arange(9), row], f"{row:032x}")
        rows = RowChoice(alignment=chosen)
        _begin_tree(party, rows, _terms(5))
        told.append(int(party.ask(JudgeRoots()).fates.data[0] != 0))
        party.end()
    assert told == y[9:].tolist()
