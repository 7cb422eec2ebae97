"""The one door for labels: which replies hold statistics of true labels, and who lets them pass."""

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

import fedforest.protocol
from fedforest import (
    Encrypted,
    GlobalDP,
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
    LocalDP,
    Masked,
    RandomizedResponse,
    Ring,
    Shamir,
    VerticalForestClassifier,
    VerticalForestRegressor,
    VerticalLinearRegression,
    VerticalLogisticRegression,
)
from fedforest.errors import LocalProtocolError
from fedforest.protocol.aggregation import messages as aggregation
from fedforest.protocol.alignment import messages as alignment
from fedforest.protocol.asking import Handler, Message, Payload
from fedforest.protocol.contract import BEGINNING, Clause, Gate, once
from fedforest.protocol.horizontal import messages as horizontal
from fedforest.protocol.label_door import LabelStatistic, list_label_fields
from fedforest.protocol.linear import messages as linear
from fedforest.protocol.payloads import EncodedLabels
from fedforest.protocol.scoring import messages as scoring
from fedforest.protocol.vertical import messages as vertical
from fedforest.protocol.vertical.encrypted import messages as encrypted
from fedforest.protocol.vertical.messages import LabelsShared, ShareLabels
from fedforest.protocol.vertical.prediction import messages as prediction
from fedforest.runtime.party.approval import RunAccountant
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.trainings import in_process

PROTOCOLS = (
    vertical,
    encrypted,
    prediction,
    horizontal,
    aggregation,
    linear,
    scoring,
    alignment,
)

# Every reply through which statistics of true labels leave, and in which fields.
THROUGH_THE_DOOR = {
    "LabelsShared": ("labels", "noisy_labels"),
    "TreesFinished": ("scores",),
    "ColumnsWeighed": ("votes",),
    "Measured": ("residuals", "curvatures", "loss"),
    "Scored": ("scores",),
    "Counted": ("sums",),
    "NoisilyCounted": ("sums",),
    "MaskedCounted": ("sums",),
    "Passed": ("totals", "sums"),
    "SharedOut": ("opened", "sealed"),
    "SharesAdded": ("sums",),
    "LabelsEncrypted": ("labels",),
    "RowsVoted": ("votes",),
}
# What follows from labels that were given out already, by the replies of each protocol.
GROWN = {"TreesStarted.root_sums", "SplitsFound.gains", "ColumnsWeighed.importances"} | {
    f"SplitsApplied.{field}" for field in ("left_sums", "bits", "left_out_bits")
}
# Of encrypted labels: what the label party decides, and what others make of ciphertexts; keys are
# drawn anew for each training.
DECIDED = {"NodesJudged.fates", "CutsOffered.cuts", "LabelsEncrypted.seals", "Introduced.key"} | {
    f"{reply}.{field}"
    for reply, fields in {
        "CutsChosen": ("choices", "bits", "left_out_bits"),
        "SplitsApplied": ("bits", "left_out_bits"),
    }.items()
    for field in fields
}
FITTED = {"Proposed.scores", "Proposed.products"}
CUT = {"ThresholdsProposed.points"}


def test_this_file_knows_the_messages_of_all_protocols() -> None:
    package = fedforest.protocol
    found = {
        module.name
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if module.name.endswith(".messages")
    }
    assert found == {protocol.__name__ for protocol in PROTOCOLS}


def test_statistics_of_true_labels_leave_in_these_replies_and_fields_only() -> None:
    replies = {request.reply for protocol in PROTOCOLS for request in protocol.REQUESTS}
    named = {reply.__name__: list_label_fields(reply) for reply in replies}
    assert {name: fields for name, fields in named.items() if fields} == THROUGH_THE_DOOR


class Teller:
    """A party that gives labels away without asking."""

    def handle(self, request: Message) -> Message:
        nothing = memoryview(b"")
        told = EncodedLabels(memoryview(b"\x01"), nothing, nothing)
        return LabelsShared(told if isinstance(request, ShareLabels) else None)


def test_labels_do_not_pass_before_the_accountant_has_approved() -> None:
    accountant = RunAccountant(DataSetRules(), lambda _: None, b"")
    contract = (Clause(ShareLabels, (BEGINNING,), once, "once"),)
    with pytest.raises(LocalProtocolError, match="has not approved"):
        Gate(contract, None, Teller(), accountant).handle(ShareLabels((0, 1)))
    accountant.approve(ShareLabels((0, 1)))
    Gate(contract, None, Teller(), accountant).handle(ShareLabels((0, 1)))


class Recorder:
    """A handler that keeps its replies."""

    def __init__(self, party: str, handler: Handler, told: list[tuple[str, Message]]) -> None:
        self._party, self._handler, self._told = party, handler, told

    def handle(self, request: Message) -> Message:
        reply = self._handler.handle(request)
        self._told.append((self._party, reply))
        return reply


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Message]]:
    """Every reply of every party of a training in this process, in order."""
    replies: list[tuple[str, Message]] = []
    connect = in_process.connect  # type: ignore[attr-defined] # imported there

    def listen(handlers: Mapping[str, Handler], *means: Any) -> Any:
        heard = {party: Recorder(party, each, replies) for party, each in handlers.items()}
        return connect(heard, *means)

    monkeypatch.setattr(in_process, "connect", listen)
    return replies


def _contents(value: Any) -> Any:
    """What a message or a payload holds, to be compared."""
    if isinstance(value, Payload | Message):
        return tuple(map(_contents, msgspec.structs.astuple(value)))
    if isinstance(value, tuple):
        return tuple(map(_contents, value))
    return bytes(value) if isinstance(value, memoryview) else value


