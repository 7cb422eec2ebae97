"""Reports of who learned what are made of message types and figures, and leave no message out."""

import json

import numpy as np
import pytest
from msgspec.structs import replace

from fedforest import HorizontalExtraTreesClassifier
from fedforest.protocol.aggregation import messages as aggregation
from fedforest.protocol.aggregation.messages import CountParts
from fedforest.protocol.aggregation.options import Masked
from fedforest.protocol.alignment import messages as alignment
from fedforest.protocol.asking import Accepted, Message, Request
from fedforest.protocol.horizontal import messages as horizontal_messages
from fedforest.protocol.linear import messages as linear
from fedforest.protocol.scoring import messages as scoring
from fedforest.protocol.vertical import messages as vertical_messages
from fedforest.protocol.vertical.encrypted import messages as encrypted_messages
from fedforest.protocol.vertical.prediction import messages as prediction_messages
from fedforest.protocol.vertical.prediction.classical_walk import AskSplit, SplitAsked
from fedforest.runtime.disclosure.known_attacks import (
    _ALL,
    EXACT_SUMS,
    NOISY_SUMS,
    PARTIES_CHANGE,
    attacks_on,
)
from fedforest.runtime.disclosure.run_leakage import (
    COORDINATOR,
    REQUESTS,
    USER,
    RunLeakage,
)
from fedforest.runtime.driver import Exchange
from fedforest.runtime.messages.orders import TrainLinear
from fedforest.runtime.messages.party_requests import Done
from fedforest.runtime.messages.results import HorizontalResult, VerticalResult
from fedforest.runtime.trainings.horizontal import HORIZONTAL
from fedforest.runtime.trainings.vertical import VERTICAL
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.samples import horizontal, vertical
from tests.protocol.named_replies import replies_to

PROTOCOLS = (
    vertical_messages,
    encrypted_messages,
    prediction_messages,
    horizontal_messages,
    aggregation,
    linear,
    alignment,
    scoring,
)
AROUND = (alignment, scoring)  # before and after trainings of forests
REPLIES = replies_to(request for protocol in PROTOCOLS for request in protocol.REQUESTS)
RESULT = VerticalResult(
    model="0" * 32,
    n_trees=4,
    n_rows=100,
    columns_per_party={"bank": 3, "shop": 2},
    importances={},
    classes=None,
)
LINEAR = TrainLinear(
    data={"bank": "columns", "shop": "columns"},
    label="label",
    label_party="bank",
    is_regression=True,
    penalty=1.0,
    max_iter=10,
    tol=1e-4,
)


def all_messages(kind: type[Message] = Message) -> set[type[Message]]:
    return {kind} | {sub for direct in kind.__subclasses__() for sub in all_messages(direct)}


@pytest.mark.parametrize("message", [*REPLIES, *REQUESTS.values(), Accepted, Done])
def test_every_message_declares_once_and_in_plain_words_what_it_reveals(
    message: type[Message],
) -> None:
    assert "reveals" in vars(message)  # its own, not an inherited one
    assert len(message.reveals.split()) >= 3
    assert message.reveals[0].islower()
    assert not message.reveals.endswith(".")


def test_no_reply_of_a_protocol_is_left_out_of_its_list() -> None:
    declared = {
        kind for kind in all_messages() if kind.__module__.startswith("fedforest.protocol.")
    }
    declared -= {AskSplit, SplitAsked}  # the papers' walk, which no federation carries
    assert declared - {Message, Request, CountParts, Accepted} == {*REPLIES, *REQUESTS.values()}


def test_a_name_is_of_one_request_only_so_that_a_log_tells_which_it_was() -> None:
    kinds = all_messages(Request) - {Request, CountParts}
    assert len({kind.__name__ for kind in kinds}) == len(kinds)


def test_a_message_that_no_protocol_has_is_reported_as_such() -> None:
    learned = VERTICAL.leakage(vertical(2), RESULT, [exchange("AskEverything", 10)]).learned
    unknown = [learning for learning in learned if learning.message == "AskEverything"]
    assert len(unknown) == 4  # two parties, to and from each
    assert all(learning.reveals.startswith("not declared here") for learning in unknown)


def exchange(request: str, n_bytes: int, open_nodes: int = 0) -> Exchange:
    sizes = {"bank": n_bytes, "shop": n_bytes + 1}
    return Exchange(request, 2, sizes, sizes, 0.1, {"open_nodes": open_nodes})


def report() -> RunLeakage:
    log = [
        exchange("BinColumns", 10),
        exchange("FindSplits", 20, 4),
        exchange("ApplySplits", 20),
        exchange("FindSplits", 30, 8),
    ]
    return VERTICAL.leakage(vertical(2, label_epsilon=2.0), RESULT, log)


def test_figures_come_from_the_exchange_log() -> None:
    figures = report().figures
    assert figures["exchanges"] == 4
    assert figures["bytes"] == 2 * (2 * 80 + 4)
    assert figures["nodes_asked_about"] == 12
    assert figures["label_epsilon_spent"] == 2.0
    assert figures["smallest_group_of_rows"] is None
    assert "smallest group of rows: not known" in report().to_text()


