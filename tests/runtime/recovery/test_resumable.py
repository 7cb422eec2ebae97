"""A coordinator goes on where it was, and the operator can decide how."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedforest.errors import (
    ConfigurationError,
    PartyLost,
    RemoteProtocolError,
    ReplayError,
    StorageError,
    TooFewParties,
)
from fedforest.privacy.global_dp import GlobalDP
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.asking import Conversation, EndEarly, ask
from fedforest.protocol.payloads import TableSize
from fedforest.protocol.vertical.messages import BinColumns, ColumnsBinned
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.recovery.resumable import Wishes, run_with_journal
from fedforest.runtime.recovery.run_store import RunStore, StoredRun
from fedforest.transport.codec import decode, encode
from fedforest.transport.in_process import InProcess
from fedforest.tree.forest.partial import union
from tests.runtime.disks import disk_of
from tests.runtime.recoverable_runs import (
    SCENARIOS,
    Killed,
    Recoverable,
    horizontal_scenario,
    sample_shares,
    small_case,
    vertical_scenario,
)

RUN = bytes(16)


def sizes(seeds: tuple[int, ...] = (1, 2, 3)) -> Conversation[list[int]]:
    """Ask two parties several times; nobody in between."""
    told = []
    for seed in seeds:
        replies = yield from ask(
            {"a": BinColumns(seed, 255), "b": BinColumns(seed, 9)}, {"s": seed}
        )
        assert (yield from ask({})) == {}
        told.append(sum(reply.size.n_rows for reply in replies.values()))
    return told


class Parties:
    """Answer with the number of the request; some exchanges end badly."""

    def __init__(self, fatal_at: int | None = None) -> None:
        self.fatal_at = fatal_at
        self.asked: list[dict[str, int]] = []
        self.reply_of: dict[str, bytes] = {}

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert not may_lose  # who may be left out is the operator's decision
        read = {party: decode(data, (RunRequest,)) for party, data in requests.items()}
        if len(self.asked) == self.fatal_at:
            raise Killed
        self.asked.append({party: r.sequence for party, r in read.items()})
        reply = encode(ColumnsBinned(TableSize(len(self.asked), 1)))
        return {party: self.reply_of.get(party, reply) for party in requests}


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    return RunStore(tmp_path).begin(RUN, b"order")


def test_requests_are_numbered_party_by_party(stored: StoredRun) -> None:
    def uneven() -> Conversation[None]:
        yield from ask({"a": BinColumns(1, 255)})
        yield from ask({"a": BinColumns(2, 255), "b": BinColumns(2, 255)})
        yield from ask({"b": BinColumns(3, 255)})

    parties = Parties()
    run_with_journal(uneven(), parties, stored)
    assert parties.asked == [{"a": 1}, {"a": 2, "b": 1}, {"b": 2}]


@pytest.mark.parametrize("fatal_at", [0, 1, 2])
def test_a_run_goes_on_where_it_was(stored: StoredRun, fatal_at: int) -> None:
    whole = RunStore(stored.journal.path.parent / "whole").begin(RUN, b"")
    expected = run_with_journal(sizes(), Parties(), whole)
    with pytest.raises(Killed):
        run_with_journal(sizes(), Parties(fatal_at), stored)
    assert stored.journal.n_records == fatal_at
    parties = Parties()
    parties.asked = [{}] * fatal_at  # they have seen these before
    assert run_with_journal(sizes(), parties, stored) == expected
    assert [sorted(numbers.values()) for numbers in parties.asked[fatal_at:]] == [
        [n, n] for n in range(fatal_at + 1, 4)
    ]


def test_a_run_that_is_over_gives_its_result_without_asking(stored: StoredRun) -> None:
    expected = run_with_journal(sizes(), Parties(), stored)
    assert run_with_journal(sizes(), Parties(fatal_at=0), stored) == expected


def test_replayed_exchanges_are_counted_and_marked(stored: StoredRun) -> None:
    before, after = ExchangeLog(), ExchangeLog()
    with pytest.raises(Killed):
        run_with_journal(sizes(), Parties(2), stored, before)
    run_with_journal(sizes(), Parties(), stored, after)
    assert [dict(exchange.note) for exchange in after.exchanges] == [
        {"s": 1, "replayed": True},
        {"s": 2, "replayed": True},
        {"s": 3},
    ]
    for old, new in zip(before.exchanges, after.exchanges[:2], strict=True):
        assert replace(new, note=old.note) == old


@pytest.mark.parametrize("seeds", [(9, 2, 3), (1, 9, 3), (1,)])
def test_a_journal_of_other_questions_is_refused(stored: StoredRun, seeds: tuple[int, ...]) -> None:
    with pytest.raises(Killed):
        run_with_journal(sizes(), Parties(2), stored)
    with pytest.raises(ReplayError, match="settings or the release"):
        run_with_journal(sizes(seeds), Parties(), stored)
    assert stored.journal.n_records == 2


def test_a_reply_that_is_refused_is_not_recorded(stored: StoredRun) -> None:
    parties = Parties()
    parties.reply_of["b"] = b"nonsense"
    with pytest.raises(RemoteProtocolError) as caught:
        run_with_journal(sizes(), parties, stored)
    assert caught.value.party == "b"
    assert stored.journal.n_records == 0
    assert run_with_journal(sizes(), Parties(), stored) == [2, 4, 6]


def test_a_full_disk_ends_the_coordinator_before_it_is_two_exchanges_ahead_of_its_journal(
    stored: StoredRun,
) -> None:
    parties = Parties()
    size = stored.journal.path.stat().st_size
    with disk_of(size + 20), pytest.raises(StorageError, match="make room"):
        run_with_journal(sizes(), parties, stored)
    assert parties.asked == [{"a": 1, "b": 1}, {"a": 2, "b": 2}]
    assert stored.journal.n_records == 0
    parties = Parties()
    assert run_with_journal(sizes(), parties, stored) == [2, 4, 6]
    assert parties.asked[0] == {"a": 1, "b": 1}  # which parties remember


def test_what_follows_from_a_wish_is_asked_after_the_wish_is_on_the_disk(
    stored: StoredRun,
) -> None:
    def endable() -> Conversation[str]:
        try:
            yield from ask({"a": BinColumns(1, 255)})
        except EndEarly:
            yield from ask({"a": BinColumns(2, 255)})
        return "ended"

    parties = Parties()
    size = stored.journal.path.stat().st_size
    with disk_of(size + 20), pytest.raises(StorageError, match="make room"):
        run_with_journal(endable(), parties, stored, wishes=Wishes(ends_early=lambda: True))
    assert parties.asked == [{"a": 1}]


class Without:
    """The parties of a training, one of which does not answer from some exchange on."""

    def __init__(self, training: Recoverable, missing: str, n_exchanges: int) -> None:
        self._inner = InProcess(training.endpoints())
        self._missing = missing
        self.n_left = n_exchanges

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert not may_lose
        self.n_left -= 1
        if self.n_left >= 0 or self._missing not in requests:
            return self._inner.exchange(requests)
        self._inner.exchange({p: data for p, data in requests.items() if p != self._missing})
        raise PartyLost("it does not answer", self._missing)


def count_exchanges(training: Recoverable, kind: str | None = None) -> list[int]:
    """The numbers of the exchanges of this kind in an undisturbed run; all by default."""
    log = ExchangeLog()
    training.carry_on(log=log)
    training.kill_everybody()
    return [n for n, e in enumerate(log.exchanges) if kind in (None, e.request)]


class Ahead:
    """The parties of a training, asked as soon as questions are; the last answers may get lost."""

    def __init__(self, training: Recoverable, fatal_at: int = 2**62) -> None:
        self._inner = InProcess(training.endpoints())
        self.n_left = fatal_at
        self.n_begun = self.n_taken = self.most_open = 0

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert not may_lose
        return self._inner.exchange(requests)

    def in_sequence(self) -> Any:
        return self._begin

    def _begin(self, requests: Mapping[str, bytes]) -> "Ahead.Pending":
        self.n_begun += 1
        self.most_open = max(self.most_open, self.n_begun - self.n_taken)
        return self.Pending(self, self._inner.exchange(requests))

    class Pending:
        def __init__(self, ahead: "Ahead", answers: dict[str, bytes]) -> None:
            self._ahead, self._answers = ahead, answers

        def replies(self, work: Any) -> dict[str, bytes]:
            work()
            self._ahead.n_taken += 1
            if self._ahead.n_taken > self._ahead.n_left:
                raise Killed
            return self._answers

        def end(self) -> None:
            """Parties have answered already."""


SIDE_BY_SIDE = "vertical, batches side by side"


def test_batches_side_by_side_are_the_same_forest_and_killed_at_any_moment_the_same_run(
    tmp_path: Path,
) -> None:
    in_a_row = vertical_scenario(small_case(), n_slots=1, batch_bytes=2**20)
    expected = Recoverable(in_a_row, tmp_path / "in a row").finish()
    training = Recoverable(SCENARIOS[SIDE_BY_SIDE](), tmp_path / "side by side")
    calm = Ahead(training)
    assert training.collect(training.carry_on(calm)) == expected
    assert calm.most_open == 3
    for n_exchanges in range(0, calm.n_taken, 5):
        killed = Recoverable(SCENARIOS[SIDE_BY_SIDE](), tmp_path / f"killed at {n_exchanges}")
        with pytest.raises(Killed):
            killed.carry_on(Ahead(killed, n_exchanges))
        killed.kill_everybody()
        assert killed.collect(killed.carry_on(Ahead(killed))) == expected


@pytest.mark.parametrize("n_left", [2, 5, 8])
def test_batches_side_by_side_end_early_with_the_first_that_are_complete(
    tmp_path: Path, n_left: int
) -> None:
    """Parties drop the batches that they finished, and the coordinator did not hear of."""
    settings: dict[str, Any] = {"n_slots": 2, "least_entries": 1, "batch_bytes": 2000}
    scenario = vertical_scenario(small_case(), **settings)
    calm = Recoverable(scenario, tmp_path / "calm")
    undisturbed = Ahead(calm)
    whole = calm.carry_on(undisturbed)
    training = Recoverable(scenario, tmp_path / "ended")
    with pytest.raises(Killed):
        training.carry_on(Ahead(training, undisturbed.n_taken - n_left))
    trained = training.carry_on(Ahead(training), wishes=Wishes(ends_early=ended))
    assert trained.ended_early
    n_trees = trained.outline.shape.n_trees
    assert 0 < n_trees < whole.outline.shape.n_trees
    end = trained.outline.shape.n_nodes
    np.testing.assert_array_equal(trained.outline.owner, whole.outline.owner[:end])
    for party in training.parties.values():
        assert party.process().handler.model(n_trees).partial.shape.n_trees == n_trees  # type: ignore[attr-defined]
    training.kill_everybody()
    again = training.carry_on(Ahead(training))
    assert training.collect(again) == training.collect(trained)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_party_that_is_lost_pauses_the_run_until_it_is_back(
    tmp_path: Path, scenario: str
) -> None:
    expected = Recoverable(SCENARIOS[scenario](), tmp_path / "calm").finish()
    training = Recoverable(SCENARIOS[scenario](), tmp_path / "paused")
    n_pauses, trained = 0, None
    while trained is None:
        with suppress(PartyLost):
            trained = training.carry_on(Without(training, "p1", n_pauses % 3))
        n_pauses += 1
    assert n_pauses > 4
    assert training.collect(trained) == expected


def ended() -> bool:
    return True


LOST = frozenset({"p2"})
END = Wishes(LOST, ended)


@pytest.mark.parametrize(
    "kind", ["StartTrees", "FindSplits", "ApplySplits", "FinishTrees", "WeighColumns"]
)
@pytest.mark.parametrize("out_of_bag", [False, True])
def test_a_vertical_run_without_a_party_ends_with_the_batches_that_are_complete(
    tmp_path: Path, kind: str, out_of_bag: bool
) -> None:
    """Five trees in batches of two; the party is lost in the last exchange of some kind."""
    settings: dict[str, Any] = {
        "out_of_bag": out_of_bag,
        "batch_bytes": 2400 if out_of_bag else 1000,
    }
    scenario = vertical_scenario(small_case(), **settings)
    calm = Recoverable(scenario, tmp_path / "calm")
    whole = calm.carry_on()
    last = max(count_exchanges(calm, kind))
    training = Recoverable(scenario, tmp_path / "paused")
    with pytest.raises(PartyLost):
        training.carry_on(Without(training, "p2", last))
    with pytest.raises(PartyLost, match="end the run early"):
        training.carry_on(wishes=Wishes(LOST))
    trained = training.carry_on(wishes=END)

    n_trees = 5 if kind == "WeighColumns" else 4
    assert trained.ended_early
    assert trained.outline.shape.n_trees == n_trees
    parties = {name: party.process().handler for name, party in training.parties.items()}
    partials = [parties[name].model(n_trees).partial for name in scenario.parties]  # type: ignore[attr-defined]
    forest = union(trained.outline, partials)
    calm_parties = [party.process().handler for party in calm.parties.values()]
    calm_forest = union(whole.outline, [p.model().partial for p in calm_parties])  # type: ignore[attr-defined]
    n_nodes = len(forest.splits.feature)
    np.testing.assert_array_equal(forest.splits.feature, calm_forest.splits.feature[:n_nodes])
    np.testing.assert_array_equal(forest.splits.cut, calm_forest.splits.cut[:n_nodes])
    assert np.isnan(trained.importances["p2"]).all()
    assert np.isfinite(np.concatenate([trained.importances[p] for p in ("p0", "p1")])).all()
    if out_of_bag:
        np.testing.assert_array_equal(trained.out_of_bag_curve, whole.out_of_bag_curve[:n_trees])
        assert trained.out_of_bag_votes is not None


def test_a_run_that_ended_early_is_replayed_to_the_same_end(tmp_path: Path) -> None:
    """Also if the coordinator is killed in the exchange that follows, and wishes are forgotten."""
    scenario = vertical_scenario(small_case())
    calm = Recoverable(scenario, tmp_path / "calm")
    last = max(count_exchanges(calm, "FindSplits"))
    training = Recoverable(scenario, tmp_path / "ended")
    with pytest.raises(PartyLost):
        training.carry_on(Without(training, "p2", last))
    with pytest.raises(PartyLost, match="p1"):
        training.carry_on(Without(training, "p1", 1), END)
    first = training.carry_on(wishes=Wishes(LOST))
    training.kill_everybody()
    again = training.carry_on()
    assert training.collect(first) == training.collect(again)
    assert again.ended_early


def test_out_of_bag_votes_are_missing_where_the_label_party_is(tmp_path: Path) -> None:
    scenario = vertical_scenario(small_case(), out_of_bag=True, batch_bytes=2400)
    training = Recoverable(scenario, tmp_path / "ended")
    last = max(count_exchanges(Recoverable(scenario, tmp_path / "calm"), "FindSplits"))
    with pytest.raises(PartyLost):
        training.carry_on(Without(training, "p1", last))
    trained = training.carry_on(wishes=Wishes(frozenset({"p1"}), ended))
    assert trained.out_of_bag_votes is None
    assert len(trained.out_of_bag_curve) == trained.outline.shape.n_trees == 4


@pytest.mark.parametrize("scenario", ["vertical, encoded", "horizontal, masked"])
def test_a_run_of_which_nothing_is_complete_cannot_end_early_and_stays_as_it_was(
    tmp_path: Path, scenario: str
) -> None:
    expected = Recoverable(SCENARIOS[scenario](), tmp_path / "calm").finish()
    training = Recoverable(SCENARIOS[scenario](), tmp_path / "run")
    with pytest.raises(PartyLost):
        training.carry_on(Without(training, "p2", 5))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="nothing of it is complete"):
            training.carry_on(wishes=END)
    assert training.finish() == expected


@pytest.mark.parametrize("plug", ["plain", Masked(), Ring(), Shamir(2)])
def test_a_horizontal_run_without_a_party_ends_with_the_batches_that_are_complete(
    tmp_path: Path, plug: Plug
) -> None:
    scenario = horizontal_scenario(sample_shares(), plug, max_depth=2)
    calm = Recoverable(scenario, tmp_path / "calm")
    whole = calm.carry_on()
    last = max(count_exchanges(calm, "ProposeThresholds"))
    training = Recoverable(scenario, tmp_path / "ended")
    with pytest.raises(PartyLost):
        training.carry_on(Without(training, "p2", last))
    trained = training.carry_on(wishes=END)
    n_trees, n_nodes = trained.forest.shape.n_trees, trained.forest.shape.n_nodes
    assert 0 < n_trees < 4
    assert trained.n_trees_begun == 4
    assert trained.lost == ("p2",)
    np.testing.assert_array_equal(trained.forest.splits.cut, whole.forest.splits.cut[:n_nodes])
    for name in ("p0", "p1"):
        assert training.parties[name].process().handler._model_file == trained.model  # type: ignore[attr-defined]


def test_a_horizontal_run_goes_on_without_a_party_that_was_given_up(tmp_path: Path) -> None:
    shares = sample_shares(owner=np.arange(60) % 4)
    scenario = horizontal_scenario(shares, Masked(), max_depth=2)
    training = Recoverable(scenario, tmp_path / "left")
    last = max(count_exchanges(Recoverable(scenario, tmp_path / "calm"), "ProposeThresholds"))
    with pytest.raises(PartyLost):
        training.carry_on(Without(training, "p2", last))
    trained = training.carry_on(wishes=Wishes(LOST))
    assert trained.lost == ("p2",)
    assert trained.forest.shape.n_trees == 4
    training.kill_everybody()
    assert training.carry_on().model == trained.model


def test_where_the_others_cannot_hide_a_party_the_run_does_not_go_on_without_it(
    tmp_path: Path,
) -> None:
    scenario = horizontal_scenario(sample_shares(), Masked(), max_depth=2)
    calm = Recoverable(scenario, tmp_path / "calm")
    expected = calm.finish()
    training = Recoverable(scenario, tmp_path / "left")
    with pytest.raises(PartyLost):
        training.carry_on(Without(training, "p2", max(count_exchanges(calm, "ProposeThresholds"))))
    for _ in range(2):
        with pytest.raises(TooFewParties, match=r"'p2' went away.*Resume the run when it is back"):
            training.carry_on(wishes=Wishes(LOST))
    assert training.finish() == expected


def test_with_noise_a_run_does_not_go_on_without_a_party_but_waits_for_it(tmp_path: Path) -> None:
    """The protocol refuses to count anew; the refusal is not recorded, so the party may return."""
    privacy = GlobalDP(epsilon_query=1.0)
    scenario = horizontal_scenario(sample_shares(), Masked(), privacy=privacy, max_depth=2)
    expected = Recoverable(scenario, tmp_path / "calm").finish()
    training = Recoverable(scenario, tmp_path / "run")
    with pytest.raises(PartyLost):
        training.carry_on(Without(training, "p2", 6))
    with pytest.raises(PartyLost, match="start a new run"):
        training.carry_on(wishes=Wishes(LOST))
    assert training.finish() == expected


def test_a_coordinator_that_knows_no_early_end_says_that_it_cannot(stored: StoredRun) -> None:
    with pytest.raises(ConfigurationError, match="cannot end early"):
        run_with_journal(sizes(), Parties(), stored, wishes=Wishes(ends_early=ended))
    assert stored.journal.n_records == 0


def test_a_coordinator_is_told_once_that_it_shall_end(stored: StoredRun) -> None:
    def tidy() -> Conversation[str]:
        there: Mapping[str, Any] = {}
        try:
            yield from ask({"a": BinColumns(1, 255)})
        except EndEarly as end:
            there = end.replies
        yield from ask({"a": BinColumns(2, 255)})
        return f"tidy with {set(there)}"

    told = run_with_journal(tidy(), Parties(), stored, wishes=Wishes(ends_early=ended))
    assert told == "tidy with {'a'}"
    assert run_with_journal(tidy(), Parties(0), stored) == told


def test_the_same_conversation_over_the_plain_driver_gives_the_same_result(
    tmp_path: Path,
) -> None:
    """A journal is an addition: without one, messages and results are the same."""
    scenario = SCENARIOS["vertical, encoded"]()
    training = Recoverable(scenario, tmp_path)
    expected = training.carry_on()

    class Unwrapped:
        def __init__(self) -> None:
            self.parties = Recoverable(scenario, tmp_path / "plain").parties
            self.n_asked = dict.fromkeys(self.parties, 0)

        def exchange(
            self, requests: Mapping[str, bytes], *, may_lose: bool = False
        ) -> dict[str, bytes]:
            assert not may_lose
            answers = {}
            for party, data in requests.items():
                self.n_asked[party] += 1
                wrapped = RunRequest(bytes(range(16)), self.n_asked[party], memoryview(data))
                answers[party] = self.parties[party].answer(encode(wrapped))
            return answers

    trained = run(scenario.make_conversation(training.open().randomness()), Unwrapped())
    np.testing.assert_array_equal(trained.outline.owner, expected.outline.owner)
