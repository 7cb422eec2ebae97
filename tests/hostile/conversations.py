"""Conversations with a real party: valid messages in any order, under any declared contract.

A state machine begins runs and parts of runs, asks what an honest coordinator could ask or anything
else, repeats, turns to other runs, ends them and restarts the party. A twin party with the same
secrets hears only what the first one accepted, and is never restarted: it must say the same. At the
end the oracle judges everything that was told.
"""

import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import shake_256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fedforest.errors import FederationError, LocalProtocolError, ReplayError, StorageError
from fedforest.masking.key_agreement import IdentityKey
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.runtime.messages.envelope import RUN_ID_BYTES, RunRequest
from fedforest.runtime.messages.orders import OptionChoice
from fedforest.runtime.messages.party_requests import BeginRun, EndRun
from fedforest.runtime.messages.roles import (
    AloneRole,
    AnyRole,
    HorizontalRole,
    LinearRole,
    PartyKeys,
    RowChoice,
    ScoringRole,
    VerticalRole,
)
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import DataSetRules, Policy
from fedforest.runtime.party.service import PartyService
from fedforest.runtime.party.spending import tell_epsilon
from fedforest.transport.codec import decode, encode
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.grammar import (
    LABELS,
    Draw,
    HorizontalSpeaker,
    LinearSpeaker,
    ScoringSpeaker,
    Speaker,
    VerticalSpeaker,
)
from tests.hostile.oracle import PROMISES, Oracle, RunTold, Table
from tests.hostile.played_coordinator import TablesInMemory

_MEMORY = Path("/dev/shm")
FOLDER = str(_MEMORY) if _MEMORY.is_dir() else None
WAYS = ("next", "next_bent", "more", "more", "anything", "again")
MOST_RUNS = 4  # of one conversation; with parts of them, there are more
NAMED: Any = {"label_columns": LABELS}
LENIENT = DataSetRules(min_rows_per_leaf=3, min_rows_per_score=5, **NAMED)
PROTECTED = DataSetRules(
    min_rows_per_leaf=3,
    min_rows_per_score=5,
    label_protection="randomized_response",
    largest_label_epsilon=2.0,
    noise=("local", "global"),
    epsilon_ceiling=6.0,
    **NAMED,
)
LIMITED = DataSetRules(min_rows_per_leaf=3, min_rows_per_score=5, epsilon_ceiling=4.0, **NAMED)
SPEAKERS: dict[type, type[Speaker]] = {
    VerticalRole: VerticalSpeaker,
    HorizontalRole: HorizontalSpeaker,
    LinearRole: LinearSpeaker,
    ScoringRole: ScoringSpeaker,
    AloneRole: ScoringSpeaker,
}
ROWS = st.sampled_from(
    [None, None, *(RowChoice(held_out=f, seed=s) for f in (1e-9, 0.4, 0.5) for s in (1, 2))]
)
NOISE = (
    LocalDP(keep=0.4),
    LocalDP(keep=0.4, p=0.99, q=0.01),
    GlobalDP(epsilon_query=0.25),
    GlobalDP(epsilon=2.0),
)
REGRESSION_NOISE = (GlobalDP(epsilon_query=0.25, target_bounds=(0.0, 100.0)),)


def make_tables(seed: int) -> dict[str, Table]:
    """Make data sets of the same 6 to 30 rows: two columns, with classes, numbers, or neither."""
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(6, 31))
    y = np.resize(np.arange(2 + (seed % 3 == 0)), n_rows)
    columns = {
        "x0": rng.normal(size=n_rows).round(1),
        "x1": rng.integers(0, 4, n_rows).astype(np.float64),
    }
    return {
        "classes": columns | {"y": rng.permutation(y)},
        "numbers": columns | {"z": 3.0 * rng.random(n_rows)},
        "columns": columns,
    }


class Secrets:
    """Reproducible secret bytes that go on through restarts."""

    def __init__(self) -> None:
        self._n_drawn = 0

    def __call__(self, n_bytes: int) -> bytes:
        self._n_drawn += 1
        return shake_256(self._n_drawn.to_bytes(8, "little")).digest(n_bytes)


class RealParty:
    """A party service that can be restarted on its folder."""

    def __init__(self, home: Path, rules: DataSetRules, tables: dict[str, Table]) -> None:
        self.home, self._policy = home, Policy(rules)
        self._tables = TablesInMemory(**tables)
        self._secrets = Secrets()
        self._keys = PartyKeys("bank", IdentityKey.from_randomness(Secrets()), bytes(32))
        self.service = self._start()

    def restart(self) -> None:
        self.service.close()
        self.service = self._start()

    def _start(self) -> PartyService:
        return PartyService(
            self.home, self._keys, self._tables, policy=self._policy, randomness=self._secrets
        )