@pytest.mark.parametrize(
    ("out_of_bag", "side"),
    [(False, 7), (True, 1)],  # rows that trees left out may go anywhere alone
)
def test_the_smallest_leaf_is_a_figure_and_so_is_the_smallest_side_that_is_told(
    out_of_bag: bool, side: int
) -> None:
    parameters = ForestParameters(min_samples_leaf=7)
    order = replace(vertical(2, out_of_bag=out_of_bag), parameters=parameters)
    told = VERTICAL.leakage(order, RESULT, [])
    assert told.figures["smallest_leaf_allowed"] == 7
    assert told.figures["smallest_side_told"] == side
    assert ("a single one may go its own way" in told.to_text()) == out_of_bag


def test_what_every_role_learned_is_told_by_message_with_counts_and_bytes() -> None:
    found = {(one.who, one.source, one.message): one for one in report().learned}
    gains = found[COORDINATOR, "shop", "SplitsFound"]
    assert (gains.n_messages, gains.n_bytes) == (2, 52)
    assert gains.reveals == vertical_messages.SplitsFound.reveals
    assert ("bank", "the coordinator, of others", "FindSplits") in found
    assert {who for who, _, _ in found} == {COORDINATOR, "bank", "shop", USER}


def test_a_report_can_be_read_by_people_and_programs() -> None:
    told = report()
    text = told.to_text()
    assert "SplitsFound from shop x 2, 52 bytes" in text
    assert "What messages told bank:" in text
    assert "randomized response, epsilon = 2" in text
    assert "grouping rows" in text
    assert json.loads(json.dumps(told.to_json()))["figures"]["exchanges"] == 4


def test_labels_without_noise_have_no_finite_epsilon() -> None:
    told = VERTICAL.leakage(vertical(2), RESULT, [exchange("ShareLabels", 10)])
    assert told.figures["label_epsilon_spent"] is None
    assert "label epsilon spent: not limited" in told.to_text()
    assert {attack.name for attack in told.attacks} == {"reading labels"}


def test_a_request_that_is_not_known_stands_in_the_report_as_such() -> None:
    told = VERTICAL.leakage(vertical(2), RESULT, [exchange("Whisper", 1)])
    assert "Whisper from bank x 1, 1 bytes: not declared here" in told.to_text()
    assert "not declared" not in report().to_text()


def named(messages: list[str], facts: set[str] | None = None) -> set[str]:
    return {attack.name for attack in attacks_on(messages, facts)}


def test_differences_and_noise_are_attacked_where_there_are_such_sums() -> None:
    for counted in ("Counted", "MaskedCounted", "Passed", "SharesAdded"):
        assert "differencing rows" in named([counted], {EXACT_SUMS})
        assert "differencing rows" not in named([counted], {NOISY_SUMS})
        assert "averaging noise" not in named([counted], {EXACT_SUMS})
    assert "averaging noise" in named(["MaskedCounted"], {NOISY_SUMS})
    assert "differencing parties" not in named(["MaskedCounted"], {EXACT_SUMS})
    assert "differencing parties" in named(["MaskedCounted"], {EXACT_SUMS, PARTIES_CHANGE})
    assert "differencing parties" not in named(["Counted"], {EXACT_SUMS, PARTIES_CHANGE})


def test_who_knows_messages_only_is_told_of_every_attack_that_could_be() -> None:
    assert {"differencing rows", "differencing parties", "averaging noise", "collusion"} <= named(
        ["MaskedCounted"]
    )


def horizontal_report(aggregation: object = None, **changes: object) -> RunLeakage:
    forest = HorizontalExtraTreesClassifier(n_estimators=2, max_depth=2, random_state=0)
    X = np.arange(40.0).reshape(20, 2)
    file = forest.fit(X, X[:, 0] > 15).to_bytes()
    result = HorizontalResult(
        model="0" * 32,
        file=file,
        n_rows=20,
        lost=[],
        candidates_per_node=1,
        n_trees_begun=2,
    )
    order = horizontal(2, aggregation=aggregation)
    order = replace(order, parameters=ForestParameters(min_samples_leaf=5), **changes)
    counted = "CountMasked" if isinstance(aggregation, Masked) else "Count"
    return HORIZONTAL.leakage(order, result, [exchange(counted, 10)])


def test_a_masked_run_whose_parties_change_at_every_step_is_open_to_differencing() -> None:
    changing = {"participation": 0.5, "participation_scope": "step"}
    masked = horizontal_report(aggregation=Masked(), **changing)
    names = {attack.name for attack in masked.attacks}
    assert {"differencing rows", "differencing parties", "collusion"} <= names
    assert "differencing parties" not in {
        attack.name for attack in horizontal_report(aggregation=Masked()).attacks
    }


@pytest.mark.parametrize("protection", [None, Masked()])
def test_a_horizontal_run_never_claims_that_groups_were_as_large_as_leaves(
    protection: Masked | None,
) -> None:
    told = horizontal_report(aggregation=protection)
    assert told.figures["smallest_leaf_allowed"] == 5
    assert told.figures["smallest_side_told"] == 1
    assert "sides of candidate cuts may hold a single row" in told.to_text()


def test_attacks_are_listed_by_replies_that_there_are() -> None:
    names = {reply.__name__ for reply in REPLIES}
    assert {message for attack in _ALL for message in attack.messages} <= names
    assert attacks_on([]) == []
    assert attacks_on(["Accepted"]) == []
