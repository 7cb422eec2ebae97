"""A party answers each request of a run once, whatever happens to it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedforest.errors import (
    DataError,
    FederationError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    ReplayError,
    StorageError,
)
from fedforest.privacy.randomized_response import Randomness
from fedforest.protocol.asking import Handler, Message, answer
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.party.run import PartyRun
from fedforest.runtime.randomness import RandomnessSource
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.codec import decode, encode
from tests.protocol.vertical.mutations import mutate
from tests.runtime.disks import disk_of
from tests.runtime.recoverable_runs import SCENARIOS, Killed, Recoverable

RUN = bytes(16)


class Add(Message, frozen=True):
    number: int


class Total(Message, frozen=True):
    total: int
    drawn: bytes


class Tally:
    """Adds numbers up and draws a little for each; it has its moods."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._total = 0

    def handle(self, request: Message) -> Message:
        return answer({Add: self._add}, request)

    def _add(self, request: Add) -> Total:
        drawn = self._randomness(8)
        if request.number < 0:
            raise ProtocolError("a number is negative")
        if request.number == 13:
            raise DataError("this number cannot be used")
        self._total += request.number
        if request.number == 666:
            raise RuntimeError("a bug, after something was changed")
        if request.number == 667:
            raise LocalProtocolError("our own fault, after something was changed")
        return Total(self._total, drawn)


def make_tally(_: bytes, randomness: RandomnessSource) -> tuple[Handler, tuple[type[Message], ...]]:
    return Tally(randomness.of("tally")), (Add,)


@dataclass
class Disk:
    """A party's disk; `start` is a new life of the party."""

    folder: Path
    alive: PartyRun | None = None

    def start(
        self, make: Callable[..., tuple[Handler, tuple[type[Message], ...]]] = make_tally
    ) -> PartyRun:
        if self.alive is not None:
            self.alive._stored.journal.close()
        store = RunStore(self.folder, lambda n_bytes: b"s" * n_bytes)
        stored = store.open(RUN) if store.has(RUN) else store.begin(RUN, b"order")
        self.alive = PartyRun(stored, make)
        return self.alive


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def add(sequence: int, number: int, run: bytes = RUN) -> RunRequest:
    return RunRequest(run, sequence, memoryview(encode(Add(number))))


def total(reply: bytes) -> int:
    told = decode(reply, (Total,))
    assert isinstance(told, Total)
    return told.total


def test_requests_are_answered_one_after_the_other(disk: Disk) -> None:
    party = disk.start()
    assert [total(party.answer(add(n, 10 * n))) for n in (1, 2, 3)] == [10, 30, 60]
    assert party.n_answered == 3


@pytest.mark.parametrize("restarts", [False, True])
def test_the_same_request_gets_the_same_bytes_and_changes_nothing(
    disk: Disk, restarts: bool
) -> None:
    party = disk.start()
    first = party.answer(add(1, 5))
    for _ in range(3):
        party = disk.start() if restarts else party
        assert party.answer(add(1, 5)) == first
    assert total(party.answer(add(2, 1))) == 6


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("sequence", [1, 2])
def test_another_request_in_the_place_of_an_answered_one_is_refused(
    disk: Disk, restarts: bool, sequence: int
) -> None:
    party = disk.start()
    party.answer(add(1, 5))
    party.answer(add(2, 5))
    party = disk.start() if restarts else party
    with pytest.raises(RemoteProtocolError, match=f"in place of {sequence}") as caught:
        party.answer(add(sequence, 6))
    assert caught.value.party == "coordinator"
    assert total(party.answer(add(3, 1))) == 11


def test_the_last_five_replies_are_repeated_and_what_is_older_is_over(disk: Disk) -> None:
    """A coordinator that lost power may be behind by what it asks of a party at a time."""
    party = disk.start()
    replies = [party.answer(add(n, 1)) for n in range(1, 7)]
    for _ in range(2):
        for n in (6, 2, 3, 4, 5, 6):
            assert party.answer(add(n, 1)) == replies[n - 1]
        with pytest.raises(RemoteProtocolError, match="request 1 is over: 6 were answered"):
            party.answer(add(1, 1))
        party = disk.start()
    assert total(party.answer(add(7, 1))) == 7


