"""Turns of queued runs: who begins now, by what is under way; no clock, no threads."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from fedforest.runtime.coordinator.operation.turns import Candidate, MemoryGauge, choose_turns

NOBODY: dict[str, int] = {}


def run(number: int, parties: str, user: str = "ann") -> Candidate:
    return Candidate(bytes([number]), user, frozenset(parties))


def numbers(turns: list[Candidate]) -> list[int]:
    return [turn.run[0] for turn in turns]


def test_runs_of_different_parties_begin_together_and_those_of_a_busy_party_wait() -> None:
    waiting = [run(1, "ab"), run(2, "bc"), run(3, "de")]
    assert numbers(choose_turns(waiting, [], NOBODY, (4, 1))) == [1, 3]
    assert numbers(choose_turns(waiting, [run(9, "d")], NOBODY, (4, 1))) == [1]
    assert numbers(choose_turns(waiting, [], NOBODY, (4, 2))) == [1, 2, 3]


def test_no_more_runs_are_under_way_than_the_coordinator_allows() -> None:
    waiting = [run(number, chr(ord("a") + number)) for number in range(6)]
    assert len(choose_turns(waiting, [run(9, "z")], NOBODY, (4, 1))) == 3


def test_a_user_with_many_runs_does_not_go_before_a_user_with_one() -> None:
    waiting = [run(1, "a"), run(2, "b"), run(3, "c", "ben")]
    assert numbers(choose_turns(waiting, [run(9, "z")], NOBODY, (3, 1))) == [3, 1]


def test_of_two_users_with_equally_many_the_one_served_longest_ago_is_next() -> None:
    waiting = [run(1, "a"), run(2, "a", "ben")]
    assert numbers(choose_turns(waiting, [], {"ann": 7, "ben": 3}, (1, 1))) == [2]
    assert numbers(choose_turns(waiting, [], {"ann": 3, "ben": 7}, (1, 1))) == [1]


def test_a_run_of_many_parties_is_not_overtaken_for_ever_by_small_ones() -> None:
    waiting = [run(1, "ab"), run(2, "b")]
    assert choose_turns(waiting, [run(9, "a")], NOBODY, (4, 1)) == []  # 2 would keep b from 1


@given(
    st.lists(st.tuples(st.text("abcd", min_size=1, max_size=3), st.sampled_from("xyz"))),
    st.integers(1, 4),
    st.integers(1, 2),
)
def test_limits_hold_and_something_begins_whenever_nothing_is_under_way(
    orders: list[tuple[str, str]], most: int, most_of_party: int
) -> None:
    waiting = [run(number, parties, user) for number, (parties, user) in enumerate(orders)]
    turns = choose_turns(waiting, [], NOBODY, (most, most_of_party))
    assert bool(turns) == bool(waiting)
    assert len(turns) <= most
    for party in "abcd":
        assert sum(party in turn.parties for turn in turns) <= most_of_party


def test_a_run_waits_for_the_memory_of_another_and_begins_when_that_has_ended() -> None:
    gauge, has_begun = MemoryGauge(100), threading.Event()
    gauge.take(b"1", 60, lambda: False)

    def begin() -> None:
        gauge.take(b"2", 60, lambda: False)
        has_begun.set()

    thread = threading.Thread(target=begin)
    thread.start()
    assert not has_begun.wait(0.3)
    gauge.release(b"1")
    assert has_begun.wait(10)
    thread.join(10)


def test_a_run_larger_than_all_memory_begins_alone_and_a_cancelled_one_does_not_wait() -> None:
    gauge = MemoryGauge(100)
    gauge.take(b"1", 1000, lambda: False)
    gauge.take(b"2", 60, lambda: True)
