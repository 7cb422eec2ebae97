"""A visit: one request of a browser, with the session behind it; and how pages answer visits.

Handlers are plain functions from a visit to a response: they run in threads, because the requests
that they send to the coordinator wait. Errors of the package become pages.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fedforest.errors import AccessRefused, FederationError
from fedforest.runtime.membership.service_tokens import Scope
from fedforest.web.dashboard.protection import comes_from_here
from fedforest.web.dashboard.sessions import Session, Sessions

COOKIE = "fedforest-session"
_LARGEST_FORM = 256 << 10
_MOST_FIELDS = 500
_FORM_SECONDS = 20.0
_LOG = logging.getLogger(__name__)


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """A visit that is answered by a page with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(frozen=True)
class Visit:
    """One request of a user's browser."""

    request: Request
    session: Session
    form: Mapping[str, str] = field(default_factory=dict)
    site: Any = None  # what the handlers of a site share

    @property
    def user(self) -> str:
        return self.session.user

    @property
    def is_partial(self) -> bool:
        """Whether a script of ours asks for a part of a page."""
        return self.request.headers.get("x-part") == "1"

    def is_welcome(self) -> bool:
        """Tell whether the session goes on; looking does not keep it from becoming idle."""
        sessions: Sessions = self.site.sessions
        return sessions.is_open(self.request.cookies.get(cookie_name(self.request), ""))

    def path(self, name: str) -> str:
        """Return a part of the address."""
        return str(self.request.path_params[name])

    def query(self, name: str, otherwise: str = "") -> str:
        """Return a value behind the question mark of the address."""
        return self.request.query_params.get(name, otherwise)[:1000]

    def require(self, scope: Scope) -> None:
        """Refuse what the token is not for."""
        if scope not in self.session.scopes:
            raise Refused(403, f"the token that you logged in with is not for this: {scope!r}")


Handler: TypeAlias = Callable[[Visit], Response]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Explain: TypeAlias = Callable[[Visit, int, str], Response]


def cookie_name(request: Request) -> str:
    """Return the name of the cookie; over TLS browsers keep it from other hosts by its prefix.

    It has the port: browsers send cookies of one host to all of its ports, and roles share hosts.
    """
    _, port = request.scope.get("server") or ("", None)
    name = f"{COOKIE}-{port}"
    return f"__Host-{name}" if request.url.scheme == "https" else name


@dataclass(frozen=True)
class Reception:
    """Turns requests into visits of logged-in users."""

    sessions: Sessions
    explain: Explain  # makes the page of an error
    site: Any

    def find(self, request: Request) -> Session | None:
        """Return the session of a request."""
        return self.sessions.find(request.cookies.get(cookie_name(request), ""))

    def page(self, handler: Handler, *, scope: Scope = "read") -> Endpoint:
        """Return an endpoint that shows something."""

        async def answer(request: Request) -> Response:
            session = self.find(request)
            if session is None:
                return _to_login(request)
            return await self._carry_out(handler, Visit(request, session, {}, self.site), scope)

        return answer

    def action(self, handler: Handler, *, scope: Scope = "order") -> Endpoint:
        """Return an endpoint that takes a form of our own pages."""

        async def answer(request: Request) -> Response:
            session = self.find(request)
            if session is None:
                return _to_login(request)
            visit = Visit(request, session, await read_form(request), self.site)
            if not comes_from_here(request) or not session.is_form_token(visit.form.get("by", "")):
                return self.explain(
                    visit, 403, "this form was not sent by a page of your session; load it again"
                )
            return await self._carry_out(handler, visit, scope)

        return answer

    async def _carry_out(self, handler: Handler, visit: Visit, scope: Scope) -> Response:
        try:
            visit.require(scope)
            return await run_sync(handler, visit)
        except Refused as refused:
            return self.explain(visit, refused.status, refused.text)
        except FederationError as error:
            status = 403 if isinstance(error, AccessRefused) else 422
            return self.explain(visit, status, str(error))
        except Exception:  # noqa: BLE001 - a bug ends one answer, and its text is not told
            _LOG.exception("a page failed")
            return self.explain(
                visit, 500, "the server has logged what happened; tell its operator"
            )


async def read_form(request: Request) -> dict[str, str]:
    """Read a form, at most as large as ours are; of fields with one name the last counts."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return {}
    body = bytearray()
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > _LARGEST_FORM:
                    return {}
    except TimeoutError:
        return {}
    try:
        text = body.decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        return {}


def _to_login(request: Request) -> Response:
    if request.headers.get("x-part") == "1":
        return Response("log in again", 401)
    return RedirectResponse("/login", 303)
