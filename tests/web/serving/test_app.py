"""The HTTP API of `fedforest serve`: answers, refusals and limits."""

import json
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from fedforest import HorizontalExtraTreesClassifier
from fedforest.runtime.membership.service_tokens import SCOPES, Scope, ServiceToken
from fedforest.web.api.guard import Guard, WebLimits
from fedforest.web.serving.app import make_app
from tests.estimators.vertical_samples import labels, mixed_frame, numbers
from tests.web.served_models import colours, customers, served

PREDICT = "/v1/models/colours/predictions"
ENDPOINTS = {
    ("GET", "/v1/models"): "read",
    ("GET", "/v1/models/colours"): "read",
    ("GET", "/v1/openapi.json"): "read",
    ("POST", PREDICT): "predict",
}
ROW = [0.5, None, -1.0, 2]


class KnownWords:
    """Tokens named as their words; `read-only` and so on have one scope."""

    def find(self, word: str) -> ServiceToken | None:
        scopes: list[Scope] = [scope for scope in SCOPES if word in ("all", f"{scope}-only")]
        return ServiceToken(word, word, "", scopes, "", 0.0, 0.0) if scopes else None


def client(word: str = "all", **bounds: Any) -> TestClient:
    models = [served("colours", colours()[1]), served("customers", customers()[1])]
    headers = {"Authorization": f"Bearer {word}"} if word else {}
    app = make_app(models, Guard(KnownWords(), WebLimits(**bounds)))
    return TestClient(app, headers=headers, raise_server_exceptions=False)


def ask(api: TestClient, rows: Any, path: str = PREDICT) -> httpx.Response:
    return api.post(path, json={"rows": rows})


def check_problem(response: httpx.Response, status: int, text: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert text in problem["detail"], problem["detail"]


def test_predictions_are_those_of_the_estimator() -> None:
    forest, _ = colours()
    asked = np.round(numbers(seed=1), 3)
    for rows in (asked, asked[:1]):
        answer = ask(client(), rows.tolist()).json()
        assert answer["model"] == "colours"
        assert answer["classes"] == ["blue", "green", "red"]
        assert answer["predictions"] == forest.predict(rows).tolist()
        np.testing.assert_array_equal(answer["probabilities"], forest.predict_proba(rows))


def test_rows_go_by_the_names_of_columns_and_numbers_come_back_for_a_regression() -> None:
    forest, _ = customers()
    frame = mixed_frame(seed=2)
    rows = json.loads(frame.to_json(orient="records"))
    answer = ask(
        client(), [{**row, "of no use": 1} for row in rows], "/v1/models/customers/predictions"
    )
    assert answer.json() == {"model": "customers", "predictions": forest.predict(frame).tolist()}


def test_hard_votes_of_a_model_stay_hard() -> None:
    forest = HorizontalExtraTreesClassifier(5, voting="hard", random_state=0)
    forest.fit(numbers(), labels(numbers()))
    answer = served("hard", forest.to_bytes()).answer(numbers(1).tolist())
    np.testing.assert_array_equal(answer["probabilities"], forest.predict_proba(numbers(1)))


def test_models_say_what_has_to_be_sent() -> None:
    models = client().get("/v1/models").json()["models"]
    assert [model["id"] for model in models] == ["colours", "customers"]
    shown = client().get("/v1/models/customers").json()
    assert shown == models[1]
    assert {"name": "city", "type": "category"} in shown["columns"]
    assert {"name": "age", "type": "number"} in shown["columns"]
    assert shown["task"] == "regression"


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
@pytest.mark.parametrize("word", ["", "unknown", *(f"{scope}-only" for scope in SCOPES)])
def test_every_endpoint_refuses_strangers_and_tokens_of_another_scope(
    method: str, path: str, word: str
) -> None:
    response = client(word).request(
        method, path, json={"rows": [ROW]} if method == "POST" else None
    )
    if word.removesuffix("-only") == ENDPOINTS[method, path]:
        assert response.status_code == 200
    elif word in ("", "unknown"):
        check_problem(response, 401, "send a valid token")
        assert response.headers["www-authenticate"].startswith("Bearer")
    else:
        check_problem(response, 403, f"lacks {ENDPOINTS[method, path]!r}")


def test_every_endpoint_is_in_this_matrix_and_in_the_description() -> None:
    app: Any = client().app
    routes = {
        (method, route.path.replace("{model}", "colours"))
        for route in app.routes
        for method in route.methods - {"HEAD"}
    }
    assert routes == set(ENDPOINTS)
    paths = client().get("/v1/openapi.json").json()["paths"]
    described = {
        (method.upper(), path.replace("{model}", "colours"))
        for path, methods in paths.items()
        for method in methods
    }
    assert described == routes


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"{", 400, "not valid JSON"),
        (b"\xff", 400, "not valid JSON"),
        (b'{"rows": [' + b"[" * 5000, 422, "got `array`"),
        (b"[]", 422, "Expected `object`"),
        (b'{"rows": [1]}', 422, "got `int`"),
        (b'{"rows": [[[]]]}', 422, "got `array`"),
        (b'{"rows": []}', 422, "no rows to predict"),
        (b'{"rows": [[1, 2]]}', 422, "row 0 has 2 values; the model has 4 columns"),
        (b'{"rows": [["a", 1, 2, 3]]}', 422, "column 'x0' had numbers in training"),
        (b'{"rows": [{"x0": 1}]}', 422, "row 0 has no column 'x1', 'x2', 'x3'"),
        (b'{"rows": [[1, 2, 3, 4]], "votes": "hard"}', 422, "unknown field"),
        (b'{"rows": [[1e999, 2, 3, 4]]}', 422, "out of range"),
    ],
)
def test_bodies_that_are_no_question_are_refused_in_words(
    body: bytes, status: int, text: str
) -> None:
    headers = {"Content-Type": "application/json"}
    check_problem(client().post(PREDICT, content=body, headers=headers), status, text)


