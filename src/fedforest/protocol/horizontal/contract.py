"""The contract of a horizontal training: what a party answers, given what was declared.

`HorizontalParty` holds what follows from the growing trees themselves: their number and depth, that
a column of a node is counted once, and the participants of every sum.
"""

import math
from dataclasses import dataclass

import msgspec

from fedforest.limits import is_whole
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.queries import Queries
from fedforest.protocol.aggregation.messages import (
    AddShares,
    Count,
    CountMasked,
    CountNoisily,
    Introduce,
    MeetPeers,
    PassOn,
    ShareOut,
    TakeSeeds,
)
from fedforest.protocol.asking import check
from fedforest.protocol.contract import BEGINNING, Clause, once, unlimited
from fedforest.protocol.horizontal.messages import (
    AgreeOnTable,
    BeginTrees,
    DeclareTable,
    ProposeThresholds,
    Protection,
    TakeForest,
)
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT, GrowthRules
from fedforest.tree.growth.parameters import ForestParameters

MOST_RESTARTS = 64  # of trees after losses, however many parties a run has
_ROUNDING = 1e-9  # relative, of an epsilon that two machines calculate


@dataclass(frozen=True, slots=True)
class HorizontalDeclared:
    """The numbers that the coordinator declared to one party, and the size of the party's table."""

    parameters: ForestParameters
    n_rows: int
    n_parties: int
    noise: LocalDP | GlobalDP | None = None
    share: float | None = None  # by which parties draw participants; None: plain sums


def count_queries(parameters: ForestParameters, rules: GrowthRules) -> Queries:
    """Return how often one row's label is counted at most: candidates x levels x trees."""
    levels = None if rules.max_depth == NO_DEPTH_LIMIT else rules.max_depth
    return Queries(rules.features_per_node, levels, parameters.n_estimators)


def count_losses(n_parties: int, noise: LocalDP | GlobalDP | None) -> int:
    """Return how often trees are begun anew after a loss at most: under noise never.

    Trees begun anew are counted anew, and their noise is drawn anew. How many parties there are a
    party has from the coordinator alone where sums are plain: so there is a limit.
    """
    return min(n_parties - 1, MOST_RESTARTS) if noise is None else 0


def describe_protection(
    noise: LocalDP | GlobalDP | None, n_classes: int, queries: Queries
) -> Protection:
    """Describe the noise that parties must add."""
    if noise is None:
        return Protection()
    if isinstance(noise, LocalDP):
        code = noise.resolve(n_classes)
        return Protection("local", code.bits, code.hashes, code.keep, code.p, code.q)
    low, high = noise.target_bounds or (0.0, 0.0)
    epsilon = noise.resolve(queries)
    return Protection("global", epsilon_query=epsilon, low=low, high=high)


def _table_as_declared(declared: HorizontalDeclared, request: DeclareTable) -> None:
    """Require the task and the criterion."""
    parameters = declared.parameters
    is_regression = parameters.task == "regression"
    check(request.is_regression == is_regression, "the task is not the one declared")
    is_same = request.criterion == parameters.scored_by.wire
    check(is_same, "the criterion is not the one declared")


def _agreed_as_declared(declared: HorizontalDeclared, request: AgreeOnTable) -> None:
    """Require the trees, depth, candidates, noise, side counted and most restarts."""
    parameters, noise = declared.parameters, declared.noise
    rules = parameters.growth_rules(declared.n_rows, len(request.names))
    depth = min(rules.max_depth, NO_DEPTH_LIMIT)
    wanted = parameters.n_estimators, depth, rules.features_per_node
    is_same = (request.n_trees, request.max_depth, request.candidates_per_node) == wanted
    check(is_same, "trees, depth or candidates are not those declared")
    most_losses = count_losses(declared.n_parties, noise)
    check(request.most_losses <= most_losses, "trees may be begun anew more often than declared")
    check(request.both_sides == (noise is not None), "cuts are to be counted on another side")
    share = None if request.draw is None else request.draw.share
    check(share == declared.share, "participants are not to be drawn as declared")
    expected = describe_protection(noise, len(request.classes), count_queries(parameters, rules))
    check(_is_same(request.protection, expected), "the noise is not the one declared")


def _is_same(asked: Protection, expected: Protection) -> bool:
    """Compare two protections; an epsilon may differ by the rounding of another machine."""
    epsilons = asked.epsilon_query, expected.epsilon_query
    if not math.isclose(*epsilons, rel_tol=_ROUNDING):
        return False
    asked = msgspec.structs.replace(asked, epsilon_query=expected.epsilon_query)
    return msgspec.structs.astuple(asked) == msgspec.structs.astuple(expected)


def _trees_as_declared(declared: HorizontalDeclared, request: ProposeThresholds) -> None:
    """Require the way to draw rows."""
    if request.start is not None:
        is_same = _draws_as_declared(declared.parameters, declared.n_rows, request.start)
        check(is_same, "trees are to draw rows in another way than declared")


def _draws_as_declared(parameters: ForestParameters, n_rows: int, start: BeginTrees) -> bool:
    """Tell whether trees draw as declared; a party knows its own rows, not those of all."""
    if start.bootstrap != parameters.bootstrap:
        return False
    if parameters.max_samples is None:
        return start.n_draws == start.n_rows
    n_draws = n_rows * start.n_draws / start.n_rows
    if is_whole(parameters.max_samples):
        return n_draws <= parameters.max_samples
    return abs(n_draws - parameters.max_samples * n_rows) <= 1.0 + n_rows / 2**20


COUNTS = (Count, CountNoisily, CountMasked, PassOn, ShareOut, AddShares)
_PREPARED = (AgreeOnTable, MeetPeers, TakeSeeds)
_AS_LONG = "as long as trees have open nodes"

CONTRACT: tuple[Clause[HorizontalDeclared], ...] = (
    Clause(DeclareTable, (BEGINNING,), once, "once", fits=_table_as_declared),
    Clause(AgreeOnTable, (DeclareTable,), once, "once", fits=_agreed_as_declared),
    Clause(Introduce, (AgreeOnTable,), once, "once, where sums are protected"),
    Clause(MeetPeers, (Introduce,), once, "once, where sums are protected"),
    Clause(TakeSeeds, (MeetPeers,), once, "once, where parties choose their peers"),
    Clause(
        ProposeThresholds,
        (*_PREPARED, ProposeThresholds, *COUNTS),
        unlimited,
        _AS_LONG,
        fits=_trees_as_declared,
    ),
    # before the first tree, classes are counted over whole tables where they are to be balanced
    *(
        Clause(count, (*_PREPARED, ProposeThresholds), unlimited, "once a step")
        for count in (Count, CountNoisily, CountMasked, ShareOut)
    ),
    Clause(PassOn, (*_PREPARED, ProposeThresholds, PassOn), unlimited, "once a step and ring"),
    Clause(AddShares, (ShareOut,), unlimited, "once a step"),
    Clause(TakeForest, (*_PREPARED, ProposeThresholds, *COUNTS), once, "once, at the end"),
)
