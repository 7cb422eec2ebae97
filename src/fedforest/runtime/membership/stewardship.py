"""Requests of operators about members: invite, revoke, change a role.

They do what `fedforest coordinator invite`, `revoke` and `grant` do in the coordinator's folder, in
the coordinator that has the folder and runs.
"""

from collections.abc import Callable

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.runtime.membership.members import Membership
from fedforest.runtime.membership.user_roles import USER_ROLES, UserRole
from fedforest.runtime.messages.orders import GrantRole, InviteMember, RevokeMember
from fedforest.runtime.messages.results import InvitationMade, MembersChanged


class Stewardship:
    """Changes the members of the federation that a running coordinator is the authority of."""

    def __init__(self, members: Membership, addresses: Callable[[], tuple[str, str]]) -> None:
        self._members = members
        self._addresses = addresses  # of enrolment and coordinator, as others reach them

    def invite(self, order: InviteMember) -> InvitationMade:
        """Make an invitation; its token is shown to the operator and kept nowhere."""
        user_role = _read_role(order.user_role)
        token = self._members.invite(
            order.role, order.name, self._addresses(), order.valid_seconds, user_role
        )
        return InvitationMade(token)

    def revoke(self, order: RevokeMember) -> MembersChanged:
        """Refuse a member's calls from now on; those under way are cut within a moment."""
        return MembersChanged(sorted(map(str, self._members.revoke(order.name))))

    def grant(self, order: GrantRole) -> MembersChanged:
        """Change what a user may do, from its next request on."""
        self._members.grant(order.name, _read_role(order.user_role))
        return MembersChanged([order.name])


def _read_role(text: str) -> UserRole:
    try:
        role: UserRole = msgspec.convert(text, UserRole)
        return role
    except msgspec.ValidationError:
        raise ConfigurationError(f"a role of users is one of {', '.join(USER_ROLES)}") from None
