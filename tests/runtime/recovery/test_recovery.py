"""Whoever is killed, whenever: the run ends with the very same files.

A state machine lets a training go on for some exchanges, kills coordinator and parties before and
after they wrote and sent, repeats and delays requests, fills disks, cuts files and takes away what
was not waited for. In the end the run is carried to its end and compared, byte by byte, with one
that nobody disturbed.
"""

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from fedforest.errors import RemoteProtocolError, StorageError
from fedforest.protocol.asking import Accepted
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.party.run import N_REMEMBERED
from fedforest.runtime.recovery.journal import Journal
from fedforest.transport.codec import decode, encode
from tests.runtime.disks import disk_of
from tests.runtime.recoverable_runs import RUN, SCENARIOS, Killed, Recoverable

MOMENTS = ("party unasked", "party at work", "party answered", "coordinator answered")


@cache
def undisturbed(name: str) -> tuple[bytes, dict[str, int]]:
    """What a run leaves behind, and how many requests each party got in it."""
    with tempfile.TemporaryDirectory() as folder:
        training = Recoverable(SCENARIOS[name](), Path(folder))
        left_behind = training.finish()
        counts = {party: own.process().n_answered for party, own in training.parties.items()}
        training.kill_everybody()
        return left_behind, counts


class Perilous:
    """A transport over which everything arrives, until somebody is killed."""

    def __init__(self, training: Recoverable, n_exchanges: int, moment: str, victim: str) -> None:
        self.training = training
        self.n_left = n_exchanges
        self.moment = moment
        self.victim = victim

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert not may_lose
        self.n_left -= 1
        answers = {}
        for party, data in requests.items():
            is_fatal = self.n_left < 0 and party == self.victim
            if is_fatal and self.moment == "party unasked":
                self._strike()
            if is_fatal and self.moment == "party at work":
                self._interrupt(data)
            answers[party] = self.training.parties[party].answer(data)
            if is_fatal and self.moment == "party answered":
                self._strike()
        if self.n_left < 0:
            raise Killed  # the replies have arrived and are written nowhere
        return answers

    def _interrupt(self, data: bytes) -> None:
        """The request is written down; before it is on the disk and answered, the party dies."""
        party = self.training.parties[self.victim]
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(party.process()._stored.journal, "sync_soon", be_killed)
            party.answer(data)
        self._strike()

    def _strike(self) -> None:
        self.training.parties[self.victim].kill()
        raise Killed  # and the coordinator with it; its other half is a rule of its own


