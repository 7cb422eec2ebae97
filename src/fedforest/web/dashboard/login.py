"""Logging in and out: by a token, or by the certificate that the browser showed.

Wrong tokens are taken few at a time from one address, whatever their words.
"""

from collections.abc import Callable
from dataclasses import dataclass

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fedforest.errors import ConfigurationError
from fedforest.reports.markup import Child, Markup, element
from fedforest.runtime.membership.service_tokens import SCOPES
from fedforest.transport.tls import read_identity
from fedforest.web.api.guard import KnowsTokens, Rates
from fedforest.web.dashboard.layout import Site, code_block, labelled, notice, write_document
from fedforest.web.dashboard.protection import comes_from_here
from fedforest.web.dashboard.sessions import LONGEST_SECONDS, Sessions, token_login
from fedforest.web.dashboard.visits import Reception, Visit, cookie_name, read_form

FAILURES_PER_SECOND = 1.0  # of one address
_NO_TOKEN = (
    "This is no valid token for these pages: mistyped, expired, removed, or of a user who left."
)
_EXPLANATIONS = {
    "coordinator": "Log in with a token of yours. The operator of the coordinator makes one with",
    "party": "Log in with a token of this party. Whoever has the party's folder makes one with",
}
_COMMANDS = {
    "coordinator": "fedforest tokens add NAME --user USER --file COORDINATOR/tokens.json",
    "party": "fedforest tokens add NAME --file PARTY/tokens.json",
}


@dataclass(frozen=True)
class Login:
    """The page to log in at."""

    site: Site
    sessions: Sessions
    tokens: KnowsTokens
    is_member: Callable[[str], bool]  # whether a token's user still is one
    failures: Rates
    user_of_certificate: Callable[[Request], str | None]

    async def show(self, request: Request) -> Response:
        """Show the form, or say who the browser's certificate is of."""
        return self._page(request)

    async def enter(self, request: Request) -> Response:
        """Begin a session."""
        address = request.client.host if request.client else ""
        if not comes_from_here(request):
            return self._page(request, "This form was not sent by the page here.", 403)
        form = await read_form(request)
        if "certificate" in form:
            return self._enter_by_certificate(request)
        word = form.get("token", "").strip()[:200]
        found = await run_sync(token_login, self.tokens, word)
        if found is None or not self.is_member(found[0]):
            wait = self.failures.wait_seconds(address)
            if wait:
                return self._too_many(request, wait)
            return self._page(request, _NO_TOKEN, 401)
        user, scopes, is_good = found

        def still() -> bool:
            return is_good() and self.is_member(user)

        return self._begin(request, self.sessions.open(user, scopes, still))

    def _enter_by_certificate(self, request: Request) -> Response:
        user = self.user_of_certificate(request)
        if user is None or not self.is_member(user):
            return self._page(request, "The browser showed no certificate of a member.", 401)
        word = self.sessions.open(user, frozenset(SCOPES), lambda: self.is_member(user))
        return self._begin(request, word)

    @staticmethod
    def leave(visit: Visit) -> Response:
        """End the session of a visit."""
        name = cookie_name(visit.request)
        visit.site.sessions.close(visit.request.cookies.get(name, ""))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(name, secure=name.startswith("__"), httponly=True)
        return response

    def _too_many(self, request: Request, wait: float) -> Response:
        seconds = max(1, round(wait + 0.5))
        response = self._page(request, f"Too many wrong tokens; wait {seconds} s.", 429)
        response.headers["retry-after"] = str(seconds)
        return response

    @staticmethod
    def _begin(request: Request, word: str) -> Response:
        response = RedirectResponse("/", 303)
        name = cookie_name(request)
        response.set_cookie(
            name,
            word,
            max_age=int(LONGEST_SECONDS),
            secure=name.startswith("__"),
            httponly=True,
            samesite="strict",
        )
        return response

    def _page(self, request: Request, trouble: str = "", status: int = 200) -> Response:
        box = element(
            "input",
            type="password",
            name="token",
            id="token",
            required=True,
            autocomplete="current-password",
            autofocus=True,
            maxlength=200,
        )
        form = element(
            "form",
            labelled("Token", box, "It begins with fft_.", for_="token"),
            element("button", "Log in", type="submit", class_="main-button"),
            method="post",
            action="/login",
            id="login",
        )
        body = element(
            "main",
            element("h1", self.site.title),
            element("p", f"This is a {self.site.kind} of a federation.", class_="lead"),
            notice(trouble, kind="bad") if trouble else None,
            element("section", form, self._certificate_form(request), self._help()),
            id="main",
            class_="login",
        )
        return HTMLResponse(write_document(self.site, "Log in", body), status)

    def _certificate_form(self, request: Request) -> Markup | None:
        user = self.user_of_certificate(request)
        if user is None or not self.is_member(user):
            return None
        return element(
            "form",
            element("input", type="hidden", name="certificate", value="1"),
            element("button", f"Go on as {user}, by certificate", type="submit"),
            method="post",
            action="/login",
        )

    def _help(self) -> Child:
        return [
            element("p", _EXPLANATIONS[self.site.kind], class_="quiet"),
            code_block(_COMMANDS[self.site.kind], "command"),
        ]


def user_of_certificate(federation: str, request: Request) -> str | None:
    """Return the user of the federation whose certificate the browser showed, if it did.

    The handshake has checked that the federation's authority signed it and that it is valid.
    """
    chain = request.scope.get("extensions", {}).get("tls", {}).get("client_cert_chain") or [""]
    try:
        identity = read_identity(chain[0].encode())
    except ConfigurationError:
        return None
    is_user = identity.role == "user" and identity.federation == federation
    return identity.name if is_user else None


def make_login_endpoints(
    login: Login, reception: Reception
) -> dict[tuple[str, str], Callable[[Request], object]]:
    """Return the endpoints by address and method."""
    return {
        ("/login", "GET"): login.show,
        ("/login", "POST"): login.enter,
        ("/logout", "POST"): reception.action(login.leave, scope="read"),
    }