def test_a_party_that_misses_requests_says_so(disk: Disk) -> None:
    party = disk.start()
    party.answer(add(1, 1))
    with pytest.raises(RemoteProtocolError, match="has seen 1 and misses"):
        party.answer(add(3, 1))
    assert total(party.answer(add(2, 1))) == 2


def test_a_request_of_another_run_is_refused(disk: Disk) -> None:
    with pytest.raises(RemoteProtocolError, match="another run"):
        disk.start().answer(add(1, 1, run=b"r" * 16))


@pytest.mark.parametrize("number", [-1, 13])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_refused_request_leaves_no_trace_not_even_in_what_is_drawn(
    tmp_path: Path, number: int, restarts: bool
) -> None:
    """After a restart the refused request is not repeated; draws must not depend on it."""
    calm, disturbed = Disk(tmp_path / "calm"), Disk(tmp_path / "disturbed")
    calm.start(), disturbed.start()
    for n in (1, 2, 3):
        assert calm.alive is not None
        assert disturbed.alive is not None
        with pytest.raises(FederationError):
            disturbed.alive.answer(add(n, number))
        if restarts:
            disturbed.start()
        assert disturbed.alive.answer(add(n, n)) == calm.alive.answer(add(n, n))


@pytest.mark.parametrize(("number", "error"), [(666, RuntimeError), (667, LocalProtocolError)])
def test_after_a_failure_of_its_own_the_party_is_built_anew_from_its_journal(
    disk: Disk, number: int, error: type[Exception]
) -> None:
    party = disk.start()
    party.answer(add(1, 1))
    with pytest.raises(error):
        party.answer(add(2, number))
    assert total(party.answer(add(2, 1))) == 2


def test_what_cannot_be_written_down_is_not_said_and_is_answered_when_there_is_room(
    disk: Disk,
) -> None:
    party = disk.start()
    party.answer(add(1, 1))
    size = party._stored.journal.path.stat().st_size
    for room in (0, 20):
        with disk_of(size + room), pytest.raises(StorageError, match="make room"):
            party.answer(add(2, 1))
    assert party.n_answered == 1
    assert total(party.answer(add(2, 5))) == 6  # nobody has heard the answer to the other one
    assert total(disk.start().answer(add(3, 1))) == 7


