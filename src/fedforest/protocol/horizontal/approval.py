"""A party's own decision about a run, by its privacy cost for the party's labels.

The decision follows from the coordinator's proposal: the party counts the questions
(`party_trees.py`) and refuses more than were proposed.
"""

from collections.abc import Callable

from fedforest.privacy.budget import BudgetLedger
from fedforest.privacy.composition import (
    PrivacySpending,
    spend_local,
    spend_nothing_private,
)
from fedforest.privacy.queries import Queries
from fedforest.protocol.horizontal.messages import AgreeOnTable
from fedforest.protocol.horizontal.statistics import resolve_code
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT


def spending_of(agreed: AgreeOnTable, response_key: bytes = b"") -> PrivacySpending:
    """Return the most that one label spends in the proposed run."""
    levels = None if agreed.max_depth >= NO_DEPTH_LIMIT else agreed.max_depth
    queries = Queries(agreed.candidates_per_node, levels, agreed.n_trees)
    if agreed.protection.kind == "local":
        code = resolve_code(agreed)
        spending = spend_local(code, queries)
        return spending.under_key(code, response_key) if response_key else spending
    if agreed.protection.kind == "global":
        # without the tighter bound: a hostile proposal could make it compute for ever
        epsilon = agreed.protection.epsilon_query
        return PrivacySpending(mechanism="global", queries=queries, epsilon_query=epsilon)
    return spend_nothing_private(queries)


def approve_within(
    ledger: BudgetLedger, run: str, response_key: bytes = b""
) -> Callable[[AgreeOnTable], None]:
    """Return a function that books a run in the ledger, or raises `BudgetExhausted`."""

    def approve(agreed: AgreeOnTable) -> None:
        ledger.reserve(run, spending_of(agreed, response_key))

    return approve
