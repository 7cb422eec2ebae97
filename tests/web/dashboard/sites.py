"""The pages of a coordinator whose service and parties are in this process."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2 as httpx
from starlette.applications import Starlette
from starlette.testclient import TestClient

from fedforest.runtime.membership.service_tokens import SCOPES, Scope, ServiceTokens
from fedforest.runtime.membership.user_roles import UserRole
from fedforest.web.dashboard.coordinator_site import make_routes
from fedforest.web.dashboard.login import user_of_certificate
from fedforest.web.dashboard.protection import PageProtection
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import LocalFederation, local_federation
from tests.integration.samples import divide

HOST = "http://127.0.0.1"
ROLES: dict[str, UserRole] = {
    "ada": "scientist",
    "ben": "scientist",
    "olga": "operator",
    "vera": "viewer",
    "sam": "service",
}


class CoordinatorPages:
    """The pages, and the federation behind them."""

    def __init__(self, federation: LocalFederation, folder: Path) -> None:
        self.federation = federation
        self.users = dict(ROLES)
        self.tokens = ServiceTokens(folder / "tokens.json")
        routes = make_routes(
            federation.coordinator.serve,
            "tests",
            self.tokens,
            lambda: self.users,
            partial(user_of_certificate, "tests"),
        )
        self.app = PageProtection(Starlette(routes=list(routes)), ["127.0.0.1"])

    def visitor(self) -> TestClient:
        """A browser that nobody has logged in with."""
        return TestClient(self.app, base_url=HOST, raise_server_exceptions=False)

    def log_in(self, user: str, *scopes: Scope) -> TestClient:
        """A browser that a user has logged in with."""
        client = self.visitor()
        names = [token.name for token in self.tokens.all()]
        word = self.tokens.issue(f"{user}{len(names)}", user=user, scopes=scopes or SCOPES)
        answer = client.post("/login", data={"token": word})
        assert str(answer.url) != f"{HOST}/login", answer.text
        return client


@contextmanager
def coordinator_pages(folder: Path) -> Iterator[CoordinatorPages]:
    """Pages of a federation of two parties that has no run yet."""
    pattern = make_federation(folder / "pattern", divide(2))
    with local_federation(folder / "local", pattern, users=lambda: ROLES) as federation:
        yield CoordinatorPages(federation, folder)


def form_token(page: str) -> str:
    """The word that forms of a page carry."""
    found = re.search(r'name="by" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]


def send_form(client: TestClient, path: str, **fields: str) -> httpx.Response:
    """Send a form as our own pages do."""
    by = form_token(client.get("/federation").text)
    return client.post(path, data={"by": by, **fields})