class Conversation(RuleBasedStateMachine):
    """Everything that one coordinator says to one party."""

    promises = PROMISES
    policies: tuple[DataSetRules, ...] = (LENIENT, PROTECTED, LIMITED)
    kinds: tuple[str, ...] = ("labels", "columns", "horizontal", "horizontal", "linear")

    @initialize(number=st.integers(0, 2), seed=st.integers(0, 99))
    def meet(self, number: int, seed: int) -> None:
        rules = self.policies[number % len(self.policies)]
        self.folder = Path(tempfile.mkdtemp(dir=FOLDER))
        tables = make_tables(seed)
        self.oracle = Oracle(rules, tables)
        self.patch = pytest.MonkeyPatch()
        self.oracle.meter.connect(self.patch)
        self.party = RealParty(self.folder / "party", rules, tables)
        self.twin = RealParty(self.folder / "twin", rules, tables)
        self.answered: Counter[bytes] = Counter()
        self.last: bytes | None = None  # the last request that was accepted, and its reply
        self.reply = b""
        self.run = b""
        self.over: set[bytes] = set()  # runs that were ended

    def teardown(self) -> None:
        if not hasattr(self, "patch"):
            return
        try:
            self.oracle.booked = read_spent(self.party.home, self.oracle)
            for promise in self.promises:
                promise(self.oracle)
        finally:
            self.party.service.close()
            self.twin.service.close()
            self.patch.undo()
            shutil.rmtree(self.folder, ignore_errors=True)

    def say(self, data: bytes, hear: Callable[[bytes], None]) -> bool:
        """Say something to the party and, if it accepts, to the twin; tell whether it did."""
        self.oracle.meter.forget()
        try:
            reply = self.party.service.answer(data)
        except (LocalProtocolError, ReplayError, StorageError):
            raise
        except FederationError:
            return False
        hear(reply)
        assert self.twin.service.answer(data) == reply, "a refused request changed something"
        self.last, self.reply = data, reply
        return True

    @property
    def told(self) -> RunTold:
        return self.oracle.runs[self.run]

    def begin(self, role: AnyRole, terms: Terms) -> None:
        run = (len(self.oracle.runs) + 1).to_bytes(RUN_ID_BYTES, "big")
        if self.say(encode(BeginRun(run, role, terms)), lambda _: None):
            self.oracle.begin(run, role, terms)
            self.run = run

    def ask(self, request: Any) -> None:
        """Ask in the present run, under the next number."""
        if request is None:
            return

        def hear(reply: bytes) -> None:
            told = decode(reply, (type(request).reply,))
            self.oracle.hear(self.run, request, told)

        number = self.answered[self.run] + 1
        envelope = RunRequest(self.run, number, memoryview(encode(request)))
        self.answered[self.run] += self.say(encode(envelope), hear)

    def speak(self, draw: Draw) -> Speaker:
        return SPEAKERS[type(self.told.role)](
            draw, self.told, self.oracle.tables[self.told.role.data]
        )

    @precondition(lambda self: len(self.oracle.runs) < MOST_RUNS)
    @rule(data=st.data(), n=st.integers(0, 12))
    def begin_training(self, data: st.DataObject, n: int) -> None:
        """Begin a training, and ask what comes next some times."""
        self.begin(*draw_training(data.draw, self.kinds, is_limited=self.oracle.is_limited))
        self.go_on_with(data.draw, n)

    @precondition(lambda self: self.oracle.runs)
    @rule(data=st.data(), n=st.integers(1, 3))
    def begin_parts(self, data: st.DataObject, n: int) -> None:
        """Begin scores and baselines of a run, and ask for each what comes first."""
        runs = [told for told in self.oracle.runs.values() if not told.terms.part_of]
        whole = data.draw(st.sampled_from(runs))
        for _ in range(n):
            self.begin(*draw_part(data.draw, whole))
            self.go_on_with(data.draw, 1)

    @precondition(lambda self: self.run)
    @rule(data=st.data(), n=st.integers(1, 12))
    def go_on(self, data: st.DataObject, n: int) -> None:
        """Ask what an honest run could ask next, some times."""
        self.go_on_with(data.draw, n)

    def go_on_with(self, draw: Draw, n: int) -> None:
        for _ in range(n if self.run and self.run not in self.over else 0):
            self.ask(self.speak(draw).next())

    @precondition(lambda self: self.run)
    @rule(data=st.data(), ways=st.lists(st.sampled_from(WAYS), min_size=1, max_size=6))
    def press(self, data: st.DataObject, ways: list[str]) -> None:
        """Ask what an honest run would not, or would not at this moment."""
        for way in ways:
            self.ask(getattr(self.speak(data.draw), way)())

    @precondition(lambda self: self.last is not None)
    @rule()
    def repeat(self) -> None:
        """Repeat the last request as it was: the party says what it said."""
        before = self.reply
        assert self.last is not None
        if self.say(self.last, lambda _: None):
            assert self.reply == before, "one request has two answers"

    @precondition(lambda self: len(self.oracle.runs) > 1)
    @rule(data=st.data())
    def turn_to_another_run(self, data: st.DataObject) -> None:
        self.run = data.draw(st.sampled_from(list(self.oracle.runs)))

    @precondition(lambda self: self.run and self.told.exchanges)
    @rule(keeps=st.booleans())
    def end(self, keeps: bool) -> None:
        """End the run, and have its model kept under its own id."""
        kept = self.run.hex() if keeps and self.has_model() else None
        if self.say(encode(EndRun(self.run, kept)), lambda _: None):
            self.over.add(self.run)

    def has_model(self) -> bool:
        """Tell whether the run has something to keep."""
        trees = self.told.vertical
        return trees is None or trees.finished[0] > 0

    @rule()
    def restart(self) -> None:
        self.party.restart()


