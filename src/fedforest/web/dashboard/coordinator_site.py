"""The pages of a coordinator: their addresses, and what their handlers share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.routing import Route

from fedforest.runtime.membership.user_roles import DEFAULT_ROLE, UserRole
from fedforest.web.api.batching import AskingThreads, PredictionBatches
from fedforest.web.api.door import Door, Serve
from fedforest.web.api.guard import KnowsTokens, Rates
from fedforest.web.dashboard import (
    federation_pages,
    new_run_pages,
    prediction_pages,
    privacy_pages,
    run_list_pages,
    run_pages,
    tree_pages,
)
from fedforest.web.dashboard.assets_folder import send_asset
from fedforest.web.dashboard.layout import NavigationItem, Site, explain_refusal
from fedforest.web.dashboard.login import FAILURES_PER_SECOND, Login, make_login_endpoints
from fedforest.web.dashboard.run_live import RunFeeds
from fedforest.web.dashboard.sessions import Sessions
from fedforest.web.dashboard.tree_pages import OpenedForests
from fedforest.web.dashboard.visits import Reception, Visit

_NAVIGATION = (
    NavigationItem("/runs", "Runs"),
    NavigationItem("/runs/new", "New run"),
    NavigationItem("/federation", "Federation"),
    NavigationItem("/privacy", "Privacy"),
)


@dataclass(frozen=True)
class CoordinatorSite:
    """What the pages of a coordinator share."""

    frame: Site
    sessions: Sessions
    serve: Serve
    federation: str
    roles: Callable[[], Mapping[str, UserRole]] | None  # of users; None: unknown
    batches: PredictionBatches
    feeds: RunFeeds = field(default_factory=RunFeeds)
    forests: OpenedForests = field(default_factory=OpenedForests)

    def door(self, visit: Visit) -> Door:
        """Return what sends the requests of a visit's user."""
        return Door(self.serve, self.federation, visit.user)

    def role_of(self, user: str) -> UserRole:
        """Return the role of a user, for what pages offer; the coordinator decides."""
        return DEFAULT_ROLE if self.roles is None else self.roles().get(user, "viewer")

    def is_member(self, user: str) -> bool:
        """Tell whether a user belongs to the federation."""
        return bool(user) and (self.roles is None or user in self.roles())


def make_routes(  # noqa: PLR0913, PLR0917 - what pages stand on
    serve: Serve,
    federation: str,
    tokens: KnowsTokens,
    roles: Callable[[], Mapping[str, UserRole]] | None,
    user_of_certificate: Callable[[Request], str | None],
    batches: PredictionBatches | None = None,
) -> Sequence[Route]:
    """Return the addresses of all pages; `batches` may be shared with the HTTP API."""
    frame = Site(federation, "coordinator", _NAVIGATION)
    batches = batches or PredictionBatches(AskingThreads(serve, federation).predict)
    site = CoordinatorSite(frame, Sessions(), serve, federation, roles, batches)
    reception = Reception(site.sessions, explain_refusal, site)
    login = Login(
        frame,
        site.sessions,
        tokens,
        site.is_member,
        Rates(FAILURES_PER_SECOND),
        user_of_certificate,
    )
    page, action = reception.page, reception.action
    endpoints = {
        **make_login_endpoints(login, reception),
        ("/", "GET"): page(run_list_pages.show_runs),
        ("/runs", "GET"): page(run_list_pages.show_runs),
        ("/runs/new", "GET"): page(new_run_pages.show_form),
        ("/runs/new", "POST"): action(new_run_pages.begin_run),
        ("/runs/new/check", "POST"): action(new_run_pages.check_form, scope="read"),
        ("/runs/{run}", "GET"): page(run_pages.show_run),
        ("/runs/{run}/state", "GET"): page(run_pages.show_state),
        ("/runs/{run}/events", "GET"): page(run_pages.stream_run),
        ("/runs/{run}/result", "GET"): page(run_pages.show_result),
        ("/runs/{run}/log", "GET"): page(run_pages.show_log),
        ("/runs/{run}/report", "GET"): page(run_pages.download_report),
        ("/runs/{run}/trees", "GET"): page(tree_pages.show_trees),
        ("/runs/{run}/trees/{tree}", "GET"): page(tree_pages.send_tree),
        ("/runs/{run}/predict", "GET"): page(prediction_pages.show_form, scope="predict"),
        ("/runs/{run}/predict", "POST"): action(prediction_pages.predict, scope="predict"),
        ("/runs/{run}/cancel", "POST"): action(run_pages.cancel_run),
        ("/runs/{run}/resume", "POST"): action(run_pages.resume_run),
        ("/runs/{run}/end-early", "POST"): action(run_pages.end_run_early),
        ("/runs/{run}/share", "POST"): action(run_pages.share_run),
        ("/privacy", "GET"): page(privacy_pages.show_privacy),
        ("/federation", "GET"): page(federation_pages.show_federation),
        ("/federation/invite", "POST"): action(federation_pages.invite),
        ("/federation/revoke", "POST"): action(federation_pages.revoke),
        ("/federation/grant", "POST"): action(federation_pages.grant),
    }
    pages = [Route(path, endpoint, methods=[how]) for (path, how), endpoint in endpoints.items()]
    return [*pages, Route("/static/{digest}/{name}", send_asset)]
