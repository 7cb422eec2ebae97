"""The pages of a coordinator: their addresses, and what their handlers share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.routing import Route

from fedforest.runtime.membership.user_roles import UserRole
from fedforest.web.api.door import Door, Serve
from fedforest.web.api.guard import KnowsTokens, Rates
from fedforest.web.dashboard import federation_pages, run_list_pages
from fedforest.web.dashboard.assets_folder import send_asset
from fedforest.web.dashboard.layout import NavigationItem, Site, explain_refusal
from fedforest.web.dashboard.login import FAILURES_PER_SECOND, Login, make_login_endpoints
from fedforest.web.dashboard.sessions import Sessions
from fedforest.web.dashboard.visits import Reception, Visit

_NAVIGATION = (
    NavigationItem("/runs", "Runs"),
    NavigationItem("/federation", "Federation"),
)


@dataclass(frozen=True)
class CoordinatorSite:
    """What the pages of a coordinator share."""

    frame: Site
    sessions: Sessions
    serve: Serve
    federation: str
    roles: Callable[[], Mapping[str, UserRole]] | None  # of users; None: unknown

    def door(self, visit: Visit) -> Door:
        """Return what sends the requests of a visit's user."""
        return Door(self.serve, self.federation, visit.user)

    def is_member(self, user: str) -> bool:
        """Tell whether a user belongs to the federation."""
        return bool(user) and (self.roles is None or user in self.roles())


def make_routes(
    serve: Serve,
    federation: str,
    tokens: KnowsTokens,
    roles: Callable[[], Mapping[str, UserRole]] | None,
    user_of_certificate: Callable[[Request], str | None],
) -> Sequence[Route]:
    """Return the addresses of all pages."""
    frame = Site(federation, "coordinator", _NAVIGATION)
    site = CoordinatorSite(frame, Sessions(), serve, federation, roles)
    reception = Reception(site.sessions, explain_refusal, site)
    login = Login(
        frame,
        site.sessions,
        tokens,
        site.is_member,
        Rates(FAILURES_PER_SECOND),
        user_of_certificate,
    )
    page = reception.page
    endpoints = {
        **make_login_endpoints(login, reception),
        ("/", "GET"): page(run_list_pages.show_runs),
        ("/runs", "GET"): page(run_list_pages.show_runs),
        ("/federation", "GET"): page(federation_pages.show_federation),
    }
    pages = [Route(path, endpoint, methods=[how]) for (path, how), endpoint in endpoints.items()]
    return [*pages, Route("/static/{digest}/{name}", send_asset)]
