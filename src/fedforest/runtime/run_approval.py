"""Requests held against a party's rules: when a run is declared, and when it does what it declared.

A refusal names the rule, so that the asker can ask for something else; what the rule protects is
said in the party's own log only.
"""

import logging
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NoReturn

from fedforest.errors import BudgetExhausted, PolicyRefusal
from fedforest.kernels.leap import LEAP
from fedforest.privacy.composition import PrivacySpending, spend_nothing_private
from fedforest.privacy.queries import Queries
from fedforest.protocol.asking import Handler, Message
from fedforest.protocol.horizontal.approval import spending_of
from fedforest.protocol.horizontal.messages import AgreeOnTable
from fedforest.protocol.linear.messages import Measure
from fedforest.protocol.vertical.messages import ShareLabels, StartTrees
from fedforest.protocol.vertical.prediction_messages import LeapRows, RouteRows, SweepRows
from fedforest.runtime.event_log import log_event
from fedforest.runtime.policy import Rules
from fedforest.runtime.roles import (
    AlignmentRole,
    AloneRole,
    AnyRole,
    HorizontalRole,
    LinearRole,
    ScoringRole,
    VerticalRole,
)
from fedforest.runtime.terms import Terms

_LOG = logging.getLogger(__name__)
_ONCE = Queries(1, 1, 1)  # labels of vertical training leave once
# Words of refusals that stand for the asker's own, who is told which (`own_words.py`).
A_DATA_SET, A_COLUMN = "the data set", "a column that it needs"

Spend = Callable[[PrivacySpending], None]


def refuse(what: str, reason: str, **detail: Any) -> NoReturn:
    """Say no; details are for the party's log."""
    log_event(_LOG, "refused by policy", what=what, reason=reason, **detail)
    raise PolicyRefusal(f"its policy does not allow this {what}: {reason}")


def check_use(rules: Rules, data: str, asker: str, protocol: str | None, what: str = "run") -> None:
    """Whether this asker may use this data set in this way at all."""
    known = {"data": data, "asker": asker, "protocol": protocol}
    if not rules.use:
        refuse(what, f"{A_DATA_SET} is not for use", **known)
    if rules.askers is not None and asker not in rules.askers:
        refuse(what, "who asks is not among those who may", **known)
    if protocol is not None and protocol not in rules.protocols:
        refuse(what, f"{A_DATA_SET} is not for {protocol} use", **known)


def check_run(rules: Rules, role: AnyRole, terms: Terms) -> None:
    """Whether a run may begin, by what is declared about it."""
    check_use(rules, role.data, terms.asker, _protocol_of(role))
    named = [name for name in (role.label, role.weight) if name is not None]
    check_columns(rules, role.data, named, "run")
    if (terms.aligns or isinstance(role, AlignmentRole)) and not rules.alignment:
        refuse("run", "alignment by ids", data=role.data)
    if (terms.validates or isinstance(role, ScoringRole)) and not rules.validation:
        refuse("run", "validation, as scores tell of labels", data=role.data)
    if (terms.stands_alone or _stands_alone(role)) and not rules.alone:
        refuse("run", "training for each party alone", data=role.data)
    if isinstance(role, VerticalRole):
        if role.label is not None:
            _check_label_protection(rules, terms.label_epsilon)
    elif isinstance(role, LinearRole):
        if role.label is not None:
            _check_label_protection(rules, None)
    elif isinstance(role, HorizontalRole):
        _check_sums(rules, role)
        _check_noise(rules, terms.noise)


def _protocol_of(role: AnyRole) -> str | None:
    """The use that a role is a part of; an alignment has a rule of its own."""
    if isinstance(role, VerticalRole):
        return "vertical"
    if isinstance(role, LinearRole):
        return "linear"
    if isinstance(role, ScoringRole):
        return "horizontal" if role.has_model else "vertical"
    return None if isinstance(role, AlignmentRole) else "horizontal"


def _stands_alone(role: AnyRole) -> bool:
    return isinstance(role, AloneRole) or (isinstance(role, VerticalRole) and role.is_alone)


def check_columns(
    rules: Rules, data: str, names: Collection[str], what: str = "prediction"
) -> None:
    """Whether these columns may be seen."""
    hidden = rules.hidden(names)
    if hidden:
        refuse(what, f"{A_COLUMN} is not for use", data=data, columns=sorted(hidden))


