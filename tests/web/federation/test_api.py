"""The HTTP API of a federation: answers, roles and scopes, refusals, and attacks."""

import asyncio
import json
from collections.abc import Iterator

import httpx2 as httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from fedforest.errors import AccessRefused
from fedforest.runtime.messages.orders import PredictVertical, StandingName
from fedforest.runtime.messages.results import Predictions
from fedforest.web.api.guard import Guard, WebLimits
from fedforest.web.federation.routes import mount_api
from tests.runtime.partly_shared import common_people
from tests.runtime.ruled_federations import demand
from tests.web.federation.api_federations import (
    MODEL,
    PEOPLE,
    USERS,
    ApiFederation,
    KnownTokens,
    api_federation,
    check_problem,
)

PREDICT = f"/v1/models/{MODEL}/predictions"
RUN = f"/v1/runs/{MODEL}"
ENDPOINTS = {
    ("GET", "/v1/federation"): "read",
    ("GET", "/v1/alignments"): "read",
    ("GET", "/v1/runs"): "read",
    ("POST", "/v1/runs"): "order",
    ("GET", RUN): "read",
    ("GET", f"{RUN}/events"): "read",
    ("POST", f"{RUN}/cancel"): "order",
    ("POST", f"{RUN}/resume"): "order",
    ("GET", "/v1/models"): "read",
    ("GET", f"/v1/models/{MODEL}"): "read",
    ("POST", f"/v1/models/{MODEL}/withdraw"): "order",
    ("POST", PREDICT): "predict",
    ("GET", "/v1/openapi.json"): "read",
}
TOML = """
protocol = "vertical"
name = "by http"
seed = 3
align = { standing = "people" }

[parties]
bank = "people"
shop = "people"
clinic = "people"

[label]
column = "label"
party = "bank"

[parameters]
n_estimators = 2
max_depth = 2
min_samples_leaf = 5
"""


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiFederation]:
    with api_federation(tmp_path_factory.mktemp("api")) as federation:
        yield federation


def people(n: int) -> list[str]:
    return [f"person {person}" for person in sorted(common_people())[:n]]


def votes_of(federation: ApiFederation, ids: list[str]) -> list[list[float]]:
    order = PredictVertical(data=PEOPLE, model=MODEL, align=StandingName("people"), ids=[ids])
    told = federation.local.ask(order, Predictions, user="ada")
    assert isinstance(told, Predictions)
    votes: list[list[float]] = told.read().tolist()
    return votes


def test_rows_are_predicted_by_ids_and_by_numbers(federation: ApiFederation) -> None:
    api, ids = federation.client(), people(3)
    answer = api.post(PREDICT, json={"ids": [*ids, "a stranger"]}).json()
    assert answer["ids"] == [*ids, "a stranger"]
    assert answer["probabilities"] == [*votes_of(federation, ids), None]
    assert answer["classes"] == ["no", "yes"]
    assert answer["predictions"][3] is None
    by_number = api.post(PREDICT, json={"rows": [5, 0, 5], "alignment": "people"}).json()
    assert by_number["rows"] == [5, 0, 5]
    assert by_number["probabilities"][0] == by_number["probabilities"][2]
    in_order = {"rows": [1], "data": PEOPLE}
    assert len(api.post(PREDICT, json=in_order).json()["predictions"]) == 1


def test_callers_at_the_same_time_share_exchanges_and_get_their_own_rows(
    federation: ApiFederation,
) -> None:
    ids = people(24)
    expected = votes_of(federation, ids)
    transport = httpx.ASGITransport(app=federation.app)

    async def ask_all() -> list[list[list[float]]]:
        headers = {"Authorization": "Bearer ada"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://test", headers=headers
        ) as client:
            asked = [client.post(PREDICT, json={"ids": [each]}) for each in ids]
            asked.append(client.post(PREDICT, json={"ids": ["x", "y"]}))
            answers = await asyncio.gather(*asked)
        return [answer.json()["probabilities"] for answer in answers]

    n_asked, answer = 0, federation.local.hub.endpoints["shop"]

    def count(data: bytes) -> bytes:
        nonlocal n_asked
        n_asked += 1
        return answer(data)

    federation.local.hub.endpoints["shop"] = count
    try:
        told = asyncio.run(ask_all())
    finally:
        federation.local.hub.endpoints["shop"] = answer
    assert told == [*([votes] for votes in expected), [None, None]]
    assert n_asked <= 6, "25 callers are three batches of two exchanges at most"


def test_a_callers_mistake_is_not_anothers(federation: ApiFederation) -> None:
    transport = httpx.ASGITransport(app=federation.app, raise_app_exceptions=False)

    async def ask_all() -> list[int]:
        headers = {"Authorization": "Bearer ada"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://test", headers=headers
        ) as client:
            rows = [0, 1, 100_000, 2, 3]
            asked = [client.post(PREDICT, json={"rows": [row]}) for row in rows]
            return [answer.status_code for answer in await asyncio.gather(*asked)]

    assert asyncio.run(ask_all()) == [200, 200, 422, 200, 200]