def _differing(first: list[tuple[str, Message]], second: list[tuple[str, Message]]) -> set[str]:
    """The fields that differ, up to where the two conversations go separate ways."""
    fields: set[str] = set()
    for (party, one), (other_party, other) in zip(first, second, strict=False):
        if (party, type(one)) != (other_party, type(other)):
            break
        fields |= {
            f"{type(one).__name__}.{name}"
            for name in one.__struct_fields__
            if _contents(getattr(one, name)) != _contents(getattr(other, name))
        }
    return fields


RNG = np.random.default_rng(5)
X = RNG.normal(size=(80, 4)).round(3)
CLASSES = (X[:, 0] + X[:, 3] > 0).astype(int)
NUMBERS = X[:, 0] + RNG.normal(size=80)
SMALL: dict[str, Any] = {"n_estimators": 3, "max_depth": 3, "random_state": 7}
VOTING: dict[str, Any] = SMALL | {"n_estimators": 30, "oob_score": True}
TWO: dict[str, Any] = {"parties": 2}


def _other(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels with two rows exchanged: the same classes, range and counts."""
    changed = labels.copy()
    one, other = int(labels.argmin()), int(labels.argmax())
    changed[[one, other]] = labels[[other, one]]
    return changed


def _horizontal(estimator: Any) -> Callable[[NDArray[Any]], Any]:
    return lambda labels: estimator.fit(X, labels, party=np.arange(80) % 4)


def _vertical(estimator: Any) -> Callable[[NDArray[Any]], Any]:
    return lambda labels: estimator.fit(X, labels)


EXTRA, EXTRA_NUMBERS = HorizontalExtraTreesClassifier, HorizontalExtraTreesRegressor
RUNS = [
    (_vertical(VerticalForestClassifier(**TWO, **SMALL)), CLASSES, GROWN),
    (_vertical(VerticalForestClassifier(**TWO, **VOTING)), CLASSES, GROWN),
    (
        _vertical(VerticalForestClassifier(**TWO, **SMALL, labels=RandomizedResponse(epsilon=1.0))),
        CLASSES,
        GROWN,
    ),
    (_vertical(VerticalForestRegressor(**TWO, **VOTING)), NUMBERS, GROWN),
    (_vertical(VerticalForestClassifier(**TWO, **VOTING, labels=Encrypted())), CLASSES, DECIDED),
    (_vertical(VerticalForestRegressor(**TWO, **SMALL, labels=Encrypted())), NUMBERS, DECIDED),
    (_vertical(VerticalLogisticRegression(**TWO)), CLASSES, FITTED),
    (_vertical(VerticalLinearRegression(**TWO)), NUMBERS, FITTED),
    (_horizontal(EXTRA(**SMALL)), CLASSES, CUT),
    (_horizontal(EXTRA_NUMBERS(**SMALL)), NUMBERS, CUT),
    (_horizontal(EXTRA(**SMALL, aggregation=Masked())), CLASSES, CUT),
    (_horizontal(EXTRA(**SMALL, aggregation=Ring())), CLASSES, CUT),
    (_horizontal(EXTRA(**SMALL, aggregation=Shamir(threshold=2))), CLASSES, CUT),
    (_horizontal(EXTRA(**SMALL, privacy=LocalDP(keep=0.9))), CLASSES, CUT),
    (_horizontal(EXTRA(**SMALL, privacy=GlobalDP(epsilon_query=0.5))), CLASSES, CUT),
]


@pytest.mark.parametrize(("fit", "labels", "follows"), RUNS)
def test_two_trainings_whose_labels_differ_differ_only_in_what_passed_the_door_and_follows_from_it(
    told: list[tuple[str, Message]],
    fit: Callable[[NDArray[Any]], Any],
    labels: NDArray[Any],
    follows: set[str],
) -> None:
    fit(labels)
    first = list(told)
    told.clear()
    fit(_other(labels))
    through = {f"{reply}.{field}" for reply, names in THROUGH_THE_DOOR.items() for field in names}
    differing = _differing(first, told)
    assert differing & through
    assert differing - through <= follows


def test_noisy_and_masked_statistics_are_statistics_of_labels_too() -> None:
    statistics = set(_all_subclasses(LabelStatistic))
    leaving = {kind for reply in _reply_types() for kind in _payloads_of(reply)}
    assert {kind.__name__ for kind in statistics & leaving} == {
        "EncodedLabels",
        "NoisyLabels",
        "OutOfBagScores",
        "OutOfBagVotes",
        "Residuals",
        "Curvatures",
        "TrainingLoss",
        "ScoreSheet",
        "PlainSums",
        "NoisySums",
        "MaskedSums",
        "SealedTotal",
        "SealedShares",
        "OpenShares",
        "ShareSum",
        "EncryptedLabels",
        "SealedVotes",
    }


def _reply_types() -> Iterator[type[Message]]:
    for protocol in PROTOCOLS:
        yield from (request.reply for request in protocol.REQUESTS)


def _payloads_of(reply: type[Message]) -> Iterator[Any]:
    for field in msgspec.structs.fields(reply):
        yield from _named_in(field.type)


def _named_in(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type):
        yield annotation
    for part in get_args(annotation):
        yield from _named_in(part)


def _all_subclasses(root: type) -> Iterator[type]:
    subclasses: list[type] = root.__subclasses__()
    for kind in subclasses:
        yield kind
        yield from _all_subclasses(kind)