def read_spent(home: Path, oracle: Oracle) -> dict[str, float]:
    """Return what the party's ledgers booked, by data set."""
    spent: dict[str, float] = {}
    for run in oracle.runs:
        for data, figures in tell_epsilon(home, run.hex()).items():
            spent[data] = math.inf if figures["spent"] is None else figures["spent"]
    return spent


def draw_training(draw: Draw, kinds: Sequence[str], *, is_limited: bool) -> tuple[AnyRole, Terms]:
    """Draw a role and the terms of a training: any that a coordinator may declare."""
    is_regression = draw(st.integers(0, 3)) == 0
    # without noise, most trainings are refused where labels are limited
    is_noisy = draw(st.integers(0, 4)) > 0 if is_limited else draw(st.booleans())
    terms = draw_terms(draw, is_regression=is_regression, is_noisy=is_noisy)
    common: dict[str, Any] = {"is_regression": is_regression, "rows": draw(ROWS)}
    labels: dict[str, Any] = {"data": "classes", "label": "y"}
    if is_regression:
        labels = {"data": "numbers", "label": "z"}
    kind = draw(st.sampled_from(kinds))
    if kind == "horizontal":
        return HorizontalRole(**common, **labels), terms
    if kind == "linear":
        is_labelled = draw(st.booleans())
        return LinearRole(**common, **labels) if is_labelled else LinearRole(
            data="columns", **common
        ), terms
    if kind == "columns":
        return VerticalRole(data="columns", **common), terms
    return VerticalRole(**common, **labels, with_left_out=terms.votes_left_out), terms


def draw_terms(draw: Draw, *, is_regression: bool, is_noisy: bool) -> Terms:
    """Draw terms, each limit of which a party holds its coordinator to."""
    bootstrap = not is_noisy and draw(st.booleans())
    max_samples = draw(st.sampled_from([None, 0.6]))
    forest = ForestParameters(
        task="regression" if is_regression else "classification",
        criterion="squared_error" if is_regression else "gini",
        n_estimators=draw(st.integers(1, 3)),
        max_depth=draw(st.sampled_from([1, 2, 3] if is_noisy else [1, 2, 3, None])),
        min_samples_leaf=draw(st.sampled_from([3, 4, 0.2])),
        max_features=draw(st.integers(1, 2)),
        bootstrap=bootstrap,
        max_samples=max_samples,
    )
    noise = draw(st.sampled_from(REGRESSION_NOISE if is_regression else NOISE))
    votes = (bootstrap or max_samples is not None) and draw(st.booleans())
    return Terms(
        asker="ann",
        n_parties=draw(st.integers(1, 3)),
        forest=forest,
        label_epsilon=draw(st.sampled_from([0.5, 1.5])) if is_noisy and not is_regression else None,
        votes_left_out=votes,
        tells_votes=votes,
        privacy=OptionChoice.of(noise) if is_noisy else None,
        most_steps=draw(st.integers(1, 3)),
        validates=draw(st.integers(0, 3)) > 0,
        stands_alone=draw(st.integers(0, 3)) > 0,
    )


def draw_part(draw: Draw, whole: RunTold) -> tuple[AnyRole, Terms]:
    """Draw a score or a baseline of a run, on its rows or on others of a coordinator's choice."""
    role = whole.role
    part_of = draw(st.sampled_from([whole.run.hex()] * 6 + ["", bytes(RUN_ID_BYTES).hex()]))
    changes = draw(st.sampled_from([{}] * 6 + [{"validates": True, "stands_alone": True}]))
    terms = msgspec.structs.replace(whole.terms, part_of=part_of, **changes)
    rows = draw(st.sampled_from([role.rows] * 6 + [RowChoice(held_out=1e-9)]))
    common: dict[str, Any] = {
        "data": role.data,
        "label": role.label,
        "is_regression": role.is_regression,
    }
    is_vertical = isinstance(role, VerticalRole)
    kind = draw(st.sampled_from(["alone", "scoring", "vertical" if is_vertical else "alone"]))
    if kind == "alone":
        return AloneRole(**common, rows=rows, seed=1), terms
    if kind == "vertical":
        return VerticalRole(**common, rows=rows, is_alone=True), terms
    is_held_out = rows is not None and draw(st.integers(0, 3)) > 0
    scored = None if rows is None else msgspec.structs.replace(rows, is_validation=is_held_out)
    return ScoringRole(**common, rows=scored, model=whole.run.hex()), terms
