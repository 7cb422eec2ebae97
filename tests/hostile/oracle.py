"""What a coordinator can conclude from everything a party told it, computed for tiny tables.

The oracle hears every answered request of a conversation and knows the table. Each rule at the end
of this file is one promise to the owner of the data, and raises `AssertionError` if the replies of
all runs together break it. Noise is metered where it is drawn, so that the oracle need not believe
what a run declared.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.privacy.global_dp import GlobalDP, add_noise
from fedforest.privacy.local_dp import ResponseCode, permanent_responses, respond_instantly
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.aggregation.messages import CountParts, NoisilyCounted
from fedforest.protocol.horizontal.contract import count_losses
from fedforest.protocol.horizontal.messages import CutsQuestion, DeclareTable, ProposeThresholds
from fedforest.protocol.horizontal.party import statistics
from fedforest.protocol.label_door import tells_labels
from fedforest.protocol.linear.messages import Measure, Propose
from fedforest.protocol.scoring.messages import Scored
from fedforest.protocol.vertical.messages import ShareLabels
from fedforest.runtime.messages.roles import (
    AloneRole,
    AnyRole,
    HorizontalRole,
    RowChoice,
    ScoringRole,
    VerticalRole,
)
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.party.row_selection import hold_out
from tests.hostile.trees_told import HorizontalTold, VerticalTold

Table = dict[str, NDArray[Any]]
_QUESTION = msgspec.msgpack.Decoder(CutsQuestion)
_SLACK = 1e-6  # of an epsilon: the ledger adds up in another order


class Coin(NamedTuple):
    """The permanent response of one row: the same coin is the same noise, in whatever run."""

    key: bytes
    parameters: bytes
    row: int


@dataclass
class NoiseMeter:
    """Notes every draw of noise while the party works on one request."""

    responses: list[float] = field(default_factory=list)  # epsilons of randomized responses
    laplace: list[tuple[float, int]] = field(default_factory=list)  # epsilon, queries
    instant: list[tuple[ResponseCode, int]] = field(default_factory=list)  # code, queries
    coins: tuple[ResponseCode, list[Coin]] | None = None

    def forget(self) -> None:
        self.responses, self.laplace, self.instant, self.coins = [], [], [], None

    def connect(self, patch: pytest.MonkeyPatch) -> None:
        """Stand between the party and its noise; nothing that is drawn changes."""
        draw = RandomizedResponse.draw

        def note_draw(self_: Any, *args: Any) -> Any:
            self.responses.append(self_.epsilon)
            return draw(self_, *args)

        def note_laplace(plain: Any, epsilon: float, *args: Any) -> Any:
            self.laplace.append((epsilon, len(plain)))
            return add_noise(plain, epsilon, *args)

        def note_instant(code: ResponseCode, sums: Any, *args: Any) -> None:
            self.instant.append((code, len(sums)))
            respond_instantly(code, sums, *args)

        def note_permanent(code: ResponseCode, labels: Any, rows: Any, key: bytes) -> Any:
            coins = [Coin(key, code.parameter_set, row) for row in rows.tolist()]
            self.coins = code, coins
            return permanent_responses(code, labels, rows, key)

        patch.setattr(RandomizedResponse, "draw", note_draw)
        patch.setattr(statistics, "add_noise", note_laplace)
        patch.setattr(statistics, "respond_instantly", note_instant)
        patch.setattr(statistics, "permanent_responses", note_permanent)


@dataclass
class RunTold:
    """One run: what it declared, and what the party told in it."""

    run: bytes
    role: AnyRole
    terms: Terms
    rows: NDArray[np.int64]  # of the table
    exchanges: list[tuple[Any, Any]] = field(default_factory=list)
    vertical: VerticalTold | None = None
    horizontal: HorizontalTold | None = None
    epsilon_of_labels: float = 0.0  # of noisy labels, drawn independently
    epsilon_of_query: float = 0.0  # of Laplace noise
    coins: tuple[ResponseCode, list[Coin]] | None = None
    n_plain: int = 0  # statistics of labels without any noise

    def replies(self, kind: type) -> Iterator[Any]:
        return (reply for _, reply in self.exchanges if isinstance(reply, kind))

    def count(self, kind: type) -> int:
        return sum(isinstance(request, kind) for request, _ in self.exchanges)


class Oracle:
    """Hears all runs of a conversation on one table."""

    def __init__(self, rules: DataSetRules, tables: dict[str, Table]) -> None:
        self.rules, self.tables = rules, tables
        self.meter = NoiseMeter()
        self.runs: dict[bytes, RunTold] = {}
        self.booked: dict[str, float] = {}  # by the party's ledgers, all runs together

    @property
    def is_limited(self) -> bool:
        """Whether the owner limits what may be learned of a label."""
        limited = math.isfinite(self.rules.epsilon_ceiling)
        return limited or self.rules.label_protection == "randomized_response"

    def features(self, role: AnyRole) -> list[str]:
        return [name for name in self.tables[role.data] if name not in (role.label, role.weight)]

    def begin(self, run: bytes, role: AnyRole, terms: Terms) -> None:
        table = self.tables[role.data]
        n_rows = len(table["x0"])
        told = RunTold(run, role, terms, choose_rows(n_rows, role.rows))
        if isinstance(role, VerticalRole):
            told.vertical = VerticalTold(len(told.rows))
        if isinstance(role, HorizontalRole):
            columns = [table[name][told.rows] for name in self.features(role)]
            told.horizontal = HorizontalTold(np.stack(columns, axis=1).astype(np.float64))
        self.runs[run] = told

    def hear(self, run: bytes, request: Any, reply: Any) -> None:
        """Note an answered request; the meter holds the noise that was drawn for it."""
        told = self.runs[run]
        if hasattr(request, "step") and is_known(told, request, reply):
            return  # a step that is asked for again has the reply it had
        told.exchanges.append((request, reply))
        if self.meter.coins is not None:
            told.coins = self.meter.coins
        if told.vertical is not None:
            told.vertical.hear(request, reply)
        if isinstance(request, ProposeThresholds) and told.horizontal is not None:
            told.horizontal.propose(request, reply)
        if isinstance(request, CountParts):
            self._hear_counts(told, request, reply)
        elif isinstance(request, ShareLabels) and reply.noisy_labels is not None:
            told.n_plain += not self.meter.responses
            told.epsilon_of_labels += sum(self.meter.responses)
        elif tells_labels(reply) and not told.epsilon_of_labels:
            told.n_plain += 1  # what follows from noisy labels that were given out is no release

    def _hear_counts(self, told: RunTold, request: CountParts[Any], reply: Any) -> None:
        assert told.horizontal is not None
        n_asked = 0
        for part in request.parts:
            question = _QUESTION.decode(part.question)
            n_asked += 1 if question.whole_table else told.horizontal.count(question)
        drawn = [n for _, n in self.meter.laplace] + [n for _, n in self.meter.instant]
        is_noisy = isinstance(reply, NoisilyCounted) and sum(drawn) >= n_asked
        told.n_plain += 0 if is_noisy else 1
        told.epsilon_of_query = max([told.epsilon_of_query, *(e for e, _ in self.meter.laplace)])

    def evidence(self, data: str) -> NDArray[np.float64]:
        """How strongly all replies may speak for one label of each row against another, in nats."""
        total = np.zeros(len(self.tables[data]["x0"]))
        answers: Counter[tuple[Coin, int, str]] = Counter()
        known: dict[tuple[Coin, int], ResponseCode] = {}
        for told in self._about(data):
            total[told.rows] += told.epsilon_of_labels + (math.inf if told.n_plain else 0.0)
            if told.horizontal is None:
                continue
            asked = told.horizontal.queries
            total[told.rows] += told.epsilon_of_query * asked
            code, coins = told.coins or (None, [])
            for coin, row, n_asked in zip(coins, told.rows.tolist(), asked.tolist(), strict=False):
                assert code is not None
                known[coin, row] = code
                answers[coin, row, "set"] += n_asked * _log(code.p, code.q)
                answers[coin, row, "clear"] += n_asked * _log(1.0 - code.q, 1.0 - code.p)
        for (coin, row), code in known.items():
            sides = (_through(code.keep, answers[coin, row, side]) for side in ("set", "clear"))
            total[row] += code.distance / 2 * sum(sides)
        return total

    def _about(self, data: str) -> Iterator[RunTold]:
        return (told for told in self.runs.values() if told.role.data == data)


def is_known(told: RunTold, request: Any, reply: Any) -> bool:
    """Tell whether the run told exactly this before."""
    said = msgspec.msgpack.encode((request, reply))
    return any(msgspec.msgpack.encode(exchange) == said for exchange in told.exchanges)


def _log(above: float, below: float) -> float:
    return math.inf if below == 0.0 else math.log(above / below)


def _through(keep: float, evidence: float) -> float:
    """What evidence for a permanent bit says of the true one (privacy/composition.py)."""
    return 2.0 * math.atanh(keep * math.tanh(evidence / 2.0)) if evidence else 0.0


def choose_rows(n_rows: int, choice: RowChoice | None) -> NDArray[np.int64]:
    """Return the rows of the table that a role is about."""
    if choice is None or choice.held_out == 0.0:
        return np.arange(n_rows)
    return np.flatnonzero(hold_out(n_rows, choice.held_out, choice.seed) == choice.is_validation)


def labels_tell_no_more_than_was_booked(oracle: Oracle) -> None:
    """The likelihood ratio of any two labels of a row is within what the ledger has booked."""
    for data in oracle.tables if oracle.is_limited else ():
        strongest, booked = float(oracle.evidence(data).max()), oracle.booked.get(data, 0.0)
        is_booked = strongest <= booked + _SLACK
        assert is_booked, f"replies tell {strongest:.3f} of a label, {booked:.3f} is booked"


def no_label_leaves_without_noise(oracle: Oracle) -> None:
    """Where labels are limited, no reply holds a statistic of them that is exact."""
    for told in oracle.runs.values():
        assert not (oracle.is_limited and told.n_plain), "exact statistics of labels were told"


def no_score_is_of_few_rows(oracle: Oracle) -> None:
    """Every score is over at least as many rows as the policy says."""
    for told in oracle.runs.values():
        for scored in told.replies(Scored):
            n_rows = scored.scores.n_rows
            assert n_rows >= oracle.rules.min_rows_per_score, f"a score of {n_rows} rows"


def scores_come_once(oracle: Oracle) -> None:
    """Votes of a model are scored once, and a run has no more scores than it declared."""
    models: Counter[str] = Counter()
    parts: Counter[tuple[str, str]] = Counter()
    for told in oracle.runs.values():
        n_scores = sum(1 for _ in told.replies(Scored))
        if isinstance(told.role, ScoringRole):
            models[told.role.model] += n_scores
        parts[told.terms.part_of, type(told.role).__name__] += n_scores
    assert all(n <= 1 for n in models.values()), "votes of one model were scored twice"
    for (run, kind), n_scores in parts.items():
        whole = oracle.runs.get(bytes.fromhex(run))
        assert not n_scores or whole is not None, "a score of no run"
        assert whole is None or n_scores <= _count_scores(whole, kind), "more scores than declared"


def _count_scores(whole: RunTold, kind: str) -> int:
    terms = whole.terms
    if kind == AloneRole.__name__:
        return int(terms.stands_alone)
    if not terms.validates:
        return 0
    is_many = terms.stands_alone and isinstance(whole.role, VerticalRole)
    return 1 + terms.n_parties * is_many


def trees_are_those_declared(oracle: Oracle) -> None:
    """Trees of a vertical run are as many, and draw rows as, the run declared."""
    for told, trees in _vertical(oracle):
        forest = told.terms.forest
        assert forest is not None
        sampling = forest.sampling(trees.n_rows)
        assert trees.n_trees <= forest.n_estimators, "more trees than declared"
        for start in trees.starts:
            drawn = start.bootstrap, start.n_draws
            assert drawn == (sampling.bootstrap, sampling.n_draws), "rows drawn another way"
        assert told.terms.votes_left_out or not trees.n_left_out_bits, "bits of left-out rows"


def no_small_group_is_told_apart(oracle: Oracle) -> None:
    """The bits of a node leave at least as many rows on each side as the policy says."""
    for _, trees in _vertical(oracle):
        smallest = min((len(side.rows) for pair in trees.sides for side in pair), default=math.inf)
        least = oracle.rules.min_rows_per_leaf
        assert smallest >= least, f"a group of {smallest} rows is told apart"


def a_node_tells_one_gain(oracle: Oracle) -> None:
    """The columns of a party are compared at a node once: gains of others would order them."""
    for _, trees in _vertical(oracle):
        assert all(n == 1 for n in trees.gains.values()), "a node told several gains"


def columns_are_divided_by_declared_nodes_only(oracle: Oracle) -> None:
    """A run tells no more divisions of rows than its trees have inner nodes."""
    for told, trees in _vertical(oracle):
        forest = told.terms.forest
        assert forest is not None
        assert len({pair[0].place for pair in trees.sides}) == len(trees.sides), "split twice"
        deepest = max((len(pair[0].turns) for pair in trees.sides), default=0)
        assert deepest <= forest.depth_limit, "a tree is deeper than declared"


def a_column_of_a_node_is_cut_once(oracle: Oracle) -> None:
    """Counts at two thresholds of one column, or two points of it, would locate its values."""
    for _, trees in _horizontal(oracle):
        assert all(n == 1 for n in trees.cuts.values()), "a column of a node was cut twice"
        assert all(n == 1 for n in trees.n_points.values()), "a column of a node told two points"


def extra_trees_are_those_declared(oracle: Oracle) -> None:
    """Trees of a horizontal run are as many, as deep and as often begun anew as declared."""
    for told, trees in _horizontal(oracle):
        forest, noise = told.terms.forest, told.terms.noise()
        assert forest is not None
        begun: Counter[frozenset[int]] = Counter()
        for start in trees.starts:
            begun[frozenset(start.left)] += len(start.segments) // 2
        assert all(n <= forest.n_estimators for n in begun.values()), "more trees than declared"
        most = 1 + count_losses(told.terms.n_parties, noise)
        assert len(begun) <= most, "trees were begun anew more often than declared"
        assert trees.deepest < forest.depth_limit, "a tree is deeper than declared"


def labels_of_a_node_are_counted_as_often_as_declared(oracle: Oracle) -> None:
    """Under noise, a node is asked for no more candidates than the ledger was told."""
    for told, trees in _horizontal(oracle):
        forest = told.terms.forest
        assert forest is not None
        if told.terms.privacy is not None:
            most = forest.growth_rules(len(told.rows), trees.X.shape[1]).features_per_node
            assert max(trees.asked.values(), default=0) <= most, "a node was counted too often"


def targets_have_the_size_of_their_bounds(oracle: Oracle) -> None:
    """Where bounds are declared for noise, the party declares them and not its own targets."""
    for told, _ in _horizontal(oracle):
        noise = told.terms.noise()
        if not told.role.is_regression or not isinstance(noise, GlobalDP):
            continue
        largest = max(map(abs, noise.target_bounds or (0.0, 0.0)))
        for request, reply in told.exchanges:
            if isinstance(request, DeclareTable):
                exponent = reply.labels.target_exponent
                assert exponent == math.frexp(largest)[1], "targets told their size"


def linear_steps_are_those_declared(oracle: Oracle) -> None:
    """A party with columns proposes a direction, and measures residuals, as often as declared."""
    for told in oracle.runs.values():
        most = told.terms.most_steps
        assert told.count(Propose) <= most, "more directions than steps"
        assert told.count(Measure) <= 1 + 41 * most, "residuals for more steps than declared"


def _vertical(oracle: Oracle) -> Iterator[tuple[RunTold, VerticalTold]]:
    for told in oracle.runs.values():
        if told.vertical is not None:
            yield told, told.vertical


def _horizontal(oracle: Oracle) -> Iterator[tuple[RunTold, HorizontalTold]]:
    for told in oracle.runs.values():
        if told.horizontal is not None:
            yield told, told.horizontal


PROMISES: tuple[Callable[[Oracle], None], ...] = (
    labels_tell_no_more_than_was_booked,
    no_label_leaves_without_noise,
    no_score_is_of_few_rows,
    scores_come_once,
    trees_are_those_declared,
    no_small_group_is_told_apart,
    a_node_tells_one_gain,
    columns_are_divided_by_declared_nodes_only,
    a_column_of_a_node_is_cut_once,
    extra_trees_are_those_declared,
    labels_of_a_node_are_counted_as_often_as_declared,
    targets_have_the_size_of_their_bounds,
    linear_steps_are_those_declared,
)
