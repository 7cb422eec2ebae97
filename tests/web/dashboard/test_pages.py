"""What pages show to whom: they send the requests of a user, and the coordinator decides."""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fedforest.runtime.membership.members import Membership
from fedforest.runtime.membership.stewardship import Stewardship
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import local_federation
from tests.integration.samples import divide
from tests.web.dashboard.sites import ROLES, CoordinatorPages, send_form

RUN_TOML = """
name = "small"
protocol = "vertical"
[parties]
{parties}
[label]
column = "label"
[validation]
share = 0.3
[parameters]
n_estimators = 3
min_samples_leaf = 5
"""
STRANGE = ["0" * 32, "x" * 32, "0" * 31 + "<", "%00"]


@pytest.fixture(scope="module")
def run(pages: CoordinatorPages) -> str:
    """The id of a run that ada ordered by the form, and that has finished."""
    parties = "\n".join(f'{party} = "columns"' for party in pages.federation.parties)
    pages.federation.next_run = bytes.fromhex("ab" * 16)
    answer = send_form(pages.log_in("ada"), "/runs/new", text=RUN_TOML.format(parties=parties))
    assert answer.status_code == 200, answer.text
    found = str(answer.url).rpartition("/")[2]
    stream = pages.log_in("ada").get(f"/runs/{found}/events")
    assert "event: over" in stream.text
    assert "finished" in pages.log_in("ada").get(f"/runs/{found}").text
    return found


