"""Check requests against a party's rules: when a run is declared, and again while it runs.

A refusal names the rule, so that the asker can change the request. Only the party's own log says
what the rule protects.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedforest.error_texts import fields_of
from fedforest.errors import BudgetExhausted, DataError, PolicyRefusal
from fedforest.kernels.prediction.leap import LEAP
from fedforest.privacy.composition import PrivacySpending, spend_nothing_private
from fedforest.privacy.queries import Queries
from fedforest.protocol.alignment.messages import (
    BlindIds,
    BlindLists,
    HashIds,
    TakeMatches,
    TakeRows,
)
from fedforest.protocol.asking import Handler, Message, check
from fedforest.protocol.horizontal.messages import AgreeOnTable
from fedforest.protocol.horizontal.party.agreement import spending_of
from fedforest.protocol.linear.messages import Measure
from fedforest.protocol.scoring.messages import ScoreLeaves, ScoreOwnVotes, ScoreVotes
from fedforest.protocol.vertical.encrypted.messages import EncryptLabels
from fedforest.protocol.vertical.messages import ShareLabels, StartTrees
from fedforest.protocol.vertical.prediction.messages import LeapRows, RouteRows, SweepRows
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.roles import AnyRole, LinearRole, VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.data_sets import DataSet
from fedforest.runtime.party.policy import DataSetRules, Policy
from fedforest.runtime.party.tasks import task_of
from fedforest.runtime.planning.memory import bound_party_memory
from fedforest.runtime.trainings.origins import Origins
from fedforest.runtime.trainings.party_task import Demands, Sums

_LOG = logging.getLogger(__name__)
_ONCE = Queries(1, 1, 1)  # labels of vertical training leave once

Spend = Callable[[PrivacySpending], None]


def refusal(rule: str, what: str, **known: Any) -> PolicyRefusal:
    """Make a refusal by a code of `error_texts.py`; log all of `known` at the party only."""
    code = f"policy.{rule}"
    fields = {name: value for name, value in known.items() if name in fields_of(code)}
    error = PolicyRefusal.of(code, what=what, **fields)
    log_event(_LOG, "refused by policy", what=what, reason=str(error), **known)
    return error


Refusals = Iterator[PolicyRefusal]


def hold(broken: Refusals) -> None:
    """Raise the refusal of the first broken rule, if there is one."""
    for error in broken:
        raise error


def check_use(
    rules: DataSetRules, data: str, asker: str, protocol: str | None, what: str = "run"
) -> None:
    """Refuse an asker or a protocol that the rules of this data set do not allow."""
    hold(_broken_by_use(rules, data, asker, protocol, what))


def _broken_by_use(
    rules: DataSetRules, data: str, asker: str, protocol: str | None, what: str = "run"
) -> Refusals:
    known = {"data_set": data, "asker": asker, "protocol": protocol}
    if not rules.use:
        yield refusal("data_set", what, **known)
    if rules.askers is not None and asker not in rules.askers:
        yield refusal("asker", what, **known)
    if protocol is not None and protocol not in rules.protocols:
        yield refusal("protocol", what, **known)


def check_run(rules: DataSetRules, role: AnyRole, terms: Terms) -> Demands:
    """Refuse a run whose declaration breaks the rules; return what it asks for."""
    asked = task_of(role).demands(role, terms)
    hold(_broken_by_run(rules, role, terms, asked))
    return asked


def find_refusals(
    rules: DataSetRules, role: AnyRole, terms: Terms, shape: tuple[int, int]
) -> list[PolicyRefusal]:
    """List the refusals of all rules that a run over a table of (rows, columns) would break."""
    asked = task_of(role).demands(role, terms)
    broken = [*_broken_by_run(rules, role, terms, asked), *_broken_by_forest(rules, terms, shape)]
    return list({str(each): each for each in broken}.values())


def _broken_by_run(rules: DataSetRules, role: AnyRole, terms: Terms, asked: Demands) -> Refusals:
    yield from _broken_by_use(rules, role.data, terms.asker, asked.protocol)
    yield from _broken_by_names(rules, role)
    if terms.aligns or asked.alignment:
        yield from _broken_by_alignment(rules, asked, terms.asker, role.data)
    if (terms.validates or asked.scores) and not rules.allows_scores:
        yield refusal("validation", "run", data_set=role.data)
    if (terms.stands_alone or asked.stands_alone) and not rules.alone:
        yield refusal("alone", "run", data_set=role.data)
    if asked.scores:
        yield from _broken_by_scores(rules, is_encrypted=asked.encrypts_labels)
    has_own_scores = asked.protocol == "horizontal" and (terms.validates or asked.scores)
    if has_own_scores and "plain" not in rules.aggregations:
        yield refusal("own_scores", "run")  # they are sums over this party's rows alone
    if asked.gives_labels:
        yield from _broken_by_labels(rules, asked, is_regression=role.is_regression)
    if asked.sums is not None:
        yield from _broken_by_sums(rules, asked.sums)


def _broken_by_labels(rules: DataSetRules, asked: Demands, *, is_regression: bool) -> Refusals:
    """Refuse labels that leave row by row in another protection than the rules demand.

    Noise of vertical runs protects classes only.
    """
    epsilon = None if is_regression else asked.label_epsilon
    yield from _broken_by_protection(rules, epsilon, is_encrypted=asked.encrypts_labels)
    if epsilon is None:
        yield from _broken_without_noise(rules)


def _broken_by_alignment(rules: DataSetRules, asked: Demands, asker: str, data: str) -> Refusals:
    """Refuse alignment, a method of it, or a standing alignment that the rules do not allow."""
    if not rules.alignment:
        yield refusal("alignment", "run", data_set=data)
    if asked.alignment is not None and asked.alignment not in rules.alignment_methods:
        allowed = ", ".join(rules.alignment_methods) or "none"
        yield refusal("alignment_method", "run", choices=allowed, method=asked.alignment)
    if asked.standing_days > rules.standing_days:
        yield refusal("standing_days", "run", limit=rules.standing_days)
    makes_or_extends = asked.standing_days > 0 or asked.extends is not None
    if makes_or_extends and asker not in (
        (asker,) if rules.standing_askers is None else rules.standing_askers
    ):
        yield refusal("standing_askers", "run", data_set=data, asker=asker)


def _broken_by_names(rules: DataSetRules, role: AnyRole) -> Refusals:
    """Refuse a label or a weight that the owner did not mean to be one.

    Weights leave as they are, row by row: where noise protects labels, a column that tells of them
    would undo it.
    """
    if rules.protects_labels and rules.label_columns is None:  # or a run could call them features
        yield refusal("labels_unnamed", "run", data_set=role.data)
    label, weight, data = role.label, role.weight, role.data
    named = [name for name in (label, weight) if name is not None]
    yield from _broken_by_columns(rules, data, named, "run", label)
    if label is not None and rules.label_columns is not None and label not in rules.label_columns:
        yield refusal("label_column", "run", data_set=data, column=label)
    if weight is None:
        return
    is_open = rules.weight_columns is None and not rules.protects_labels
    if weight == label or not (is_open or weight in (rules.weight_columns or ())):
        yield refusal("weight_column", "run", data_set=data, column=weight)


def check_columns(
    rules: DataSetRules,
    data: str,
    names: Collection[str],
    what: str = "prediction",
    label: str | None = None,
) -> None:
    """Refuse columns that the rules hide from a use with this label."""
    hold(_broken_by_columns(rules, data, names, what, label))


def _broken_by_columns(
    rules: DataSetRules, data: str, names: Collection[str], what: str, label: str | None
) -> Refusals:
    for name in sorted(rules.hidden(names, label)):
        yield refusal("column", what, data_set=data, column=name)


class ModelUse(NamedTuple):
    """A requested use of a model: the asker, and the protocol by its name in the policy."""

    asker: str
    protocol: str | None
    what: str  # "run", "prediction" or "export", as a refusal names it


def check_origins(
    policy: Policy, origins: Origins, columns: Collection[str], use: ModelUse
) -> None:
    """Refuse to use a model that the rules of any data set that went into it do not allow.

    `columns` are those that the model needs.
    """
    for origin in origins:
        rules, data = policy.rules(origin.data), origin.data
        check_use(rules, data, use.asker, use.protocol, use.what)
        named = [name for name in (origin.label, origin.weight) if name is not None]
        check_columns(rules, data, [*columns, *named], use.what, origin.label)
        if origin.label is not None:
            hold(
                _broken_by_protection(
                    rules, origin.label_epsilon, use.what, is_encrypted=origin.encrypts_labels
                )
            )
        if use.what == "export" and not rules.complete_model:
            raise refusal("complete_model", "export", data_set=data)


def check_continued(origins: Origins, role: AnyRole) -> None:
    """Refuse protected labels of another column or data set than those of the earlier forest.

    They are compared with its classes: a refusal would tell which of them some rows have.
    """
    last = origins[-1]
    is_same = (last.data, last.label) == (role.data, role.label)
    check(is_same, "protected labels go on with a forest of another data set or label")


def check_order(data: DataSet, role: AnyRole, terms: Terms) -> None:
    """Refuse columns in the order of their tables where rows of this one are left out."""
    is_by_columns = isinstance(role, VerticalRole | LinearRole) and terms.n_parties > 1
    is_aligned = role.rows is not None and role.rows.alignment is not None
    if data.n_erased and is_by_columns and not is_aligned:
        raise DataError.of("erased.order", data_set=role.data)


def check_forest(rules: DataSetRules, terms: Terms, shape: tuple[int, int]) -> None:
    """Refuse small leaves, many trees, and what is too much for this party's (rows, columns).

    A fraction counts of its own rows.
    """
    hold(_broken_by_forest(rules, terms, shape))


def check_stored(rules: DataSetRules, n_bytes: int) -> None:
    """Refuse a request by which a run would store too much."""
    if n_bytes > rules.most_stored_bytes:
        raise refusal("stored", "run", limit=rules.most_stored_bytes)


def _broken_by_forest(rules: DataSetRules, terms: Terms, shape: tuple[int, int]) -> Refusals:
    forest, (n_rows, n_columns) = terms.forest, shape
    if forest is None:
        return
    if n_rows * forest.n_estimators > rules.most_row_trees:
        yield refusal("row_trees", "run", limit=rules.most_row_trees, n_trees=forest.n_estimators)
    if bound_party_memory(forest, n_rows, n_columns) > rules.most_memory_bytes:
        yield refusal("memory", "run", limit=rules.most_memory_bytes)
    yield from _broken_by_leaf(rules, forest.min_rows_leaf(n_rows))
    if forest.n_estimators > rules.most_trees:
        yield refusal("trees", "run", limit=rules.most_trees, n_trees=forest.n_estimators)


def _broken_by_leaf(rules: DataSetRules, least: int) -> Refusals:
    if least < rules.min_rows_per_leaf:
        yield refusal("leaf", "run", limit=rules.min_rows_per_leaf, rows_per_leaf=least)


def _broken_by_protection(
    rules: DataSetRules, epsilon: float | None, what: str = "run", *, is_encrypted: bool = False
) -> Refusals:
    """Refuse labels that leave in another protection, or with more epsilon, than is allowed."""
    has_noise = epsilon is not None
    yield from _broken_by_form(rules, what, has_noise=has_noise, is_encrypted=is_encrypted)
    if epsilon is not None and epsilon > rules.largest_label_epsilon:
        limit = f"{rules.largest_label_epsilon:g}"
        yield refusal("epsilon", what, limit=limit, epsilon=epsilon)


def _broken_by_form(
    rules: DataSetRules, what: str = "run", *, has_noise: bool, is_encrypted: bool = False
) -> Refusals:
    """Refuse labels that leave in another form; encryption alone is no noise."""
    if rules.label_protection == "encrypted" and not is_encrypted:
        yield refusal("labels_encrypted", what)
    if rules.label_protection == "randomized_response" and not has_noise:
        yield refusal("labels", what)


def _broken_by_scores(rules: DataSetRules, *, is_encrypted: bool) -> Refusals:
    """Refuse scores, which no noise covers, where labels are protected or epsilon is limited.

    Where labels are encrypted, the label party scores votes of its own.
    """
    yield from _broken_by_protection(rules, None, is_encrypted=is_encrypted)
    if math.isfinite(rules.epsilon_ceiling):
        yield refusal("scores", "run")


def _broken_without_noise(rules: DataSetRules) -> Refusals:
    """Refuse before classes or the range of targets are told what would be refused after."""
    if math.isfinite(rules.epsilon_ceiling):
        yield refusal("ceiling", "run")


def _broken_by_sums(rules: DataSetRules, sums: Sums) -> Refusals:
    if sums.aggregation not in rules.aggregations:
        allowed = ", ".join(rules.aggregations) or "none"
        yield refusal("sums", "run", choices=allowed, aggregation=sums.aggregation)
    wanted = rules.least_participants
    if sums.least_participants < wanted:
        declared = sums.least_participants
        yield refusal("participants", "run", limit=wanted, participants=declared)
    if sums.scope not in rules.participation_scopes:
        allowed = ", ".join(rules.participation_scopes) or "none"
        yield refusal("scope", "run", choices=allowed, scope=sums.scope)
    yield from _broken_by_noise(rules, sums.noise)
    has_noise = sums.noise != "none"
    if not has_noise:
        yield from _broken_without_noise(rules)
    yield from _broken_by_form(rules, has_noise=has_noise)


def _broken_by_noise(rules: DataSetRules, noise: str) -> Refusals:
    if noise not in rules.noise:
        allowed = ", ".join(rules.noise) or "none"
        yield refusal("noise", "run", choices=allowed, noise=noise)


@dataclass(slots=True)
class RunAccountant:
    """Decides for the owner before labels leave, noise is agreed or trees start.

    No other code lets labels leave (`protocol/label_door.py`).
    """

    rules: DataSetRules
    spend: Spend  # books a spend in the budget; raises `BudgetExhausted`
    response_key: bytes
    has_approved: bool = False

    @property
    def least_rows(self) -> int:
        """The least number of rows behind a score."""
        return self.rules.min_rows_per_score

    @property
    def least_common(self) -> tuple[int, float]:
        """The least ids that parties must have in common: a number, a fraction of each list."""
        return self.rules.least_common_ids, self.rules.least_common_fraction

    def approve(
        self, request: Message, n_rows: int | None = None, n_longest: int | None = None
    ) -> None:
        """Refuse a request that the rules do not allow, even if the run declared otherwise."""
        if isinstance(request, StartTrees):
            hold(_broken_by_leaf(self.rules, request.min_rows_leaf))
        elif isinstance(request, ShareLabels):
            hold(_broken_by_protection(self.rules, request.epsilon))
            self._book(spending_of_labels(request.epsilon))
        elif isinstance(request, Measure | EncryptLabels):
            # residuals tell every label; trees without noise tell which rows are alike
            is_encrypted = isinstance(request, EncryptLabels)
            hold(_broken_by_protection(self.rules, None, is_encrypted=is_encrypted))
            self._book(spending_of_labels(None))
        elif isinstance(request, ScoreVotes | ScoreOwnVotes | ScoreLeaves):
            is_encrypted = isinstance(request, ScoreLeaves)
            hold(_broken_by_protection(self.rules, None, is_encrypted=is_encrypted))
            if n_rows is None or n_rows < self.least_rows:
                raise refusal("score", "run", limit=self.least_rows, rows=n_rows)
            self._book(spending_of_labels(None))
        elif isinstance(request, HashIds | BlindIds | BlindLists):
            self._check_list(n_rows)
        elif isinstance(request, TakeRows | TakeMatches):
            self._check_common(n_rows or 0, n_longest or 0)
        elif isinstance(request, AgreeOnTable):
            hold(_broken_by_noise(self.rules, request.protection.kind or "none"))
            spending = spending_of(request, self.response_key)
            epsilon = spending.epsilon if request.protection.kind else None
            hold(_broken_by_protection(self.rules, epsilon))
            self._book(spending)

    def _check_list(self, n_ids: int | None) -> None:
        least = self.rules.least_aligned_ids
        if n_ids is None or n_ids < least:
            raise refusal("aligned_ids", "run", limit=least, ids=n_ids)

    def _check_common(self, n_ids: int, n_longest: int) -> None:
        least, fraction = self.least_common
        if n_ids < least:
            raise refusal("common_ids", "run", limit=least, ids=n_ids)
        if n_ids < fraction * n_longest:
            raise refusal("common_fraction", "run", limit=f"{fraction:g}", ids=n_ids)

    def _book(self, spending: PrivacySpending) -> None:
        try:
            self.spend(spending)
        except BudgetExhausted as error:
            raise refusal("ceiling", "run", detail=str(error)) from None
        self.has_approved = True


def spending_of_labels(epsilon: float | None) -> PrivacySpending:
    """Return what vertical training spends; each run draws new noise, so runs add up."""
    if epsilon is None:
        return spend_nothing_private(_ONCE)
    return PrivacySpending(mechanism="local", queries=_ONCE, epsilon_query=epsilon)


@dataclass(frozen=True, slots=True)
class LookaheadLimit:
    """A handler of predictions that settles at most `largest` levels in one request."""

    handler: Handler
    largest: int
    depth: int  # of the trees: no request can look further ahead

    def handle(self, request: Message) -> Message:
        """Answer a request, or refuse one that asks for too many levels."""
        n_levels = min(_count_levels(request), self.depth)
        if n_levels > self.largest:
            raise refusal("lookahead", "prediction", limit=self.largest, levels=n_levels)
        return self.handler.handle(request)


def _count_levels(request: Message) -> int:
    if isinstance(request, SweepRows):
        return request.n_levels
    if isinstance(request, RouteRows):
        return request.lookahead
    return LEAP if isinstance(request, LeapRows) else 0  # of linear models
