"""Who gets into the pages, how long, and what a page elsewhere cannot do with a session."""

import pytest

from fedforest.web.dashboard.sessions import IDLE_SECONDS, LONGEST_SECONDS, Sessions
from tests.web.dashboard.sites import HOST, CoordinatorPages, form_token

PAGES = ("/", "/runs", "/federation")


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_every_page_leads_to_the_login(
    pages: CoordinatorPages, path: str
) -> None:
    answer = pages.visitor().get(path, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")


def test_a_token_stands_for_its_user(pages: CoordinatorPages) -> None:
    page = pages.log_in("ada").get("/federation").text
    assert '<span class="who">ada</span>' in page
    assert "Certificate until" in page


@pytest.mark.parametrize("word", ["", "fft_", "fft_0123_secret", "<script>", "fft_a_\ud800"])
def test_words_that_are_no_tokens_are_refused(pages: CoordinatorPages, word: str) -> None:
    data = {"token": word.encode("utf-8", "surrogatepass").decode("latin-1")}
    answer = pages.visitor().post("/login", data=data)
    assert answer.status_code in (401, 429)
    assert "<script>" not in answer.text


def test_wrong_tokens_are_taken_few_at_a_time(pages: CoordinatorPages) -> None:
    visitor = pages.visitor()
    answers = [visitor.post("/login", data={"token": f"fft_{n}"}) for n in range(6)]
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    pages.log_in("ada")  # who has a valid one is not kept out by others


def test_a_token_without_the_scope_to_read_opens_nothing(pages: CoordinatorPages) -> None:
    word = pages.tokens.issue("predictions", user="ada", scopes=["predict"])
    assert pages.visitor().post("/login", data={"token": word}).status_code in (401, 429)


def test_a_token_of_nobody_or_a_stranger_opens_nothing(pages: CoordinatorPages) -> None:
    for user in ("", "mallory"):
        word = pages.tokens.issue(f"of-{user or 'nobody'}", user=user)
        assert pages.visitor().post("/login", data={"token": word}).status_code in (401, 429)


def test_a_session_ends_when_its_user_or_its_token_goes(pages: CoordinatorPages) -> None:
    pages.users["gone"] = "scientist"
    browser = pages.log_in("gone")
    assert browser.get("/runs", follow_redirects=False).status_code == 200
    del pages.users["gone"]
    assert browser.get("/runs", follow_redirects=False).status_code == 303
    pages.users["gone"] = "scientist"
    browser = pages.log_in("gone")
    for token in pages.tokens.all():
        if token.user == "gone":
            pages.tokens.remove(token.name)
    assert browser.get("/runs", follow_redirects=False).status_code == 303
    del pages.users["gone"]


def test_logging_out_ends_the_session_and_not_only_the_cookie(pages: CoordinatorPages) -> None:
    browser = pages.log_in("ada")
    kept = dict(browser.cookies)
    token = form_token(browser.get("/runs").text)
    browser.post("/logout", data={"by": token})
    again = pages.visitor()
    again.cookies.update(kept)
    assert again.get("/runs", follow_redirects=False).status_code == 303


def test_a_session_ends_when_it_is_idle_and_when_it_is_old() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    word = sessions.open("ada", frozenset(), lambda: True)
    now[0] += IDLE_SECONDS - 1.0
    assert sessions.find(word) is not None
    now[0] += IDLE_SECONDS + 1.0
    assert sessions.find(word) is None
    word, began = sessions.open("ada", frozenset(), lambda: True), now[0]
    while now[0] < began + LONGEST_SECONDS:
        assert sessions.find(word) is not None
        now[0] += IDLE_SECONDS / 2.0
    now[0] += 1.0
    assert sessions.find(word) is None


def test_the_cookie_is_out_of_the_reach_of_scripts_and_other_pages(
    pages: CoordinatorPages,
) -> None:
    word = pages.tokens.issue("cookie", user="ada")
    answer = pages.visitor().post("/login", data={"token": word}, follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert word.lower() not in cookie


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_forms_of_other_pages_are_refused(pages: CoordinatorPages, headers: dict[str, str]) -> None:
    browser = pages.log_in("ada")
    token = form_token(browser.get("/runs").text)
    assert browser.post("/logout", data={"by": token}, headers=headers).status_code == 403
    assert pages.visitor().post("/login", data={"token": "x"}, headers=headers).status_code == 403


@pytest.mark.parametrize("token", ["", "wrong"])
def test_forms_without_the_sessions_word_are_refused(pages: CoordinatorPages, token: str) -> None:
    browser = pages.log_in("ada")
    assert browser.post("/logout", data={"by": token}).status_code == 403
    other = form_token(pages.log_in("ada").get("/runs").text)
    assert browser.post("/logout", data={"by": other}).status_code == 403
    assert browser.get("/runs", follow_redirects=False).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7480", "", "127.0.0.1.evil.example"]
)
def test_requests_for_another_host_are_refused(pages: CoordinatorPages, host: str) -> None:
    answer = pages.visitor().get("/login", headers={"host": host})
    assert answer.status_code == 421


def test_every_answer_forbids_frames_and_foreign_scripts(pages: CoordinatorPages) -> None:
    browser = pages.log_in("ada")
    for path in ("/login", "/runs", "/federation", "/nowhere"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"


def test_files_are_kept_by_browsers_under_addresses_of_their_content(
    pages: CoordinatorPages,
) -> None:
    browser = pages.visitor()
    page = browser.get(f"{HOST}/login").text
    for name, kind in (("style.css", "text/css"), ("dashboard.js", "text/javascript")):
        address = next(word for word in page.split('"') if word.endswith(name))
        answer = browser.get(address)
        assert answer.headers["content-type"].startswith(kind)
        assert "immutable" in answer.headers["cache-control"]
    assert browser.get("/static/0/style.css").status_code == 404
    assert browser.get("/static/0/..%2f..%2flogin.py").status_code == 404


def test_roles_on_one_host_do_not_take_each_others_cookies(pages: CoordinatorPages) -> None:
    """Browsers send cookies of a host to all its ports."""
    names = []
    for port in (7480, 7481):
        word = pages.tokens.issue(f"port-{port}", user="ada")
        visitor = pages.visitor()
        visitor.base_url = f"{HOST}:{port}"
        answer = visitor.post("/login", data={"token": word}, follow_redirects=False)
        names.append(answer.headers["set-cookie"].partition("=")[0])
    assert len(set(names)) == 2