def test_a_run_is_ordered_from_toml_and_json_watched_and_listed(
    federation: ApiFederation,
) -> None:
    api = federation.client("ada")
    federation.local.next_run = bytes([20] * 16)
    begun = api.post("/v1/runs", content=TOML, headers={"Content-Type": "application/toml"})
    assert begun.status_code == 202, begun.text
    run = begun.json()["run"]
    assert begun.headers["location"] == f"/v1/runs/{run}"
    with api.stream("GET", f"/v1/runs/{run}/events") as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        told = [json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: ")]
    assert told[-1]["state"] == "finished"
    page = api.get(f"/v1/runs/{run}").json()
    assert page["order"]["parameters"]["n_estimators"] == 2
    assert page["model"] == run
    listed = api.get("/v1/runs", params={"name": "by *", "state": "finished"}).json()["runs"]
    assert [each["run"] for each in listed] == [run]
    assert run in [each["id"] for each in api.get("/v1/models").json()["models"]]
    federation.local.next_run = bytes([21] * 16)
    described = {
        "protocol": "vertical",
        "parties": PEOPLE,
        "label": {"column": "label", "party": "bank"},
        "align": {"standing": "people"},
        "parameters": {"n_estimators": 1, "max_depth": 1, "min_samples_leaf": 5},
    }
    again = api.post("/v1/runs", json=described)
    assert again.status_code == 202, again.text


def test_mistakes_in_a_run_name_their_line(federation: ApiFederation) -> None:
    api = federation.client()
    wrong = TOML.replace("max_depth = 2", "max_depht = 2")
    problem = api.post("/v1/runs", content=wrong, headers={"Content-Type": "application/toml"})
    check_problem(problem, 422, "run.toml:18:1: [parameters] has no key 'max_depht'")


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_every_endpoint_refuses_strangers_other_scopes_and_users_who_left(
    federation: ApiFederation, method: str, path: str
) -> None:
    scope = ENDPOINTS[method, path]
    refusal = federation.client("").request(method, path)
    check_problem(refusal, 401, "send a valid token")
    assert refusal.headers["www-authenticate"].startswith("Bearer")
    check_problem(federation.client("nobody").request(method, path), 401)
    other = "read" if scope != "read" else "predict"
    check_problem(federation.client(f"ada:{other}").request(method, path), 403, "it lacks")
    check_problem(federation.client("left").request(method, path), 403, "no user of this")


def test_every_endpoint_is_described_and_no_other_is_there(federation: ApiFederation) -> None:
    paths = federation.client().get("/v1/openapi.json").json()["paths"]
    described = {
        (method.upper(), path.replace("{run}", MODEL).replace("{model}", MODEL))
        for path, methods in paths.items()
        for method in methods
    }
    assert described == set(ENDPOINTS)


def test_roles_of_users_hold_for_their_tokens(federation: ApiFederation) -> None:
    body = {"rows": [0]}
    assert federation.client("app").post(PREDICT, json=body).status_code == 200
    assert federation.client("olga").post(PREDICT, json=body).status_code == 200
    check_problem(federation.client("vera").post(PREDICT, json=body), 403, "is a viewer")
    check_problem(federation.client("eve").post(PREDICT, json=body), 403, "no run or model")
    check_problem(federation.client("app").get(RUN), 403, "is a service")
    assert federation.client("vera").get(RUN).status_code == 200
    toml = {"Content-Type": "application/toml"}
    for user in ("vera", "app"):
        refused = federation.client(user).post("/v1/runs", content=TOML, headers=toml)
        check_problem(refused, 403, "who may not ask for TrainVertical")
        check_problem(federation.client(user).post(f"/v1/models/{MODEL}/withdraw"), 403)
    check_problem(federation.client("eve").post(f"{RUN}/cancel"), 403, "no run or model")
    assert federation.client("eve").get("/v1/models").json() == {"models": []}
    assert federation.client("vera").get("/v1/federation").json()["users"] is None
    assert federation.client("olga").get("/v1/federation").json()["users"] == []


def test_a_user_who_leaves_is_refused_from_the_next_request_on(federation: ApiFederation) -> None:
    api = federation.client("app")
    assert api.get("/v1/models").status_code == 200
    role = federation.users.pop("app")
    try:
        check_problem(api.get("/v1/models"), 403, "no user of this federation")
        check_problem(api.post(PREDICT, json={"rows": [0]}), 403, "no user of this federation")
    finally:
        federation.users["app"] = role


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [
        (b"{", 400, "not valid JSON"),
        (b"\xff", 400, "not valid JSON"),
        (b'{"rows": [' + b"[" * 20_000, 422, "Expected `int`"),
        (b'{"rows": [0], "more": 1}', 422, "more"),
        (b'{"rows": []}', 422, "length"),
        (b"{}", 422, "one of ids and rows"),
        (b'{"rows": [0], "ids": ["x"]}', 422, "one of ids and rows"),
        (b'{"rows": [-1]}', 422, ">= 0"),
        (b'{"ids": [["a", "b"]]}', 422, "an id of the data set"),
        (b'{"ids": ["a", ["b", "c"]]}', 422, "more columns than others"),
        (b'{"ids": [""]}', 422, "length"),
        (b'{"ids": ["x"], "id_party": "nobody"}', 422, "none of the parties"),
        (b'{"rows": [0], "alignment": "other"}', 422, "no standing alignment"),
        (b'{"rows": [0], "data": {"bank": "people"}}', 422, "is missing"),
    ],
)
def test_bodies_that_cannot_be_carried_out_are_refused_in_words(
    federation: ApiFederation, content: bytes, status: int, text: str
) -> None:
    headers = {"Content-Type": "application/json"}
    check_problem(federation.client().post(PREDICT, content=content, headers=headers), status, text)


