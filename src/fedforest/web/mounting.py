"""The web beside a coordinator, or a party: one application on one port, in its process.

What is mounted is chosen by options; every room brings its addresses and sends its requests
through the coordinator's own door.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from fedforest.runtime.membership.service_tokens import FILE, ServiceTokens
from fedforest.runtime.processes import ServedCoordinator, ServedParty
from fedforest.web.api.batching import AskingThreads, PredictionBatches
from fedforest.web.api.guard import Guard, WebLimits
from fedforest.web.dashboard import coordinator_site
from fedforest.web.dashboard.login import user_of_certificate
from fedforest.web.dashboard.party_site import make_party_routes
from fedforest.web.dashboard.protection import LOOPBACK_HOSTS, PageProtection, host_of
from fedforest.web.federation.routes import mount_api
from fedforest.web.server import WebAddress, WebServer


@dataclass(frozen=True)
class WebOptions:
    """What is mounted, and where."""

    place: WebAddress
    dashboard: bool = False
    http_api: bool = False
    limits: WebLimits = field(default_factory=WebLimits)  # of the API
    names: Sequence[str] = ()  # by which browsers call this server, besides its address

    @property
    def hosts(self) -> list[str]:
        """The hosts that requests may name."""
        return [*LOOPBACK_HOSTS, host_of(self.place.address), *self.names]


def mount_beside(options: WebOptions) -> Callable[[ServedCoordinator], AbstractContextManager[str]]:
    """Return what serves the web while a coordinator runs."""

    @contextmanager
    def serve(coordinator: ServedCoordinator) -> Iterator[str]:
        app = Starlette(routes=list_routes(coordinator, options))
        place = options.place
        if place.certificate is not None:  # over TLS, members may show their certificates
            place = replace(place, members=coordinator.home / "tls" / "authority.pem")
        with WebServer(PageProtection(app, options.hosts), place) as web:
            told = [f"dashboard at {web.url}"] if options.dashboard else []
            told += [f"HTTP API at {web.url}/v1"] if options.http_api else []
            yield "\n".join(told)

    return serve


def mount_beside_party(
    options: WebOptions,
) -> Callable[[ServedParty], AbstractContextManager[str]]:
    """Return what serves a party's own pages while it runs."""

    @contextmanager
    def serve(party: ServedParty) -> Iterator[str]:
        routes = make_party_routes(party.home, party.name, party.memory_limit)
        app = PageProtection(Starlette(routes=routes), options.hosts)
        with WebServer(app, options.place) as web:
            yield f"dashboard at {web.url}"

    return serve


def list_routes(coordinator: ServedCoordinator, options: WebOptions) -> list[BaseRoute]:
    """Return the addresses of all rooms that are mounted."""
    tokens = ServiceTokens(coordinator.home / FILE)
    served = coordinator.service.serve, coordinator.federation
    batches = PredictionBatches(AskingThreads(*served).predict)
    routes: list[BaseRoute] = []
    if options.dashboard:
        routes += coordinator_site.make_routes(
            *served,
            tokens,
            coordinator.users,
            partial(user_of_certificate, coordinator.federation),
            batches,
        )
    if options.http_api:
        guard = Guard(tokens, options.limits)
        routes.append(mount_api(*served, guard, coordinator.users, batches))
    return routes
