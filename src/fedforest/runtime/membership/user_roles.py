"""The roles of users: what a user may ask a coordinator for (`runtime/coordinator/access.py`)."""

from typing import Literal

UserRole = Literal["viewer", "service", "scientist", "operator"]
USER_ROLES: dict[UserRole, str] = {
    "viewer": "sees runs that others share with it, not their models",
    "service": "predicts with models that others share with it: an application, a build server",
    "scientist": "orders trainings, and has what it ordered and what others share with it",
    "operator": "does everything with everybody's runs",
}
DEFAULT_ROLE: UserRole = "scientist"
