"""Who may ask a coordinator or a party for what, from what they decide by."""

from typing import get_args

from docs.book.tables import code, to_table
from fedforest.runtime.coordinator.access import RIGHTS, Reach
from fedforest.runtime.membership.user_roles import USER_ROLES
from fedforest.runtime.messages.party_requests import TO_PARTY, Asked, InPrediction
from fedforest.runtime.party.askers.proofs import is_enough, needed_proof
from fedforest.runtime.party.policy import AskerProof

WORDS = {
    Reach.NONE: "–",
    Reach.OWN: "own",
    Reach.SHARED: "own and shared",
    Reach.ALL: "all",
}
# who asks a party: whether it pinned this user, and what the request shows
ASKERS: dict[str, tuple[bool, AskerProof]] = {
    "anybody, as the coordinator says": (False, "vouched"),
    "a user who signed, not pinned here": (False, "signed"),
    "a pinned user, as the coordinator says": (True, "vouched"),
    "a pinned user, signed by another key": (True, "signed"),
    "a pinned user, signed by the pinned key": (True, "pinned"),
}


def describe_rights() -> str:
    """Describe every request of users by role."""
    rows = [
        [code(kind.__name__), *(WORDS[reach[role]] for role in USER_ROLES)]
        for kind, reach in RIGHTS.items()
    ]
    return to_table(("request", *USER_ROLES), rows)


def describe_askers() -> str:
    """Describe in whose name a party answers under each rule."""
    rules: tuple[AskerProof, ...] = get_args(AskerProof)
    rows = []
    for who, (is_pinned, shown) in ASKERS.items():
        needed = [needed_proof([rule], is_pinned=is_pinned) for rule in rules]
        rows.append([who, *("yes" if is_enough(shown, each) else "–" for each in needed)])
    return to_table(("who asks", *map(code, rules)), rows)


def describe_party_requests() -> str:
    """Describe every request of a coordinator to a party, and in whose name it is made."""
    rows = [
        [
            code(kind.__name__),
            "a user" if kind in (*get_args(Asked), InPrediction) else "the coordinator",
            (kind.__doc__ or "").partition("\n")[0],
        ]
        for kind in TO_PARTY
    ]
    return to_table(("request", "in the name of", "what it asks"), rows)