def text_of(client: TestClient, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return answer.text


def test_a_run_from_the_form_is_shown_with_its_scores_and_trees(
    pages: CoordinatorPages, run: str
) -> None:
    browser = pages.log_in("ada")
    page = text_of(browser, f"/runs/{run}")
    for heading in ("How good it is", "Plan and reality", "Who learned what", "Parameters"):
        assert heading in page
    assert "By party" in text_of(browser, f"/runs/{run}/result")
    tree = browser.get(f"/runs/{run}/trees/2").json()
    assert len(tree["children"]) == len(tree["titles"]) == len(tree["owners"])
    assert set(tree["details"]) <= {"its own column", ""}, "columns are their owners' secret"
    assert "small" in text_of(browser, "/runs")
    assert "ordered by" in text_of(browser, f"/runs/{run}/log")
    assert "<script" not in text_of(browser, f"/runs/{run}/report")


@pytest.mark.parametrize("what", ["", "/trees", "/trees/1", "/result", "/log", "/report", "/state"])
def test_a_run_of_another_user_looks_like_one_that_is_not_there(
    pages: CoordinatorPages, run: str, what: str
) -> None:
    browser = pages.log_in("ben")
    told = text_of(browser, f"/runs/{run}{what}", 403)
    assert "small" not in told
    of_nothing = text_of(browser, f"/runs/{'0' * 32}{what}", 403)
    form_token = r'name="by" value="[^"]+"'
    assert re.sub(form_token, "", told).replace(run, "") == re.sub(
        form_token, "", of_nothing
    ).replace("0" * 32, "")


@pytest.mark.parametrize("run", STRANGE)
@pytest.mark.parametrize("what", ["", "/trees", "/trees/1", "/events", "/report"])
def test_addresses_of_no_run_are_refused_in_words(
    pages: CoordinatorPages, run: str, what: str
) -> None:
    answer = pages.log_in("olga").get(f"/runs/{run}{what}")
    assert 400 <= answer.status_code < 500, answer.text
    assert "<h1>" in answer.text or answer.text == "Not Found"


def test_a_viewer_sees_what_is_shared_but_no_model(pages: CoordinatorPages, run: str) -> None:
    viewer = pages.log_in("vera")
    assert "small" not in text_of(viewer, "/runs")
    send_form(pages.log_in("ada"), f"/runs/{run}/share", user="vera")
    assert "How good it is" in text_of(viewer, f"/runs/{run}")
    text_of(viewer, f"/runs/{run}/trees/1", 403)
    text_of(viewer, f"/runs/{run}/trees/1?whole=1", 403)
    assert send_form(viewer, f"/runs/{run}/cancel").status_code == 403
    send_form(pages.log_in("ada"), f"/runs/{run}/share", user="vera", ends="1")
    text_of(viewer, f"/runs/{run}", 403)


ACTIONS = {
    "/runs/new": {"text": RUN_TOML.format(parties='bank = "columns"')},
    f"/runs/{'ab' * 16}/cancel": {},
    f"/runs/{'ab' * 16}/resume": {},
    f"/runs/{'ab' * 16}/end-early": {},
    f"/runs/{'ab' * 16}/share": {"user": "ben"},
    "/federation/invite": {"name": "new", "kind": "party"},
    "/federation/revoke": {"name": "shop"},
    "/federation/grant": {"name": "ben", "user_role": "operator"},
}


@pytest.mark.parametrize("path", ACTIONS)
@pytest.mark.parametrize("user", ["vera", "sam"])
def test_those_who_may_only_look_change_nothing(
    pages: CoordinatorPages, run: str, user: str, path: str
) -> None:
    del run  # it is there
    assert send_form(pages.log_in(user), path, **ACTIONS[path]).status_code == 403


@pytest.mark.parametrize("path", ACTIONS)
def test_a_token_to_look_with_changes_nothing(pages: CoordinatorPages, run: str, path: str) -> None:
    del run  # it is there
    browser = pages.log_in("olga", "read", "predict")
    assert send_form(browser, path, **ACTIONS[path]).status_code == 403


@pytest.mark.parametrize("path", [path for path in ACTIONS if "federation" in path])
def test_only_operators_change_members(pages: CoordinatorPages, path: str) -> None:
    answer = send_form(pages.log_in("ada"), path, **ACTIONS[path])
    assert answer.status_code == 403
    assert "Invite" not in text_of(pages.log_in("ada"), "/federation")


def test_a_mistake_in_a_form_is_told_and_what_was_typed_stays(pages: CoordinatorPages) -> None:
    typed = '<script>alert(1)</script>"'
    answer = send_form(pages.log_in("ada"), "/runs/new", label=typed, protocol="vertical")
    assert answer.status_code == 422
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;" in answer.text


def test_a_check_says_what_a_file_would_take(pages: CoordinatorPages, run: str) -> None:
    del run  # kernels and tables are known
    browser = pages.log_in("ada")
    parties = "\n".join(f'{party} = "columns"' for party in pages.federation.parties)
    told = send_form(browser, "/runs/new/check", text=RUN_TOML.format(parties=parties)).text
    assert "The file is valid" in told
    assert "it may take" in told
    assert "run.toml:2" in send_form(browser, "/runs/new/check", text="a = 1\nb = ").text


def test_a_list_is_turned_page_by_page(pages: CoordinatorPages, run: str) -> None:
    browser = pages.log_in("ada")
    assert run in text_of(browser, "/runs?name=sm*l")
    assert run in text_of(browser, "/runs?from=0&name=mal")
    assert run not in text_of(browser, "/runs?name=other")
    later = text_of(browser, "/runs?from=50&name=a%26b")
    assert run not in later
    assert "/runs?from=0&amp;name=a%26b" in later


def test_privacy_counts_what_left_parties(pages: CoordinatorPages, run: str) -> None:
    del run  # it left something
    page = text_of(pages.log_in("ada"), "/privacy")
    assert "Runs without noise" in page
    assert "What left parties" in page
    assert "columns of" not in text_of(pages.log_in("ben"), "/privacy")


def test_operators_invite_grant_and_revoke(tmp_path: Path) -> None:
    members = Membership.create(tmp_path / "authority", "tests")
    steward = Stewardship(members, lambda: ("127.0.0.1:1", "127.0.0.1:2"))
    pattern = make_federation(tmp_path / "pattern", divide(2))
    with local_federation(
        tmp_path / "local", pattern, users=lambda: ROLES, stewardship=steward
    ) as federation:
        browser = CoordinatorPages(federation, tmp_path).log_in("olga")
        told = send_form(browser, "/federation/invite", name="clinic", kind="party").text
        assert "fedforest-invitation-" in told
        assert "fedforest-invitation-" not in text_of(browser, "/federation")
        wrong = send_form(browser, "/federation/invite", name="a b", kind="party")
        assert wrong.status_code == 422
        wrong = send_form(browser, "/federation/invite", name="eve", kind="emperor")
        assert "viewer, service, scientist, operator" in wrong.text
        assert send_form(browser, "/federation/revoke", name="nobody").status_code == 422
        assert send_form(browser, "/federation/grant", name="x", user_role="y").status_code == 422
