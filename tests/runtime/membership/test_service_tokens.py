"""Tokens of applications: stored as digests, scoped, expiring, refused once removed."""

import stat
from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError
from fedforest.runtime.membership.service_tokens import OneToken, ServiceTokens


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_token_is_known_by_its_word_until_it_expires(tmp_path: Path) -> None:
    clock = Clock()
    tokens = ServiceTokens(tmp_path / "tokens.json", clock)
    word = tokens.issue("scoring", user="ada", scopes=["predict"], days=2.0)
    found = tokens.find(word)
    assert found is not None
    assert (found.name, found.user, found.scopes) == ("scoring", "ada", ["predict"])
    clock.now += 2.0 * 86400.0 - 1.0
    assert tokens.find(word) is not None
    clock.now += 2.0
    assert tokens.find(word) is None


def test_the_file_holds_digests_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    word = ServiceTokens(path).issue("scoring")
    assert word.split("_", 2)[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_removed_by_another_process_is_refused_a_second_later(tmp_path: Path) -> None:
    clock = Clock()
    running = ServiceTokens(tmp_path / "tokens.json", clock)
    elsewhere = ServiceTokens(tmp_path / "tokens.json", clock)
    word = elsewhere.issue("scoring")
    assert running.find(word) is not None
    elsewhere.remove("scoring")
    clock.now += 1.5
    assert running.find(word) is None


def test_a_token_made_by_another_process_is_known_at_once(tmp_path: Path) -> None:
    clock = Clock()
    running = ServiceTokens(tmp_path / "tokens.json", clock)
    assert running.find("fft_wrong") is None
    clock.now += 0.1  # less than a second after the file was looked at
    word = ServiceTokens(tmp_path / "tokens.json", clock).issue("new")
    assert running.find(word) is not None


def test_other_words_are_no_token(tmp_path: Path) -> None:
    tokens = ServiceTokens(tmp_path / "tokens.json")
    word, other = tokens.issue("one"), tokens.issue("two")
    prefix, number, secret = word.split("_", 2)
    mixed = [f"{prefix}_{other.split('_', 2)[1]}_{secret}", f"xxx_{number}_{secret}", number, ""]
    for wrong in [
        *mixed,
        word[:-1],
        word + "x",
        f"{prefix}_{number}",
        "fft__",
        "\udcff",
        word.upper(),
    ]:
        assert tokens.find(wrong) is None, wrong
    assert tokens.find(word) is not None


def test_names_are_used_once_and_mistakes_are_told(tmp_path: Path) -> None:
    tokens = ServiceTokens(tmp_path / "tokens.json")
    tokens.issue("one")
    with pytest.raises(ConfigurationError, match="there is a token 'one'; remove it first"):
        tokens.issue("one")
    with pytest.raises(ConfigurationError, match="there is no token 'two'; there is: 'one'"):
        tokens.remove("two")
    with pytest.raises(ConfigurationError, match="no name of a token"):
        tokens.issue("a b")
    with pytest.raises(ConfigurationError, match="more than 0"):
        tokens.issue("three", days=0.0)
    (tmp_path / "tokens.json").write_text("[{")
    with pytest.raises(ConfigurationError, match="restore it from a copy"):
        tokens.all()


def test_a_process_without_a_file_has_a_token_of_its_own() -> None:
    one = OneToken()
    assert one.find(one.word) is not None
    assert one.find(OneToken().word) is None