def die_with(party: PartyRun, request: RunRequest) -> None:
    """The party is killed with the request at hand: written, and not answered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(party._stored.journal, "sync_soon", be_killed)
        with pytest.raises(Killed):
            party.answer(request)


def test_a_party_killed_with_a_request_at_hand_has_its_answer_afterwards(disk: Disk) -> None:
    expected = [disk.start().answer(add(n, n)) for n in (1, 2)]
    other = Disk(disk.folder / "other")
    other.start().answer(add(1, 1))
    die_with(other.start(), add(2, 2))
    party = other.start()
    assert party.n_answered == 2
    assert party.answer(add(2, 2)) == expected[1]


@pytest.mark.parametrize("number", [-1, 13])
def test_a_request_that_was_going_to_be_refused_is_forgotten(disk: Disk, number: int) -> None:
    disk.start().answer(add(1, 1))
    die_with(disk.start(), add(2, number))
    party = disk.start()
    assert party.n_answered == 1
    assert total(party.answer(add(2, 2))) == 3


def test_a_request_that_runs_into_a_bug_after_a_restart_is_forgotten(disk: Disk) -> None:
    disk.start().answer(add(1, 1))
    die_with(disk.start(), add(2, 666))
    party = disk.start()
    with pytest.raises(RuntimeError):
        party.answer(add(2, 2))
    assert total(party.answer(add(2, 2))) == 3


def test_an_answer_whose_digest_cannot_be_written_is_given_when_there_is_room(disk: Disk) -> None:
    party = disk.start()
    party.answer(add(1, 1))
    journal = party._stored.journal
    size = journal.path.stat().st_size
    record = 28 + len(msgspec.msgpack.encode([encode(Add(5)), b""]))
    with disk_of(size + record), pytest.raises(StorageError, match="make room"):
        party.answer(add(2, 5))
    assert journal.n_records == 3  # two requests, and the digest of one reply
    assert total(party.answer(add(2, 5))) == 6


def test_two_requests_never_share_a_draw_even_if_a_disk_is_set_back(tmp_path: Path) -> None:
    one, other = Disk(tmp_path / "one").start(), Disk(tmp_path / "other").start()
    replies = [decode(one.answer(add(1, 1)), (Total,)), decode(other.answer(add(1, 2)), (Total,))]
    assert replies[0].drawn != replies[1].drawn


def test_a_party_whose_table_changed_during_the_run_is_told_apart(disk: Disk) -> None:
    def make_another(
        _: bytes, randomness: RandomnessSource
    ) -> tuple[Handler, tuple[type[Message], ...]]:
        tally = Tally(randomness.of("tally"))
        tally._total = 1
        return tally, (Add,)

    disk.start().answer(add(1, 5))
    with pytest.raises(ReplayError, match="request 1 has another answer now than before"):
        disk.start(make_another).answer(add(2, 5))
    assert total(disk.start().answer(add(2, 5))) == 10  # put back, and nothing was lost


def test_a_party_that_refuses_now_what_it_answered_before_is_told_apart(disk: Disk) -> None:
    def make_nothing(
        _: bytes, randomness: RandomnessSource
    ) -> tuple[Handler, tuple[type[Message], ...]]:
        return Tally(randomness.of("tally")), (Total,)

    disk.start().answer(add(1, 5))
    with pytest.raises(ReplayError, match="request 1 was answered and is refused now"):
        disk.start(make_nothing).answer(add(2, 5))


def test_the_handler_is_caught_up_when_its_model_is_wanted(disk: Disk) -> None:
    disk.start().answer(add(1, 5))
    tally = disk.start().handler
    assert isinstance(tally, Tally)
    assert tally._total == 5


def test_a_description_is_what_the_run_was_begun_with(disk: Disk) -> None:
    seen = []

    def make(
        description: bytes, randomness: RandomnessSource
    ) -> tuple[Handler, tuple[type[Message], ...]]:
        seen.append(description)
        return make_tally(description, randomness)

    disk.start(make).answer(add(1, 1))
    disk.start(make).answer(add(2, 1))
    assert seen == [b"order", b"order"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_parties_are_deterministic_and_a_refused_request_changes_nothing(
    tmp_path: Path, scenario: str
) -> None:
    """Before each request of a real run a party gets hostile variants of it.

    Those it refuses must leave no trace in any later answer. A few are fit to be answered: then the
    party's disk is set back.
    """
    said = Recoverable(SCENARIOS[scenario](), tmp_path / "calm").record()
    rng = np.random.default_rng(len(scenario))
    n_refused = 0
    for name, spoken in said.items():
        party = Recoverable(SCENARIOS[scenario](), tmp_path / "hostile").parties[name]
        for data, reply in spoken:
            request = decode(data, (RunRequest,))
            assert isinstance(request, RunRequest)
            for _ in range(12):
                payload = memoryview(mutate(bytes(request.payload), rng))
                if payload == request.payload:
                    continue
                hostile = encode(RunRequest(request.run, request.sequence, payload))
                party.process()
                before = party.journal.read_bytes()
                try:
                    party.answer(hostile)
                except FederationError:
                    n_refused += 1
                    assert party.journal.read_bytes() == before
                else:
                    party.kill()
                    party.journal.write_bytes(before)
            assert party.answer(data) == reply, type(request).__name__
        party.kill()
    assert n_refused > 50


def be_killed() -> None:
    raise Killed