def test_what_is_not_here_is_a_problem_too() -> None:
    check_problem(ask(client(), [ROW], "/v1/models/other/predictions"), 404, "no such model")
    check_problem(client().get("/v1/other"), 404, "")
    check_problem(client().delete("/v1/models"), 405, "")
    check_problem(client().post(PREDICT, content=b"rows"), 415, "application/json")


def test_bodies_are_bounded_whether_or_not_they_tell_their_length() -> None:
    api = client(body_bytes=1000)
    check_problem(ask(api, [ROW] * 200), 413, "at most 1,000 bytes")
    headers = {"Content-Type": "application/json"}
    pieces = (b" " * 300 for _ in range(9))
    check_problem(api.post(PREDICT, content=pieces, headers=headers), 413, "at most 1,000 bytes")
    check_problem(ask(client(rows=3), [ROW] * 4), 422, "at most 3 rows")


def test_a_token_has_its_rate_and_refused_credentials_have_one_of_their_own() -> None:
    api = client(requests_per_second=0.5)
    assert ask(api, [ROW]).status_code == 200
    refused = ask(api, [ROW])
    check_problem(refused, 429, "too many requests")
    assert 1 <= int(refused.headers["retry-after"]) <= 3
    strangers = client("unknown", failures_per_second=1.0)
    codes = [strangers.get("/v1/models").status_code for _ in range(4)]
    assert codes == [401, 401, 429, 429]


def test_work_beyond_the_bound_is_refused_at_once() -> None:
    check_problem(ask(client(at_once=0), [ROW]), 503, "busy")


def test_a_bug_is_told_without_its_details(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    api = client()
    monkeypatch.setattr("fedforest.web.serving.model.RowReader.read", fail)
    response = ask(api, [ROW])
    check_problem(response, 500, "logged")
    assert "secret" not in response.text