def test_policies_are_refusals_and_name_the_party(federation: ApiFederation) -> None:
    try:
        demand(federation.local, "prediction_rows_per_day = 0", "shop")
        api = federation.client()
        check_problem(api.post(PREDICT, json={"rows": [0]}), 403, "serves no rows here")
        both = 'prediction_rows_per_day = 0\nstanding_serving = "ids"'
        demand(federation.local, both, "shop")
        problem = check_problem(api.post(PREDICT, json={"rows": [0]}), 403, "rows a day")
        assert "'shop'" in problem["detail"]
        assert problem["code"] == "policy.quota"
    finally:
        demand(federation.local, 'standing_serving = "ids"', "shop")


def test_large_and_other_bodies_are_refused_unread(federation: ApiFederation) -> None:
    api = federation.client()
    body = json.dumps({"ids": ["x" * 900] * 10_000})
    check_problem(
        api.post(PREDICT, content=body, headers={"Content-Type": "application/json"}), 413
    )
    check_problem(api.post(PREDICT, content="rows=0"), 415, "application/json")
    check_problem(api.post(PREDICT, json={"rows": [0] * 60_000}), 422, "at most 50,000 rows")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/" + "0" * 31 + "/predictions",
        "/v1/models/..%2f..%2fetc%2fpasswd/predictions",
        "/v1/models/<script>/predictions",
        f"/v1/models/{MODEL.upper()}g/predictions",
    ],
)
def test_ids_in_paths_are_ids_or_nothing(federation: ApiFederation, path: str) -> None:
    check_problem(federation.client().post(path, json={"rows": [0]}), 404)


def test_methods_and_paths_that_are_not_there_are_problems(federation: ApiFederation) -> None:
    api = federation.client()
    check_problem(api.delete("/v1/runs"), 405)
    check_problem(api.get("/v1/nothing"), 404)
    assert "POST" in api.put(PREDICT).headers["allow"]


def test_names_with_markup_are_inert_in_answers(federation: ApiFederation) -> None:
    api = federation.client()
    name = "<script>alert(1)</script>"
    answer = api.get("/v1/runs", params={"name": name})
    assert answer.headers["x-content-type-options"] == "nosniff"
    refused = api.get("/v1/runs", params={name: "x"})
    check_problem(refused, 422)
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.headers["x-content-type-options"] == "nosniff"
    odd = api.post(PREDICT, json={"ids": [name + "\u202e\x1b[31m"]})
    assert odd.json()["predictions"] == [None]


def test_an_application_finds_no_way_around_its_token(federation: ApiFederation) -> None:
    """Header games: two tokens, other schemes, cookies and forwarded users change nothing."""
    api = federation.client("")
    games: list[dict[str, str]] = [
        {"Authorization": "Basic YWRhOmFkYQ=="},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer nobody, Bearer ada"},
        {"Cookie": "token=ada; Authorization=Bearer ada"},
        {"X-Forwarded-User": "ada", "X-Original-URL": "/v1/models"},
        {"Authorization": "Bearer " + "a" * 10_000},
    ]
    for headers in games:
        check_problem(api.get("/v1/models", headers=headers), 401)
    escalating = {"Authorization": "Bearer vera", "X-User": "olga", "X-HTTP-Method-Override": "GET"}
    check_problem(api.post(PREDICT, json={"rows": [0]}, headers=escalating), 403)


def test_a_token_has_a_rate_of_its_own() -> None:
    guard = Guard(KnownTokens(), WebLimits(requests_per_second=2.0, failures_per_second=1.0))

    def serve(_: object, __: bytes) -> Iterator[bytes]:
        raise AccessRefused.of("access.unknown", user="ada", run=MODEL)
        yield b""

    app = Starlette(routes=[mount_api(serve, "test", guard, lambda: USERS)])

    def ask(word: str) -> int:
        headers = {"Authorization": f"Bearer {word}"}
        api = TestClient(app, headers=headers, raise_server_exceptions=False)
        answer = api.get("/v1/models")
        if answer.status_code == 429:
            check_problem(answer, 429, "too many requests")
            assert int(answer.headers["retry-after"]) >= 1
        return answer.status_code

    assert [ask("ada") for _ in range(6)] == [403] * 4 + [429] * 2
    assert ask("olga") == 403, "another token is not held up"
    assert [ask("wrong") for _ in range(4)] == [401] * 2 + [429] * 2
