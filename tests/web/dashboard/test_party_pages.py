"""A party's own pages: what the owner of its data sees, and how the policy is changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from fedforest.runtime.membership.service_tokens import SCOPES, Scope, ServiceTokens
from fedforest.web.dashboard.party_site import make_party_routes
from fedforest.web.dashboard.protection import PageProtection
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import local_federation
from tests.integration.processes import result_type
from tests.integration.samples import divide, vertical
from tests.web.dashboard.sites import HOST, form_token

RUN = "cd" * 16


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a party that took part in a run, and keeps a ledger."""
    folder = tmp_path_factory.mktemp("party")
    pattern = make_federation(folder / "pattern", divide(2))
    with local_federation(folder / "local", pattern) as federation:
        federation.keep_ledgers()
        order = vertical(2)
        federation.ask(order, result_type(order), bytes.fromhex(RUN))
        yield federation.homes["bank"]


def owner(home: Path, scopes: tuple[Scope, ...] = SCOPES) -> TestClient:
    tokens = ServiceTokens(home / "tokens.json")
    app = PageProtection(
        Starlette(routes=list(make_party_routes(home, "bank", None))), ["127.0.0.1"]
    )
    client = TestClient(app, base_url=HOST, raise_server_exceptions=False)
    word = tokens.issue(f"owner{len(tokens.all())}", scopes=scopes)
    assert client.post("/login", data={"token": word}).status_code == 200
    return client


def save(client: TestClient, text: str, **fields: str) -> tuple[int, str]:
    page = client.get("/policy").text
    was = page.partition('name="was" value="')[2].partition('"')[0]
    sent = {"by": form_token(page), "was": was, "text": text, **fields}
    answer = client.post("/policy", data=sent)
    return answer.status_code, answer.text


def test_nothing_is_shown_without_a_token(home: Path) -> None:
    client = owner(home)
    client.cookies.clear()
    for path in ("/", "/data/columns/profile", "/policy", f"/records/{RUN}", "/ledger"):
        answer = client.get(path, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")


def test_data_sets_are_shown_with_their_columns(home: Path) -> None:
    client = owner(home)
    assert "/data/columns" in client.get("/").text
    profile = client.get("/data/columns/profile").text
    assert "label" in profile
    assert "Runs may see it" in profile
    assert client.get("/data/nothing").status_code == 404
    assert client.get("/data/..%2F..%2Fkeys").status_code == 404


def test_what_left_is_told_by_run_with_the_partys_own_view_of_the_model(home: Path) -> None:
    client = owner(home)
    assert RUN in client.get("/records").text
    assert "What it reveals" in client.get(f"/records/{RUN}").text
    tree = client.get(f"/records/{RUN}/trees/1").json()
    own = [title for title, who in zip(tree["titles"], tree["owners"], strict=True) if who == 0]
    profile = client.get("/data/columns/profile").text
    assert own
    assert all(f'<th scope="row">{name}</th>' in profile for name in own)
    assert "another party" in tree["titles"]
    assert client.get(f"/records/{RUN}/trees/1000").status_code == 404
    assert client.get(f"/records/{'0' * 32}").status_code == 422
    assert client.get("/records/..%2Fkeys").status_code == 404
    assert "whole" in client.get("/ledger").text


def test_a_policy_with_a_mistake_is_not_written(home: Path) -> None:
    status, page = save(owner(home), "[default]\nmin_rows_per_leaf = 'a'\n")
    assert status == 422
    assert "policy.toml:2" in page
    assert "min_rows_per_leaf = 'a'" not in (home / "policy.toml").read_text()


def test_a_change_from_elsewhere_is_not_overwritten(home: Path) -> None:
    before = (home / "policy.toml").read_text()
    status, page = save(owner(home), "[default]\n", was="0" * 64)
    assert status == 422
    assert "changed elsewhere" in page
    assert (home / "policy.toml").read_text() == before


def test_a_token_that_only_looks_saves_nothing(home: Path) -> None:
    before = (home / "policy.toml").read_text()
    client = owner(home, ("read",))
    assert "may only look" in client.get("/policy").text
    assert save(client, "[default]\n")[0] == 403
    assert (home / "policy.toml").read_text() == before


def test_what_would_change_is_told_before_it_is_saved(home: Path) -> None:
    client = owner(home)
    by = form_token(client.get("/policy").text)
    text = "[data.columns]\nmin_rows_per_leaf = 99\n"
    told = client.post("/policy/check", data={"by": by, "text": text}).text
    assert "columns (" in told
    assert "99" in told
    status, page = save(client, text)
    assert status == 200
    assert "It holds for whatever begins" in page
    assert (home / "policy.toml").read_text() == text
