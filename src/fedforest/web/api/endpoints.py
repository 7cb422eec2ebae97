"""Endpoints as data: from one list come the routes of an application and its OpenAPI description.

Bodies and answers are structures, so that what is described is what is read and written.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fedforest.release import __version__
from fedforest.runtime.membership.service_tokens import Scope

_PROBLEM = "ProblemDetails"
_ALWAYS = (400, 401, 403, 421, 429, 500, 503)
_OF_BODIES = (408, 413, 415, 422)
_PARAMETER = re.compile(r"\{(\w+)\}")
_ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}


class ProblemDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong, in words (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str = ""


class QueryParameter(NamedTuple):
    """A parameter behind the question mark."""

    name: str
    schema: Mapping[str, Any]
    text: str


class Endpoint(NamedTuple):
    """A method of a path: what it takes, what it answers, and what may go wrong."""

    method: str
    path: str
    scope: Scope
    name: str  # its `operationId`
    summary: str
    answer: type[Any] | None
    handle: Callable[[Request], Awaitable[Response]]
    body: type[Any] | None = None
    body_kinds: tuple[str, ...] = ("application/json",)
    status: int = 200
    answer_kind: str = "application/json"
    query: tuple[QueryParameter, ...] = ()
    problems: tuple[int, ...] = ()


def make_routes(endpoints: Sequence[Endpoint], prefix: str) -> list[Route]:
    """Return the routes of endpoints, below a prefix that something else strips."""
    paths = dict.fromkeys(each.path for each in endpoints)
    return [
        Route(
            path.removeprefix(prefix),
            _choose({each.method: each.handle for each in endpoints if each.path == path}),
            methods=[each.method for each in endpoints if each.path == path],
        )
        for path in paths
    ]


def _choose(
    handlers: Mapping[str, Callable[[Request], Awaitable[Response]]],
) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await handlers[method](request)

    return handle


def describe(title: str, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI description of endpoints, in JSON's own types."""
    kinds = {kind for each in endpoints for kind in (each.body, each.answer) if kind is not None}
    named = sorted(kinds | {ProblemDetails}, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(named, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _describe_one(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _describe_one(endpoint: Endpoint) -> dict[str, Any]:
    about: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "description": f"Needs a token with the scope `{endpoint.scope}`.",
        "responses": _describe_responses(endpoint),
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _ID}
        for name in _PARAMETER.findall(endpoint.path)
    ]
    parameters += [
        {"name": each.name, "in": "query", "schema": dict(each.schema), "description": each.text}
        for each in endpoint.query
    ]
    if parameters:
        about["parameters"] = parameters
    if endpoint.body is not None:
        schema = {"$ref": f"#/components/schemas/{endpoint.body.__name__}"}
        content = {
            kind: {"schema": schema if kind == "application/json" else {"type": "string"}}
            for kind in endpoint.body_kinds
        }
        about["requestBody"] = {"required": True, "content": content}
    return about


def _describe_responses(endpoint: Endpoint) -> dict[str, Any]:
    statuses = {*_ALWAYS, *endpoint.problems}
    if _PARAMETER.search(endpoint.path):
        statuses.add(404)
    if endpoint.body is not None:
        statuses.update(_OF_BODIES)
    good: dict[str, Any] = {"type": "object"}
    if endpoint.answer is not None:
        good = {"$ref": f"#/components/schemas/{endpoint.answer.__name__}"}
    elif endpoint.answer_kind != "application/json":
        good = {"type": "string"}
    problem = {"schema": {"$ref": f"#/components/schemas/{_PROBLEM}"}}
    return {
        str(endpoint.status): {
            "description": "The answer.",
            "content": {endpoint.answer_kind: {"schema": good}},
        }
    } | {
        str(status): {
            "description": "A problem, in words.",
            "content": {"application/problem+json": problem},
        }
        for status in sorted(statuses)
    }
