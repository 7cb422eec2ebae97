"""Errors of the HTTP API as problem details (RFC 9457): what happened, and what to do next.

The text of an error that this package raises on purpose is meant for users; any other is a bug, of
which a client learns only that it happened.
"""

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fedforest.errors import (
    AccessRefused,
    ConfigurationError,
    DataError,
    FederationError,
    PartyError,
    PolicyRefusal,
    PrivacyError,
    TransportError,
)
from fedforest.printable import printable

MEDIA_TYPE = "application/problem+json"
_TITLES = {
    400: "The request cannot be read",
    401: "Credentials are missing or invalid",
    403: "Not allowed",
    404: "There is no such thing here",
    405: "Not with this method",
    408: "The request took too long",
    409: "Not in this state",
    411: "The length of the body is missing",
    413: "The body is too large",
    415: "The body is not JSON",
    421: "Another host was asked for",
    422: "The request cannot be carried out",
    429: "Too many requests",
    500: "A fault of the server",
    502: "A party failed",
    503: "Too much to do at present",
}
_STATUS_OF: tuple[tuple[type[FederationError], int], ...] = (
    (AccessRefused, 403),
    (PolicyRefusal, 403),
    (PrivacyError, 403),
    (DataError, 422),
    (ConfigurationError, 422),
    (PartyError, 502),
    (TransportError, 502),
)


class Problem(HTTPException):
    """An answer that is a problem; `detail` is told to the client."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(status, detail, named or None)


def describe_problem(status: int, detail: str, **more: Any) -> Response:
    """Return a problem as a response."""
    content = {"type": "about:blank", "title": _TITLES.get(status, "Not possible")}
    content |= {"status": status, "detail": printable(" ".join(detail.split())), **more}  # type: ignore[dict-item] # JSON's types
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(msgspec.json.encode(content), status, headers, media_type=MEDIA_TYPE)


async def answer_http_error(_: Request, error: Exception) -> Response:
    """Describe a `Problem`, or what the router found wrong."""
    assert isinstance(error, HTTPException)
    response = describe_problem(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


async def answer_federation_error(_: Request, error: Exception) -> Response:
    """Describe an error of the package, with its code where it has one."""
    assert isinstance(error, FederationError)
    status = next((status for kind, status in _STATUS_OF if isinstance(error, kind)), 500)
    about = {"code": error.code} if error.code else {}
    return describe_problem(status, str(error), **about)


async def answer_bug(_: Request, __: Exception) -> Response:
    """Say nothing of what went wrong; the log has it."""
    return describe_problem(500, "the server has logged what happened; report it to its operator")


HANDLERS: dict[Any, Any] = {
    HTTPException: answer_http_error,
    FederationError: answer_federation_error,
    Exception: answer_bug,
}