class Disturbances(RuleBasedStateMachine):
    """What can happen to one run."""

    scenario: str

    def __init__(self) -> None:
        super().__init__()
        self.expected, self.n_requests = undisturbed(self.scenario)
        self.folder = tempfile.TemporaryDirectory()
        self.training = Recoverable(SCENARIOS[self.scenario](), Path(self.folder.name))
        self.said: dict[str, list[tuple[bytes, bytes]]] = {p: [] for p in self.training.parties}
        self.n_most = 0  # exchanges that were ever in the coordinator's journal
        self.n_safe = 0  # of which so many are on the disk whatever happens
        for name, party in self.training.parties.items():
            party.answer = self._overhear(name, party.answer)  # type: ignore[method-assign]

    def _overhear(self, name: str, answer: Any) -> Any:
        """Keep what the party said first; whatever it says again must be the same."""

        def overheard(data: bytes) -> bytes:
            reply: bytes = answer(data)
            for asked, said in self.said[name]:
                assert asked != data or said == reply, "one request has two answers"
            self.said[name].append((data, reply))
            return reply

        return overheard

    def party(self, number: int) -> str:
        names = self.training.scenario.parties
        return names[number % len(names)]

    @rule(n=st.integers(0, 8), moment=st.sampled_from(MOMENTS), number=st.integers(0, 2))
    def go_on_until_somebody_is_killed(self, n: int, moment: str, number: int) -> None:
        transport = Perilous(self.training, n, moment, self.party(number))
        try:
            trained = self.training.carry_on(transport)
        except Killed:
            return
        assert self.training.collect(trained) == self.expected

    @rule(number=st.integers(0, 2))
    def kill_a_party(self, number: int) -> None:
        self.training.parties[self.party(number)].kill()

    def heard(self, number: int) -> list[tuple[bytes, bytes]]:
        return self.said[self.party(number)]

    @precondition(lambda self: any(self.said.values()))
    @rule(number=st.integers(0, 2), back=st.integers(0, 5))
    def repeat_a_request(self, number: int, back: int) -> None:
        """The last ones get their answers again; those that came before them get none."""
        name, heard = self.party(number), self.heard(number)
        if not heard:
            return
        data, reply = heard[max(0, len(heard) - 1 - back)]
        party = self.training.parties[name]
        if read(data).sequence > party.process().n_answered - N_REMEMBERED:
            assert party.answer(data) == reply
        else:
            with pytest.raises(RemoteProtocolError, match="is over"):
                party.answer(data)

    @rule(number=st.integers(0, 2), ahead=st.integers(0, 3))
    def ask_something_else(self, number: int, ahead: int) -> None:
        """In the place of what was answered, of what comes next, and of what comes later."""
        party = self.training.parties[self.party(number)]
        sequence = party.process().n_answered + ahead
        if sequence == 0:
            return
        nonsense = encode(RunRequest(RUN, sequence, memoryview(encode(Accepted()))))
        with pytest.raises(RemoteProtocolError, match="coordinator"):
            party.answer(nonsense)

    @rule(room=st.integers(0, 2000))
    def fill_the_disk(self, room: int) -> None:
        """Somebody has handled something and cannot write that down: then it says nothing."""
        journals = [self.training.journal, *(p.journal for p in self.training.parties.values())]
        self.training.open().close()
        largest = max(path.stat().st_size for path in journals if path.exists())
        with disk_of(largest + room), suppress(StorageError):
            self.training.carry_on()
        with Journal.open(self.training.journal) as journal:
            # Parties may have heard two exchanges more: one that could not be written, and the next
            # one. It was begun to be written when all before it were on the disk.
            self.n_safe = journal.n_records

    @rule(number=st.integers(0, 3), n_bytes=st.integers(1, 400))
    def leave_an_unfinished_record(self, number: int, n_bytes: int) -> None:
        """A process was killed while it wrote what nobody has seen the effects of yet."""
        journals = [self.training.journal, *(p.journal for p in self.training.parties.values())]
        path = journals[number]
        if not path.exists():
            return
        self.training.kill_everybody()
        with Journal.open(path) as journal:
            size = path.stat().st_size
            journal.append(bytes(n_bytes))
        with path.open("rb+") as file:
            file.truncate(size + n_bytes)  # the record is 28 bytes longer

    @precondition(lambda self: self.training.journal.exists())
    @rule()
    def lose_power_at_the_coordinator(self) -> None:
        """The last exchange was written but is not on the disk; parties may have heard on."""
        with Journal.open(self.training.journal) as journal:
            self.n_most = max(self.n_most, journal.n_records)
            # what came before the last one was waited for
            if journal.n_records == self.n_most > self.n_safe:
                journal.take_back()

    @rule(number=st.integers(0, 2))
    def lose_power_at_a_party(self, number: int) -> None:
        """The digest of the last reply was written but is not on the disk; the reply has left."""
        party = self.training.parties[self.party(number)]
        party.kill()
        if party.journal.exists():
            with Journal.open(party.journal) as journal:
                if journal.n_records and journal.n_records % 2 == 0:
                    journal.take_back()

    def teardown(self) -> None:
        assert self.training.finish() == self.expected
        self.training.kill_everybody()
        assert self.training.finish() == self.expected  # all of it is on the disk
        self.training.kill_everybody()
        self.folder.cleanup()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_disturbed_run_ends_with_the_same_bytes_as_an_undisturbed_one(scenario: str) -> None:
    machine = type("Disturbances", (Disturbances,), {"scenario": scenario})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=12,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_whoever_is_killed_in_every_exchange_the_run_ends_with_the_same_bytes(
    tmp_path: Path, scenario: str, moment: str
) -> None:
    """Not one exchange goes well at the first attempt, for any party."""
    expected, _ = undisturbed(scenario)
    training = Recoverable(SCENARIOS[scenario](), tmp_path)
    n_lives, trained = 0, None
    while trained is None:
        names = training.scenario.parties
        victim = names[n_lives % len(names)]
        n_lives += 1
        with suppress(Killed):
            # every other life one exchange goes well, after which the next one is fatal
            trained = training.carry_on(Perilous(training, n_lives % 2, moment, victim))
        training.kill_everybody()
    assert n_lives > 5
    assert training.collect(trained) == expected
    training.kill_everybody()


def be_killed() -> None:
    raise Killed


def read(data: bytes) -> RunRequest:
    request = decode(data, (RunRequest,))
    assert isinstance(request, RunRequest)
    return request