def check_complete_model(rules: Rules, data: str, asker: str) -> None:
    """Whether this party's splits of a model may leave, for a copy that predicts alone."""
    check_use(rules, data, asker, "vertical", "export")
    if not rules.complete_model:
        refuse("export", "a complete model shows its splits (complete_model)", data=data)


def check_leaf_size(rules: Rules, terms: Terms, n_rows: int) -> None:
    """Whether leaves are declared to be large enough; a share counts of this party's own rows."""
    declared = terms.min_samples_leaf
    least = declared if isinstance(declared, int) else math.ceil(declared * n_rows)
    _check_leaf(rules, least)


def _check_leaf(rules: Rules, least: int) -> None:
    if least < rules.min_rows_per_leaf:
        wanted = rules.min_rows_per_leaf
        reason = f"a leaf must have at least {wanted} rows (min_samples_leaf={wanted})"
        refuse("run", reason, rows_per_leaf=least)


def _check_label_protection(rules: Rules, epsilon: float | None) -> None:
    if epsilon is None:
        if rules.label_protection == "randomized_response":
            refuse("run", "labels must be protected by RandomizedResponse")
    elif epsilon > rules.largest_label_epsilon:
        reason = f"epsilon of labels must be at most {rules.largest_label_epsilon:g}"
        refuse("run", reason, epsilon=epsilon)


def _check_sums(rules: Rules, role: HorizontalRole) -> None:
    aggregation = "plain" if role.aggregation is None else role.aggregation.name.lower()
    if aggregation not in rules.aggregations:
        allowed = ", ".join(rules.aggregations) or "none"
        refuse("run", f"sums over parties must be formed by: {allowed}", aggregation=aggregation)
    wanted = rules.least_participants
    if role.least_participants < wanted:
        reason = (
            f"at least {wanted} parties must take part in every sum (min_participants={wanted})"
        )
        refuse("run", reason, participants=role.least_participants)


def _check_noise(rules: Rules, noise: str) -> None:
    if noise not in rules.noise:
        allowed = ", ".join(rules.noise) or "none"
        refuse("run", f"noise on label sums must be one of: {allowed}", noise=noise)


@dataclass(frozen=True, slots=True)
class RunApproval:
    """Asked by the handlers of a run before labels leave, noise is agreed on or trees start."""

    rules: Rules
    spend: Spend  # books what labels spend; raises `BudgetExhausted`
    response_key: bytes

    def __call__(self, request: Message) -> None:
        """Refuse what the rules do not allow, whatever was declared."""
        if isinstance(request, StartTrees):
            _check_leaf(self.rules, request.min_rows_leaf)
        elif isinstance(request, ShareLabels):
            _check_label_protection(self.rules, request.epsilon)
            self._book(spending_of_labels(request.epsilon))
        elif isinstance(request, Measure):  # what is measured tells every label
            _check_label_protection(self.rules, None)
            self._book(spending_of_labels(None))
        elif isinstance(request, AgreeOnTable):
            _check_noise(self.rules, request.protection.kind or "none")
            self._book(spending_of(request, self.response_key))

    def _book(self, spending: PrivacySpending) -> None:
        try:
            self.spend(spending)
        except BudgetExhausted as error:
            refuse("run", "it would pass the ceiling of epsilon on labels", detail=str(error))


def spending_of_labels(epsilon: float | None) -> PrivacySpending:
    """What training over columns spends; noise is drawn anew in each run, so runs add up."""
    if epsilon is None:
        return spend_nothing_private(_ONCE)
    return PrivacySpending(mechanism="local", queries=_ONCE, epsilon_query=epsilon)


@dataclass(frozen=True, slots=True)
class LookaheadLimit:
    """A predicting party that settles only so many levels at once."""

    handler: Handler
    largest: int
    depth: int  # of the trees: no request can look further ahead

    def handle(self, request: Message) -> Message:
        """Answer, or refuse to say that much at once."""
        n_levels = min(_count_levels(request), self.depth)
        if n_levels > self.largest:
            reason = f"a lookahead above {self.largest}"
            refuse("prediction", reason, levels=n_levels)
        return self.handler.handle(request)


def _count_levels(request: Message) -> int:
    if isinstance(request, SweepRows):
        return request.n_levels
    if isinstance(request, RouteRows):
        return request.lookahead
    return LEAP if isinstance(request, LeapRows) else 1
