"""A party's own decision about a run, by what it would cost the privacy of its labels.

The answer follows from what the coordinator proposed, not from what it promises to do: the party
counts along (`party_trees.py`) and refuses to be asked more often.
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
from fedforest.tree.growth import NO_DEPTH_LIMIT


def spending_of(agreed: AgreeOnTable, response_key: bytes = b"") -> PrivacySpending:
    """What one label spends at most in the run that was proposed."""
    levels = None if agreed.max_depth >= NO_DEPTH_LIMIT else agreed.max_depth
    queries = Queries(agreed.candidates_per_node, levels, agreed.n_trees)
    if agreed.protection.kind == "local":
        code = resolve_code(agreed)
        spending = spend_local(code, queries)
        return spending.under_key(code, response_key) if response_key else spending
    if agreed.protection.kind == "global":
        # without the tighter number, which a stranger could make take for ever
        epsilon = agreed.protection.epsilon_query
        return PrivacySpending(mechanism="global", queries=queries, epsilon_query=epsilon)
    return spend_nothing_private(queries)


def approve_within(
    ledger: BudgetLedger, run: str, response_key: bytes = b""
) -> Callable[[AgreeOnTable], None]:
    """Approves runs that the ledger has room for, and books them; raises `BudgetExhausted`."""

    def approve(agreed: AgreeOnTable) -> None:
        ledger.reserve(run, spending_of(agreed, response_key))

    return approve
