"""A federation of services in this process behind its HTTP API, with a model to ask."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
from starlette.applications import Starlette
from starlette.testclient import TestClient

from fedforest.runtime.membership.service_tokens import SCOPES, Scope, ServiceToken
from fedforest.runtime.membership.user_roles import UserRole
from fedforest.runtime.messages.orders import AlignRows, ShareRun, StandingName
from fedforest.runtime.messages.results import Alignment, RunDetails, VerticalResult
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.web.api.guard import Guard, WebLimits
from fedforest.web.federation.routes import mount_api
from tests.integration.local_federation import Endpoint, LocalFederation, local_federation
from tests.runtime.partly_shared import PARTIES, make_pattern, vertical_order
from tests.runtime.ruled_federations import demand

PEOPLE = dict.fromkeys(PARTIES, "people")
MODEL = bytes([2] * 16).hex()
USERS: dict[str, UserRole] = {
    "ada": "scientist",
    "eve": "scientist",
    "olga": "operator",
    "app": "service",
    "vera": "viewer",
}


class KnownTokens:
    """Tokens named as `user` or `user:scope`; users that left have theirs still."""

    def find(self, word: str) -> ServiceToken | None:
        user, _, only = word.partition(":")
        if user not in {*USERS, "left"}:
            return None
        scopes: list[Scope] = [scope for scope in SCOPES if only in ("", scope)]
        return ServiceToken(word, word, user, scopes, "", 0.0, 0.0)


class ApiFederation:
    """Services in this process, and clients of their HTTP API."""

    def __init__(self, local: LocalFederation, **bounds: Any) -> None:
        self.local = local
        self._answering = threading.Lock()
        for party, answer in local.hub.endpoints.items():
            local.hub.endpoints[party] = self._one_at_a_time(answer)
        self.users = dict(USERS)
        guard = Guard(KnownTokens(), WebLimits(**{"failures_per_second": 0.0, **bounds}))
        serve = local.coordinator.serve
        self.app = Starlette(routes=[mount_api(serve, "test", guard, lambda: self.users)])

    def _one_at_a_time(self, answer: Endpoint) -> Endpoint:
        """A party answers one request at a time, as on its connection."""

        def locked(data: bytes) -> bytes:
            with self._answering:
                return answer(data)

        return locked

    def client(self, word: str = "ada") -> TestClient:
        headers = {"Authorization": f"Bearer {word}"} if word else {}
        return TestClient(self.app, headers=headers, raise_server_exceptions=False)


@contextmanager
def api_federation(folder: Path, **bounds: Any) -> Iterator[ApiFederation]:
    """A federation in which ada has a model, shared with app and vera."""
    (folder / "pattern").mkdir()
    (folder / "federation").mkdir()
    pattern = make_pattern(folder / "pattern")
    with local_federation(folder / "federation", pattern, users=lambda: USERS) as local:
        for party in PARTIES:
            demand(local, 'standing_serving = "ids"', party)
        align = AlignRows(data=PEOPLE, method="psi", name="people")
        local.ask(align, Alignment, bytes([1] * 16), "ada")
        small = ForestParameters(n_estimators=4, max_depth=3, min_samples_leaf=5)
        order = vertical_order(align=StandingName("people"), validation=None, parameters=small)
        local.ask(order, VerticalResult, bytes.fromhex(MODEL), "ada")
        for user in ("app", "vera"):
            local.ask(ShareRun(run=MODEL, user=user), RunDetails, user="ada")
        local.next_run = bytes([9] * 16)
        yield ApiFederation(local, **bounds)


def check_problem(response: httpx.Response, status: int, text: str = "") -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert text in problem["detail"], problem["detail"]
    return problem
