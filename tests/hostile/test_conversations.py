"""Whatever a coordinator says, in whatever order: the party keeps every promise to its owner."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from fedforest.protocol.horizontal.labels import PartyLabels
from fedforest.protocol.horizontal.party import statistics
from fedforest.protocol.horizontal.party import training as party
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.protocol.horizontal.party.trees import HorizontalPartyTrees
from fedforest.runtime.party import service
from fedforest.runtime.party.approval import RunAccountant
from fedforest.runtime.party.models import PartyModels
from fedforest.runtime.party.parts import PartsBegun
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.trainings import horizontal, vertical
from tests.hostile import oracle
from tests.hostile.conversations import LENIENT, PROTECTED, Conversation

FEW, MANY = 100, 20_000
STEPS = 20  # rules of one conversation, of which one asks up to a dozen requests
WHATEVER_IT_TAKES = list(HealthCheck)


@pytest.mark.parametrize("n", [FEW, pytest.param(MANY, marks=pytest.mark.exhaustive)])
def test_no_conversation_tells_more_than_the_owner_allows(n: int) -> None:
    phases = (Phase.generate,) if n == FEW else (Phase.generate, Phase.shrink)
    settle = settings(
        max_examples=n,
        phases=phases,
        stateful_step_count=STEPS,
        derandomize=True,
        suppress_health_check=WHATEVER_IT_TAKES,
    )
    run_state_machine_as_test(Conversation, settings=settle)


class OpenGate:
    """A handler without a contract, as it was before there were any."""

    def __init__(self, *parts: Any) -> None:
        _, _, handler, _ = parts
        self.handle = handler.handle


def _open_gates(patch: pytest.MonkeyPatch) -> None:
    for module in (horizontal, vertical):
        patch.setattr(module, "Gate", OpenGate)


def _allow_other_rows(patch: pytest.MonkeyPatch) -> None:
    """Baselines choose their rows, and few rows are scored."""
    patch.setattr(service, "check_part", lambda *_: None)
    patch.setattr(RunAccountant, "approve", _approve_everything)


def _approve_everything(self: RunAccountant, *_: Any, **__: Any) -> None:
    self.has_approved = True


def _score_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartsBegun, "with_part", lambda self, *_: self)
    patch.setattr(PartyModels, "note_scoring", lambda *_: True)


def _begin_anew_under_noise(patch: pytest.MonkeyPatch) -> None:
    _open_gates(patch)
    patch.setattr(HorizontalParty, "_check_start", lambda *_: None)


def _number_rows(patch: pytest.MonkeyPatch) -> None:
    """Rows are known by their positions in a run."""

    def choose(agreed: Any, targets: Any, key: bytes, _: Any) -> statistics.Statistics:
        return statistics.choose_statistics(agreed, targets, key, None)

    patch.setattr(party, "choose_statistics", choose)


def _count_again(patch: pytest.MonkeyPatch) -> None:
    _open_gates(patch)
    patch.setattr(HorizontalPartyTrees, "count_once", lambda *_: None)


def _declare_targets(patch: pytest.MonkeyPatch) -> None:
    declare = PartyLabels.declare
    patch.setattr(PartyLabels, "declare", lambda self, wire, _: declare(self, wire))


@dataclass
class Hole:
    """A check of the party that is taken away, and the promises that then break."""

    open: Callable[[pytest.MonkeyPatch], None]
    broken: tuple[Callable[[oracle.Oracle], None], ...]
    kinds: tuple[str, ...] = ("horizontal",)
    policy: DataSetRules = LENIENT


HOLES = {
    "baselines on one row tell its label": Hole(
        _allow_other_rows, (oracle.no_score_is_of_few_rows, oracle.no_label_leaves_without_noise)
    ),
    "scoring is asked again and again": Hole(_score_again, (oracle.scores_come_once,)),
    "restarts buy fresh noise": Hole(
        _begin_anew_under_noise,
        (oracle.labels_tell_no_more_than_was_booked, oracle.extra_trees_are_those_declared),
        policy=PROTECTED,
    ),
    "responses belong to positions": Hole(
        _number_rows, (oracle.labels_tell_no_more_than_was_booked,), policy=PROTECTED
    ),
    "labels of the coordinator order a column": Hole(
        _open_gates,
        (oracle.trees_are_those_declared, oracle.no_small_group_is_told_apart),
        ("columns",),
    ),
    "cuts of the coordinator locate values": Hole(
        _count_again, (oracle.a_column_of_a_node_is_cut_once,)
    ),
    "targets tell their size": Hole(
        _declare_targets, (oracle.targets_have_the_size_of_their_bounds,)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOLES)
def test_the_fuzzer_finds_the_holes_when_the_gate_is_open(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hole = HOLES[name]
    hole.open(monkeypatch)

    class Watched(Conversation):
        """Looks for this hole alone: an open gate has others, too."""

        promises, kinds, policies = hole.broken, hole.kinds, (hole.policy,)

    settle = settings(
        max_examples=1000,
        stateful_step_count=STEPS,
        derandomize=True,
        report_multiple_bugs=False,
        phases=(Phase.generate,),
        suppress_health_check=WHATEVER_IT_TAKES,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Watched, settings=settle)
