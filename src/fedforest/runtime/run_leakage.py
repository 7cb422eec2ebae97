"""The leakage report of a run in a federation: who learned what, from its messages and figures.

The plain words are those that message types declare, the figures those of the run's exchange log;
what follows from all of it together is said by the reports of the protocols (`leakage.py`,
`horizontal_leakage.py`, `linear_leakage.py`). Nothing here is written by hand for a run.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fedforest.privacy.composition import (
    PrivacySpending,
    spend_global,
    spend_local,
    spend_nothing_private,
)
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.queries import Queries
from fedforest.protocol.asking import Message
from fedforest.runtime.driver import Exchange
from fedforest.runtime.horizontal_leakage import HorizontalRun, report_horizontal_forest
from fedforest.runtime.known_attacks import (
    EXACT_SUMS,
    NOISY_SUMS,
    PARTIES_CHANGE,
    Attack,
    attacks_on,
)
from fedforest.runtime.leakage import LeakageReport, VerticalRun, report_vertical_forest
from fedforest.runtime.linear_leakage import report_linear_training
from fedforest.runtime.message_pairs import Undeclared, find_messages
from fedforest.runtime.orders import AnyRun, TrainHorizontal, TrainLinear, TrainVertical
from fedforest.runtime.results import Alignment, HorizontalResult, LinearResult, VerticalResult
from fedforest.tree.forest_file import StoredForest, decode_forest

COORDINATOR, USER = "the coordinator", "the user"
_OF_RESULT = {
    VerticalResult: "the number and the importance of each party's columns, the names of classes, "
    "and out-of-bag scores and votes if they were asked for",
    HorizontalResult: "the finished model: every split with its threshold, and what every leaf "
    "says",
    LinearResult: "the number of each party's columns, the names of classes, and the intercept of "
    "standardised columns",
    Alignment: "how many rows every party has, how many have no id of their own, and how many are "
    "common to all",
}

_UNKNOWN = {"label_epsilon_spent": "not limited"}

AnyResult = VerticalResult | HorizontalResult | LinearResult | Alignment
Figures = dict[str, int | float | None]


@dataclass(slots=True)
class Learning:
    """What one role learned from all messages of one kind."""

    who: str
    source: str  # whom or what it is about: a party, or others
    message: str
    reveals: str
    n_messages: int = 0
    n_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "who": self.who,
            "from": self.source,
            "message": self.message,
            "reveals": self.reveals,
            "count": self.n_messages,
            "bytes": self.n_bytes,
        }


@dataclass(frozen=True, slots=True)
class RunLeakage:
    """Who learned what in one run; `to_text` is for people, `to_json` for programs."""

    protocol: str
    learned: tuple[Learning, ...]
    figures: Figures
    follows: LeakageReport
    attacks: tuple[Attack, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol,
            "figures": self.figures,
            "learned": [learning.to_json() for learning in self.learned],
            "follows": [{"who": entry.who, "what": entry.what} for entry in self.follows],
            "attacks": [attack.to_json() for attack in self.attacks],
        }

    def to_text(self) -> str:
        return "\n".join([*self._figures(), "", *self._messages(), "", *self._conclusions()])

    def _figures(self) -> Iterator[str]:
        yield f"A {self.protocol} run."
        for name, value in self.figures.items():
            shown = _UNKNOWN.get(name, "not known") if value is None else f"{value:,.6g}"
            yield f"  {name.replace('_', ' ')}: {shown}"

    def _messages(self) -> Iterator[str]:
        who = ""
        for learning in self.learned:
            if learning.who != who:
                who = learning.who
                yield f"What messages told {who}:"
            yield (
                f"  {learning.message} from {learning.source} x {learning.n_messages}, "
                f"{learning.n_bytes:,} bytes: {learning.reveals}"
            )

    def _conclusions(self) -> Iterator[str]:
        yield "What follows from it:"
        yield from (f"  {line}" for line in str(self.follows).splitlines())
        if self.attacks:
            yield ""
            yield "Known attacks that have something to work with:"
            yield from (f"  - {attack.to_text()}" for attack in self.attacks)


def run_leakage(
    order: AnyRun, result: AnyResult, exchanges: Iterable[Exchange], spent_before: float = 0.0
) -> RunLeakage:
    """The report of a training, from its order, its result and its exchange log.

    `spent_before` is the epsilon that earlier trainings of the same forest spent on its labels.
    """
    log = list(exchanges)
    learned = [*_collect(order, log), _learned_by_user(result)]
    replies = {learning.message for learning in learned if learning.who == COORDINATOR}
    if isinstance(result, Alignment):
        traffic: Figures = {"rows": result.n_common, **_count_traffic(log)}
        nothing_else = LeakageReport(())
        return RunLeakage(
            "alignment", tuple(learned), traffic, nothing_else, tuple(attacks_on(replies))
        )
    if isinstance(order, TrainLinear):
        assert isinstance(result, LinearResult)
        figures, follows = _report_linear(order, result, log)
        return RunLeakage("linear", tuple(learned), figures, follows, tuple(attacks_on(replies)))
    if isinstance(order, TrainVertical):
        assert isinstance(result, VerticalResult)
        epsilon = order.spent_epsilon
        run = describe_vertical_run(order, result, spent_before + epsilon)
        follows = report_vertical_forest(run)
        n_columns = sum(result.columns_per_party.values())
    else:
        assert isinstance(order, TrainHorizontal)
        assert isinstance(result, HorizontalResult)
        stored = decode_forest(result.file)
        spending = _spend(order, result, stored)
        follows = report_horizontal_forest(_describe_horizontal(order, result, stored, spending))
        epsilon, n_columns = spending.epsilon, stored.forest.n_features
    rules = order.parameters.growth_rules(result.n_rows, n_columns)
    figures = {
        "rows": result.n_rows,
        "columns": n_columns,
        "trees": order.parameters.n_estimators,
        **_count_traffic(log),
        "nodes_asked_about": sum(_open_nodes(exchange) for exchange in log),
        "smallest_leaf_allowed": rules.min_rows_leaf,
        "smallest_side_told": _smallest_side(order, rules.min_rows_leaf),
        "smallest_group_of_rows": result.smallest_group,
        "label_epsilon_spent": _limited(epsilon),
    }
    if isinstance(order, TrainVertical) and order.continues is not None:
        figures["label_epsilon_spent_by_all_fits"] = _limited(spent_before + epsilon)
    protocol = "vertical" if isinstance(order, TrainVertical) else "horizontal"
    attacks = tuple(attacks_on(replies, _facts_of(order)))
    return RunLeakage(protocol, tuple(learned), figures, follows, attacks)


def _smallest_side(order: TrainVertical | TrainHorizontal, min_rows_leaf: int) -> int:
    """Rows on the smallest side of a cut that somebody may be told of, made or only tried."""
    if isinstance(order, TrainHorizontal):
        return 1  # cuts are counted before anybody knows how even they are
    follows_left_out = order.out_of_bag or order.early_stopping is not None
    return 1 if follows_left_out else min_rows_leaf


def _facts_of(order: TrainVertical | TrainHorizontal) -> frozenset[str]:
    """What attacks need to know about a training beyond its messages."""
    if isinstance(order, TrainVertical):
        return frozenset()
    facts = {EXACT_SUMS if order.privacy is None else NOISY_SUMS}
    if order.participation < 1.0 and order.participation_scope == "step":
        facts.add(PARTIES_CHANGE)
    return frozenset(facts)


def _limited(epsilon: float) -> float | None:
    """As a figure: None where nothing limits what labels tell."""
    return epsilon if math.isfinite(epsilon) else None


def _count_traffic(log: list[Exchange]) -> Figures:
    return {"exchanges": len(log), "bytes": sum(exchange.n_bytes for exchange in log)}


def _open_nodes(exchange: Exchange) -> int:
    return int(exchange.note.get("open_nodes", 0) or 0)


def _collect(order: AnyRun, log: Iterable[Exchange]) -> list[Learning]:
    """By role and kind of message, the coordinator first."""
    found: dict[tuple[str, str, str], Learning] = {}

    def add(who: str, source: str, message: type[Message], n_bytes: int) -> None:
        name = message.__name__ if message is not Undeclared else exchange.request
        key = (who, source, name)
        learning = found.setdefault(key, Learning(*key, message.reveals))
        learning.n_messages += 1
        learning.n_bytes += n_bytes

    for exchange in log:
        request, reply = find_messages(order, exchange.request)
        for party, n_bytes in exchange.bytes_from.items():
            add(COORDINATOR, party, reply, n_bytes)
        for party, n_bytes in exchange.bytes_to.items():
            add(party, "the coordinator, of others", request, n_bytes)
    return sorted(found.values(), key=lambda learning: (learning.who != COORDINATOR, learning.who))


def _learned_by_user(result: AnyResult) -> Learning:
    kind = type(result)
    return Learning(USER, COORDINATOR, kind.__name__, _OF_RESULT[kind], 1)


def _report_linear(
    order: TrainLinear, result: LinearResult, log: list[Exchange]
) -> tuple[Figures, LeakageReport]:
    columns = result.columns_per_party
    figures: Figures = {
        "rows": result.n_rows,
        "columns": sum(columns.values()),
        "steps": result.n_iter,
        **_count_traffic(log),
        "label_epsilon_spent": None,  # nothing protects them
    }
    follows = report_linear_training(
        columns, order.label_party, result.n_iter, is_regression=order.is_regression
    )
    return figures, follows


def describe_vertical_run(
    order: TrainVertical, result: VerticalResult, label_epsilon: float
) -> VerticalRun:
    """What a report needs to know of a training; epsilon is what its labels have spent so far."""
    n_columns = sum(result.columns_per_party.values())
    return VerticalRun(
        parties=tuple(order.data),
        label_party=order.label_party,
        is_regression=order.is_regression,
        label_epsilon=label_epsilon,
        is_weighted=order.weight is not None,
        has_class_weights=order.class_weight is not None,
        out_of_bag=order.with_left_out,
        votes_released=order.out_of_bag,
        bootstrap=order.parameters.bootstrap,
        min_rows_leaf=order.parameters.growth_rules(result.n_rows, n_columns).min_rows_leaf,
        in_federation=True,
    )


def _describe_horizontal(
    order: TrainHorizontal,
    result: HorizontalResult,
    stored: StoredForest,
    spending: PrivacySpending,
) -> HorizontalRun:
    rules = order.parameters.growth_rules(result.n_rows, stored.forest.n_features)
    plug = order.plug()
    return HorizontalRun(
        n_parties=len(order.data),
        n_trees=order.parameters.n_estimators,
        n_columns=stored.forest.n_features,
        candidates=rules.features_per_node,
        is_regression=order.is_regression,
        aggregation=None if plug == "plain" else plug,
        spending=spending,
        participation=order.participation,
        scope=order.participation_scope,
        least_participants=order.least,
        is_weighted=order.weight is not None,
        is_balanced=isinstance(order.class_weight, str),
        has_categories=bool(stored.bins.is_categorical.any()),
        draws_rows=bool(order.parameters.bootstrap),
        min_rows_leaf=rules.min_rows_leaf,
        min_rows_split=rules.min_rows_split,
        is_seeded=False,  # parties of a federation draw from entropy of their own
        in_federation=True,
    )


def _spend(
    order: TrainHorizontal, result: HorizontalResult, stored: StoredForest
) -> PrivacySpending:
    """What the training cost the labels' privacy: what was possible, not what happened to occur."""
    depth = order.parameters.max_depth
    grown = int(stored.forest.shape.depths().max(initial=0))
    queries = Queries(
        result.candidates_per_node, grown if depth is None else int(depth), result.n_trees_begun
    )
    noise = order.noise()
    if noise is None:
        return spend_nothing_private(queries)
    if isinstance(noise, LocalDP):
        n_classes = 0 if stored.classes is None else len(stored.classes)
        return spend_local(noise.resolve(n_classes), queries)
    return spend_global(noise.resolve(queries), queries, is_regression=order.is_regression)
