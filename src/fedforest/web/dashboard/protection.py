"""What every answer of the pages goes through: hosts, headers, origins of forms.

- A request for another host than ours is refused: a page elsewhere whose name was made to lead
  here (DNS rebinding) would otherwise be of our origin.
- Headers forbid scripts, styles and frames that are not of this package.
- Forms are taken from our own pages only: by origin, and by a token of the session (`visits.py`).
"""

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedforest.web.api.problems import describe_problem

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all, forms would be of origin "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class PageProtection:
    """Refuses other hosts, and adds the headers."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        asked = host_of(Headers(scope=scope).get("host", ""))
        if asked not in self._hosts:
            text = "this server is not called by that name; start it with --web-name NAME"
            refusal: Response = PlainTextResponse(f"{text}.\n", 421)
            if scope["path"].startswith("/v1/"):
                refusal = describe_problem(421, text)
            await refusal(scope, receive, send_protected)
            return
        await self._app(scope, receive, send_protected)


def host_of(header: str) -> str:
    """Return the host of a Host header, without its port."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def comes_from_here(request: Request) -> bool:
    """Tell whether a form was sent by a page of this server, as far as the browser says."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True  # the token of the session decides
    try:
        split = urlsplit(origin)
    except ValueError:
        return False
    return split.scheme == request.url.scheme and split.netloc == request.headers.get("host", "")
