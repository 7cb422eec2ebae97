"""The privacy loss of one row's label in a training, in epsilons: per query, composed, capped.

Neighbouring tables differ in the label of one row (regression: in one target within its bounds).
Queries compose by adding up their epsilons, and for local privacy the permanent responses cap the
sum: all answers of all times are made from them. Adding up is right although the answers of a row
share its permanent bits. With t = tanh(log-likelihood ratio / 2), answers that are evidence l for
the permanent bit are evidence r(l), t(r) = keep * t(l), for the true one; r is odd, and concave
above zero, so r(l + l') <= r(l) + r(l'). That holds for any p and q, so also between trainings.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from fedforest.privacy.accounting import ApproximateEpsilon, compose_laplace
from fedforest.privacy.local_dp import ResponseCode
from fedforest.privacy.queries import Queries
from fedforest.privacy.spent import SpentPrivacy, summarise

NOT_PROTECTED = (
    "columns: features are not noisy, and which rows fall on which side of a split is what trees "
    "are made of",
    "thresholds, and with them the ranges of columns that parties' random points tell",
    "branch sizes: how many rows go to each side of every split is exact",
    "who takes part, and how many rows, columns and classes there are",
    "which classes each party has: it declares them before the first tree, without noise, those of "
    "a single row included",
    "scores on true labels: a score told to others is a release that no number here covers",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacySpending:
    """The privacy that one training spends on one row's label; printing gives the full text.

    Infinite epsilons mean: not limited. `memory` names the permanent responses that a party used:
    trainings of the same memory share one cap, those without a name share nothing.
    """

    mechanism: Literal["none", "local", "global"]
    queries: Queries
    epsilon_query: float
    epsilon_cap: float = math.inf
    approximate: ApproximateEpsilon | None = None
    memory: str = ""

    @property
    def epsilon_composed(self) -> float:
        """The sum over all queries."""
        if self.queries.count is None:
            return math.inf
        if self.queries.count == 0:
            return 0.0
        return self.epsilon_query * self.queries.count

    @property
    def epsilon(self) -> float:
        """The guarantee: the smaller of composition and cap."""
        return min(self.epsilon_composed, self.epsilon_cap)

    def under_key(self, code: ResponseCode, key: bytes) -> "PrivacySpending":
        """Return the spending at the party whose permanent responses come from this key."""
        return replace(self, memory=code.memory(key))

    def as_dict(self) -> dict[str, Any]:
        """Return every number by name, what is protected, and what is not."""
        approximate = self.approximate
        return {
            "mechanism": self.mechanism,
            "summary": self._summarise(),
            "label_epsilon": self.epsilon,
            "epsilon_query": self.epsilon_query,
            "candidates": self.queries.candidates,
            "levels": self.queries.levels,
            "trees": self.queries.trees,
            "queries": self.queries.count,
            "epsilon_composed": self.epsilon_composed,
            "epsilon_cap": self.epsilon_cap,
            "epsilon_approximate": approximate.epsilon if approximate else None,
            "delta": approximate.delta if approximate else None,
            "approximate_note": approximate.note if approximate else "",
            "protected": _PROTECTED[self.mechanism],
            "not_protected": NOT_PROTECTED,
        }

    def __str__(self) -> str:
        return str(self.describe())

    def describe(self) -> SpentPrivacy:
        """Return a dictionary that users can print."""
        return SpentPrivacy.of(self.as_dict(), self._arithmetic())

    def _summarise(self) -> str:
        """Return the sentence to hand on."""
        is_capped = self.epsilon_cap <= self.epsilon_composed
        scope, against, exposed = _SCOPE_AND_READERS[self.mechanism]
        if is_capped:
            scope = "this training and all others that answer from its permanent responses"
        return summarise(
            self.epsilon,
            scope,
            against=against,
            uncovered="columns, thresholds, which classes a party has, and numbers of rows",
            exposed=exposed,
        )

    def _arithmetic(self) -> list[str]:
        if self.mechanism == "none":
            return ["epsilon is infinite"]
        queries = self.queries
        levels = "unlimited" if queries.levels is None else queries.levels
        count = "no limit to the" if queries.count is None else f"{queries.count:,}"
        lines = [
            f"epsilon of the training: {self.epsilon:.6g}",
            f"one query: {self.epsilon_query:.6g}",
            f"composed: {self.epsilon_composed:.6g} ({queries.candidates} candidates × {levels} "
            f"levels × {queries.trees} trees = {count} queries)",
        ]
        if self.mechanism == "local":
            lines.append(
                f"cap of the permanent responses, for all queries of all times: "
                f"{self.epsilon_cap:.6g}"
            )
        if self.approximate is not None:
            lines.append(str(self.approximate))
        return lines


_NOT_LIMITED = "nothing limits how often a label is asked about; set max_depth"
_SCOPE_AND_READERS = {
    "none": ("", "", "statistics of labels left their parties without noise; see `leakage_`"),
    "local": (
        "this training",
        "everybody but the party that holds it (coordinator, other parties, readers of the model)",
        _NOT_LIMITED,
    ),
    "global": (
        "this training",
        "everybody but the party that holds it, which must be fully trusted (coordinator, other "
        "parties, readers of the model)",
        _NOT_LIMITED,
    ),
}
_PROTECTED = {
    "none": "nothing; statistics of labels left their parties without noise",
    "local": "each row's label, by noise on it before it is counted; nobody need be trusted",
    "global": "each row's label, by noise on its party's statistics; the party must be trusted",
}


def query_epsilon(code: ResponseCode) -> float:
    """Return one query's loss: (d/2) ln[P1 (1 - P0) / (P0 (1 - P1))] for codes of equal weight.

    Two codes differ in d bits; each code has half of them set.
    """
    set_, clear = code.rate_if_set, code.rate_if_clear
    odds = math.log(set_ / clear) + math.log((1.0 - clear) / (1.0 - set_))
    return code.distance / 2 * odds


def spend_nothing_private(queries: Queries) -> PrivacySpending:
    """Statistics without noise: epsilon is infinite."""
    return PrivacySpending(mechanism="none", queries=queries, epsilon_query=math.inf)


def spend_local(code: ResponseCode, queries: Queries) -> PrivacySpending:
    """Return the privacy that a training with `LocalDP` spends."""
    return PrivacySpending(
        mechanism="local",
        queries=queries,
        epsilon_query=query_epsilon(code),
        epsilon_cap=code.cap,
    )


def spend_global(
    epsilon_query: float, queries: Queries, *, is_regression: bool = False
) -> PrivacySpending:
    """Return the privacy that a training with `GlobalDP` spends, also by a tighter accountant."""
    return PrivacySpending(
        mechanism="global",
        queries=queries,
        epsilon_query=epsilon_query,
        approximate=compose_laplace(epsilon_query, queries.count, is_regression=is_regression),
    )
