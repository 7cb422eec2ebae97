"""All endpoints of the HTTP API of a federation, below `/v1`."""

from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from fedforest.runtime.membership.user_roles import UserRole
from fedforest.runtime.messages.orders import ListAlignments, ShowStatus
from fedforest.runtime.messages.results import AlignmentList
from fedforest.runtime.messages.status import FederationStatus
from fedforest.web.api.batching import PredictionBatches
from fedforest.web.api.door import Serve
from fedforest.web.api.endpoints import Endpoint, describe, make_routes
from fedforest.web.api.guard import Guard
from fedforest.web.api.problems import HANDLERS
from fedforest.web.federation.answers import (
    FederationPage,
    StandingAlignment,
    StandingAlignments,
)
from fedforest.web.federation.app import FederationApi, respond
from fedforest.web.federation.model_endpoints import ModelEndpoints
from fedforest.web.federation.run_endpoints import RunEndpoints

_PREFIX = "/v1"


def mount_api(
    serve: Serve,
    federation: str,
    guard: Guard,
    roles: Callable[[], Mapping[str, UserRole]] | None,
    batches: PredictionBatches | None = None,
) -> Mount:
    """Return the route below which the whole API is; `batches` may be shared with pages."""
    api = FederationApi(serve, federation, guard, roles, batches)
    endpoints = list_endpoints(api)
    routes = make_routes(endpoints, _PREFIX)
    return Mount(_PREFIX, app=Starlette(routes=routes, exception_handlers=HANDLERS))


def list_endpoints(api: FederationApi) -> list[Endpoint]:
    """List all endpoints, the description of them among them."""
    description: dict[str, Any] = {}

    async def show_federation(request: Request) -> Response:
        user = api.admit(request, "read")
        return respond(
            FederationPage.of(api.federation, await api.ask(user, ShowStatus(), FederationStatus))
        )

    async def list_alignments(request: Request) -> Response:
        user = api.admit(request, "read")
        told = await api.ask(user, ListAlignments(), AlignmentList)
        return respond(StandingAlignments([StandingAlignment.of(each) for each in told.alignments]))

    async def show_description(request: Request) -> Response:
        api.admit(request, "read")
        return respond(description)

    endpoints = [
        Endpoint(
            "GET", "/v1/federation", "read", "showFederation",
            "Show the federation: its parties, and who is connected.", FederationPage,
            show_federation,
        ),
        Endpoint(
            "GET", "/v1/alignments", "read", "listAlignments", "List standing alignments.",
            StandingAlignments, list_alignments,
        ),
        *RunEndpoints(api).endpoints(),
        *ModelEndpoints(api).endpoints(),
        Endpoint(
            "GET", "/v1/openapi.json", "read", "describe", "Return this description.", None,
            show_description,
        ),
    ]  # fmt: skip
    description.update(describe(f"Federation {api.federation}", endpoints))
    return endpoints
