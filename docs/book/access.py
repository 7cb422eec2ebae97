"""Who may ask a coordinator for what, from the table that the coordinator decides by."""

from docs.book.tables import code, to_table
from fedforest.runtime.coordinator.access import RIGHTS, Reach
from fedforest.runtime.membership.user_roles import USER_ROLES

WORDS = {
    Reach.NONE: "–",
    Reach.OWN: "own",
    Reach.SHARED: "own and shared",
    Reach.ALL: "all",
}


def describe_rights() -> str:
    """Describe every request of users by role."""
    rows = [
        [code(kind.__name__), *(WORDS[reach[role]] for role in USER_ROLES)]
        for kind, reach in RIGHTS.items()
    ]
    return to_table(("request", *USER_ROLES), rows)
