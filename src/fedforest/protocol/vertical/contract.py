"""The contract of a vertical training: what a party answers, given what was declared.

`VerticalParty` holds what follows from the growing trees themselves: their depth, the rows of every
child, and that a node is asked about again only while it has no valid split.
"""

from dataclasses import dataclass

from fedforest.protocol.asking import check
from fedforest.protocol.contract import BEGINNING, Clause, once, unlimited
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    BinColumns,
    FindSplits,
    FinishTrees,
    ShareLabels,
    StartTrees,
    TakeLabels,
    WeighColumns,
)
from fedforest.tree.growth.parameters import ForestParameters


@dataclass(frozen=True, slots=True)
class VerticalDeclared:
    """The numbers that the coordinator declared to one party, and the size of the party's table."""

    parameters: ForestParameters
    n_rows: int
    n_trees_before: int = 0  # of the forest that gets further trees
    label_epsilon: float | None = None
    votes_left_out: bool = False
    tells_votes: bool = False

    @property
    def n_trees(self) -> int:
        """Return how many trees may be grown."""
        return self.parameters.n_estimators - self.n_trees_before


def check_bins(declared: VerticalDeclared, request: BinColumns) -> None:
    """Require the number of bins and the criterion."""
    parameters = declared.parameters
    check(request.max_bins == parameters.max_bins, "bins are not as many as declared")
    is_same = request.criterion == parameters.scored_by.wire
    check(is_same, "the criterion is not the one declared")


def _protected_as_declared(declared: VerticalDeclared, request: ShareLabels) -> None:
    """Require the protection of labels."""
    is_same = request.epsilon == declared.label_epsilon
    check(is_same, "labels are asked for in another protection than declared")


def _labels_as_declared(declared: VerticalDeclared, request: TakeLabels) -> None:
    """Require the task and the criterion."""
    parameters = declared.parameters
    is_same = request.criterion == parameters.scored_by.wire
    check(is_same, "the criterion is not the one declared")
    is_regression = parameters.task == "regression"
    check((request.n_classes == 0) == is_regression, "labels are not those of the task declared")


def check_trees(declared: VerticalDeclared, request: StartTrees) -> None:
    """Require the way to draw rows, the size of leaves, and whether rows left out are followed."""
    parameters, n_rows = declared.parameters, declared.n_rows
    sampling = parameters.sampling(n_rows)
    is_same = (request.bootstrap, request.n_draws) == (sampling.bootstrap, sampling.n_draws)
    check(is_same, "trees are to draw rows in another way than declared")
    least = parameters.min_rows_leaf(n_rows), float(parameters.min_weight_fraction_leaf)
    is_same = (request.min_rows_leaf, request.min_weight_share) == least
    check(is_same, "leaves are to be of another size than declared")
    is_declared = declared.votes_left_out or not request.with_left_out
    check(is_declared, "rows that trees leave out are to be told about, which was not declared")


def _votes_as_declared(declared: VerticalDeclared, request: WeighColumns) -> None:
    """Require whether votes of rows left out are told."""
    is_declared = declared.tells_votes or not request.with_votes
    check(is_declared, "votes are asked for, which was not declared")


def count_trees(request: StartTrees) -> int:
    """Count the trees that a request begins."""
    return len(request.row_seeds) // 8


def slot_of(request: StartTrees | FindSplits | ApplySplits | FinishTrees) -> int:
    """Return the place of a batch of trees among those that grow side by side."""
    return request.slot


GROWING = (StartTrees, FindSplits, ApplySplits, FinishTrees)
AS_LONG = "as long as trees have open nodes"

CONTRACT: tuple[Clause[VerticalDeclared], ...] = (
    Clause(BinColumns, (BEGINNING,), once, "once", fits=check_bins),
    Clause(
        ShareLabels,
        (BinColumns,),
        once,
        "once, at the label party",
        fits=_protected_as_declared,
    ),
    Clause(TakeLabels, (BinColumns, ShareLabels), once, "once", fits=_labels_as_declared),
    # a label party without columns only weighs the roots of a batch
    Clause(
        StartTrees,
        (TakeLabels, FinishTrees, StartTrees),
        lambda declared: declared.n_trees,
        "the trees declared",
        count_trees,
        check_trees,
        slot_of,
    ),
    Clause(FindSplits, (StartTrees, FindSplits, ApplySplits), unlimited, AS_LONG, slot=slot_of),
    Clause(
        ApplySplits,
        (FindSplits,),
        unlimited,
        "once a step, at a party that won",
        slot=slot_of,
    ),
    Clause(
        FinishTrees,
        (StartTrees, FindSplits, ApplySplits),
        unlimited,
        "once a batch of trees",
        slot=slot_of,
    ),
    # a run that ends early gives up the trees that still grow
    Clause(WeighColumns, (TakeLabels, *GROWING), once, "once, at the end", fits=_votes_as_declared),
)
