"""A coordinator that sends nonsense: a party refuses with a named error and stays as it was."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import DataError, FederationError, MaskingError, RemoteProtocolError
from fedforest.protocol.aggregation.messages import Count, CountParts, Part
from fedforest.protocol.asking import Accepted, Message
from fedforest.protocol.horizontal.messages import (
    AgreeOnTable,
    BeginTrees,
    CutMoves,
    CutsQuestion,
    DeclareTable,
    ProposeThresholds,
    Protection,
    TakeForest,
)
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.transport.codec import decode, encode
from fedforest.tree.files.forests import decode_forest, encode_forest
from fedforest.tree.forest.forest import concatenate_forests
from tests.protocol.horizontal.asking_one import (
    NOTHING,
    AskedParty,
    ask_cuts,
    split_all,
    start_trees,
    stay_open,
)
from tests.protocol.horizontal.recordings import Recording, mutate_request, record
from tests.protocol.vertical.mutations import little_memory

FEW, MANY = 60, 1200
HEARD = [
    *((kind, "AgreeOnTable") for kind in ("classes", "weights", "numbers", "local", "bounded")),
    *((kind, "ProposeThresholds") for kind in ("classes", "numbers", "masked", "steps", "local")),
    *(
        (kind, "CountParts")
        for kind in ("classes", "weights", "masked", "steps", "local", "bounded")
    ),
    ("classes", "DeclareTable"),
    ("classes", "TakeForest"),
    ("numbers", "TakeForest"),
]


def assert_refuses_mutants(kind: str, request_kind: str, n_mutants: int) -> None:
    """Mutants are refused by name or are requests in their own right; refusals change nothing."""
    recording = record(kind)
    steps = recording.steps_of(request_kind)
    chosen = [steps[k] for k in np.unique(np.linspace(0, len(steps) - 1, 4).astype(int))]
    rng = np.random.default_rng(11)
    n_each = -(-n_mutants // len(chosen))
    n_refused = sum(attack(recording, step, n_each, rng) for step in chosen)
    assert n_refused > n_mutants // 4


def attack(recording: Recording, step: int, n_mutants: int, rng: np.random.Generator) -> int:
    party, n_refused = recording.party_before(step), 0
    for _ in range(n_mutants):
        mutant = mutate_request(recording.requests[step], rng)
        try:
            make_endpoint(party, REQUESTS)(mutant)
        except FederationError as refusal:
            assert_is_named(refusal)
            n_refused += 1
        else:  # a request that could have been meant, or that was only written differently
            assert_goes_on(party, recording, step)
            party = recording.party_before(step)
    recording.assert_goes_on_as_recorded(party, step)
    return n_refused


def assert_is_named(refusal: FederationError) -> None:
    """The coordinator is to blame; or labels and columns of the run do not fit the table."""
    if isinstance(refusal, DataError | MaskingError):
        return
    assert isinstance(refusal, RemoteProtocolError)
    assert refusal.party == "coordinator"


def assert_goes_on(party: HorizontalParty, recording: Recording, step: int) -> None:
    """After an accepted mutant the party still answers, or refuses by name, whatever follows."""
    endpoint = make_endpoint(party, REQUESTS)
    for request in recording.requests[step + 1 : step + 3]:
        try:
            endpoint(request)
        except FederationError:
            return


@pytest.mark.parametrize(("kind", "request_kind"), HEARD)
def test_a_party_survives_mutated_requests(kind: str, request_kind: str) -> None:
    with little_memory():
        assert_refuses_mutants(kind, request_kind, FEW)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "request_kind"), HEARD)
def test_a_party_survives_many_mutated_requests(kind: str, request_kind: str) -> None:
    with little_memory():
        assert_refuses_mutants(kind, request_kind, MANY)


def refuse(party: HorizontalParty, request: Message, reason: str) -> None:
    """Refused as bytes, as it would be on a network."""
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        make_endpoint(party, REQUESTS)(encode(request))
    assert caught.value.party == "coordinator"


def before(kind: str, request_kind: type[Message], nth: int = 0) -> tuple[Any, Any, Recording, int]:
    """(party, its next request, the recording, the request's place)."""
    recording = record(kind)
    step = recording.steps_of(request_kind.__name__)[nth]
    return recording.party_before(step), recording.request(step), recording, step


def changed(request: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(request, **fields)


def test_a_request_of_another_protocol_is_refused() -> None:
    party = record("classes").make_party()
    with pytest.raises(RemoteProtocolError, match="no request of this protocol"):
        party.handle(Accepted())


@pytest.mark.parametrize(
    "request_too_early",
    [
        ProposeThresholds(1, start_trees(1, 5), None, NOTHING),
        Count(1, (Part((), ask_cuts([0.0], [True])),)),
        TakeForest(NOTHING),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_request_that_comes_before_an_agreement_is_refused(request_too_early: Message) -> None:
    refuse(record("classes").make_party(), request_too_early, "agreed on")


def test_trees_that_were_not_started_do_not_grow_and_are_not_counted() -> None:
    party, _, recording, step = before("classes", ProposeThresholds)
    refuse(party, ProposeThresholds(1, None, None, NOTHING), "no trees")
    refuse(party, Count(1, (Part((), ask_cuts([0.0], [True])),)), "no trees")
    recording.assert_goes_on_as_recorded(party, step)


def test_cuts_are_not_counted_before_points_were_named() -> None:
    party = AskedParty(np.arange(6.0).reshape(-1, 1), np.arange(6) % 2)
    party.propose([], start=start_trees(1, 6))  # this party only follows
    refuse(party.party, Count(2, (Part((), ask_cuts([0.0], [True])),)), "before points")
    assert party.propose([[0]], moves=stay_open(1)).shape == (1,)


def test_what_was_agreed_on_cannot_be_changed() -> None:
    party, request, recording, step = before("classes", AgreeOnTable)
    party.handle(request)
    refuse(party, request, "cannot be changed")
    recording.assert_goes_on_as_recorded(party, step + 1)


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("classes", {"names": ("a", "b", "c", "d", "e")}, "not those of this party"),
        ("classes", {"categories": (None,) * 4}, "one description for each column"),
        ("classes", {"categories": (None,) * 5}, "has none"),
        ("classes", {"categories": (("a", "b"), None, None, ("a",), None)}, "has categories"),
        ("classes", {"categories": (None, None, None, ("blue", "blue"), None)}, "repeated"),
        ("classes", {"categories": (None, None, None, ("blue", "red"), None)}, "is left out"),
        ("classes", {"classes": ()}, "another task"),
        ("numbers", {"classes": (0, 1), "class_dtype": "int64"}, "another task"),
        ("classes", {"classes": tuple(range(1001))}, "too many classes"),
        ("classes", {"class_dtype": "pickle"}, "cannot be used"),
        ("classes", {"classes": (0, 1, "2")}, "cannot be used"),
        ("classes", {"max_depth": 0}, "not a valid"),
        ("classes", {"n_trees": 0}, "not a valid"),
        ("classes", {"candidates_per_node": 0}, "not a valid"),
        ("classes", {"least_rows": 1}, "not a valid"),
        ("weights", {"weight_unit": 0.0}, "weights of this party are left out"),
        ("weights", {"rows_apart": False}, "rows of different weight are not counted"),
        ("weights", {"weight_unit": 1e-300}, "unit of weights is too small"),
        ("weights", {"weight_unit": 2.0**-48}, "unit of weights is too small"),
        ("classes", {"weight_unit": -1.0}, "unit of weights is none"),
        ("classes", {"weight_unit": np.nan}, "unit of weights is none"),
        ("numbers", {"target_unit": 0.0}, "unit of targets is none"),
        ("numbers", {"target_unit": np.inf}, "unit of targets is none"),
        ("numbers", {"target_unit": 5e-324}, "unit of targets is too small"),
        ("numbers", {"target_unit": 2.0**-60}, "unit of targets is too small"),
        ("numbers", {"target_offset": np.nan}, "origin of targets"),
    ],
)
def test_a_proposal_that_does_not_fit_the_partys_rows_is_refused(
    kind: str, changes: Any, reason: str
) -> None:
    party, request, recording, step = before(kind, AgreeOnTable)
    refuse(party, changed(request, **changes), reason)
    recording.assert_goes_on_as_recorded(party, step)


def test_a_class_of_the_party_that_the_run_lacks_is_named_as_wrong_data() -> None:
    party, request, recording, step = before("classes", AgreeOnTable)
    with pytest.raises(DataError, match="lack a class of this party"):
        party.handle(changed(request, classes=(0, 1)))
    recording.assert_goes_on_as_recorded(party, step)


@pytest.mark.parametrize(
    ("kind", "protection", "reason"),
    [
        ("classes", {"kind": "luck"}, "unknown kind"),
        ("local", {"keep": 1.0}, "keep must be"),
        ("local", {"p": 0.1, "q": 0.9}, "p must be larger"),
        ("local", {"bits": 1}, "cannot be told apart"),
        ("local", {"bits": 10_000}, "bits must be"),
        ("global", {"epsilon_query": 0.0}, "above zero"),
        ("global", {"epsilon_query": -1.0}, "above zero"),
        ("global", {"epsilon_query": np.nan}, "above zero"),
        ("global", {"epsilon_query": np.inf}, "above zero"),
        ("global", {"epsilon_query": 1e-300}, "too small"),
        ("bounded", {"low": 1.0, "high": 1.0}, "target_bounds"),
        ("bounded", {"low": np.nan}, "target_bounds"),
        ("bounded", {"high": np.inf}, "target_bounds"),
        ("bounded", {"kind": "local", "bits": 3, "hashes": 1, "keep": 0.9, "p": 0.9}, "classes"),
    ],
)
def test_noise_that_is_none_is_refused(kind: str, protection: Any, reason: str) -> None:
    party, request, recording, step = before(kind, AgreeOnTable)
    other = changed(request.protection, **protection)
    refuse(party, changed(request, protection=other), reason)
    recording.assert_goes_on_as_recorded(party, step)


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("global", {"rows_apart": False}, "leave out the last class"),
        ("local", {"rows_apart": False}, "leave out the last class"),
        ("global", {"weight_unit": 2.0**-20}, "rows of weight one"),
        ("local", {"weight_unit": 2.0**-20}, "rows of weight one"),
        ("bounded", {"weight_unit": 2.0**-20, "rows_apart": True}, "rows of weight one"),
    ],
)
def test_noise_that_would_not_cover_what_it_should_is_refused(
    kind: str, changes: Any, reason: str
) -> None:
    """One class without noise, or rows that weigh a million times what noise was made for."""
    party, request, recording, step = before(kind, AgreeOnTable)
    refuse(party, changed(request, **changes), reason)
    recording.assert_goes_on_as_recorded(party, step)


def test_a_proposal_that_is_refused_is_not_charged() -> None:
    charged: list[Protection] = []
    X, y = np.arange(8.0).reshape(-1, 1), np.arange(8) % 2
    party = AskedParty(X, y)
    other = HorizontalParty(
        party.party._table,
        party.party._labels,
        bytes,
        party.party._aggregator,
        approve=lambda agreed: charged.append(agreed.protection),
    )
    refuse(other, changed(party.agreed, classes=(0, "1")), "cannot be used")
    assert charged == []
    other.handle(party.agreed)
    assert charged == [party.agreed.protection]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"segments": NOTHING}, "no trees"),
        ({"segments": memoryview(bytes(3))}, "segments of trees"),
        ({"segments": memoryview(bytes(2 * 10**7))}, "too many trees"),
        ({"n_draws": 2**31 - 1}, "more rows than exist"),
    ],
)
def test_trees_that_cannot_be_started_are_refused_without_setting_memory_aside(
    changes: Any, reason: str
) -> None:
    party, request, recording, step = before("classes", ProposeThresholds)
    assert isinstance(request.start, BeginTrees)
    with little_memory(2**28):
        refuse(party, changed(request, start=changed(request.start, **changes)), reason)
    recording.assert_goes_on_as_recorded(party, step)


def test_candidates_that_cannot_be_are_refused_before_any_row_moves() -> None:
    party, request, recording, step = before("classes", ProposeThresholds, 1)
    columns = np.frombuffer(request.candidates, np.uint8)
    for bad, reason in (
        (columns[:-1], "candidates"),
        (np.append(columns, 0), "candidates"),
        (columns | 32, "no column"),
        (columns | 128, "no column"),
        (columns | 31, "more candidate columns"),
    ):
        refuse(party, changed(request, candidates=memoryview(bytes(bad))), reason)
    recording.assert_goes_on_as_recorded(party, step)


def test_a_split_by_a_column_that_was_no_candidate_reads_that_column_and_nothing_behind_it() -> (
    None
):
    """Values of candidates are at hand; those of another column must not be looked for there."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 5)), np.arange(40) % 2
    for asked, column in [([0], 4), ([4], 0), ([1, 3], 2), ([], 3)]:
        party = AskedParty(X, y)
        party.propose([asked], start=start_trees(1, 40))
        party.propose([[0], [0]], moves=split_all([column], [0.25]))
        goes_left = X[:, column].astype(np.float32) <= 0.25
        expected = [np.bincount(y[rows], minlength=2) for rows in (goes_left, ~goes_left)]
        counts = party.count([np.nan, np.nan], [True, True])
        assert counts.tolist() == np.concatenate(expected).tolist()


def test_moves_that_cannot_be_are_refused() -> None:
    party, request, recording, step = before("classes", ProposeThresholds, 1)
    moves = request.moves
    assert isinstance(moves, CutMoves)
    n_split = len(moves.feature) // 4
    fates = np.frombuffer(moves.fates, np.uint8)
    padded = fates.copy()
    padded[-1] |= 0x80
    whole = memoryview(np.full(n_split, 5, "<i4").tobytes())
    below = memoryview(np.full(n_split, -1, "<i4").tobytes())
    for changes, reason in (
        ({"fates": memoryview(bytes(fates[:-1]))}, "fates"),
        ({"fates": memoryview(bytes(fates) + b"\0")}, "fates"),
        ({"fates": memoryview(bytes(padded))}, "padded|right child"),
        ({"feature": whole}, "no such column"),
        ({"feature": below}, "no such column"),
        ({"feature": moves.feature[:-4]}, "split columns"),
        ({"threshold": moves.threshold[:-1]}, "thresholds"),
        ({"threshold": memoryview(np.full(n_split, np.nan, "<f4").tobytes())}, "no number"),
        ({"missing_left": memoryview(bytes([2] * n_split))}, "side of missing"),
        ({"left_set": memoryview(bytes(len(moves.left_set) + 8))}, "sets"),
    ):
        refuse(party, changed(request, moves=changed(moves, **changes)), reason)
    recording.assert_goes_on_as_recorded(party, step)


def decode_question(part: Part) -> CutsQuestion:
    return msgspec.msgpack.decode(part.question, type=CutsQuestion)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda _: {"segment": 7}, "does not grow"),
        (lambda q: {"threshold": q.threshold[:-4]}, "thresholds"),
        (lambda q: {"threshold": memoryview(bytes(q.threshold) + bytes(4))}, "thresholds"),
        (
            lambda q: {"threshold": memoryview(b"\x00\x00\x80\x7f" * (len(q.threshold) // 4))},
            "infinite|sets",
        ),
        (lambda q: {"missing_left": memoryview(bytes(len(q.missing_left) + 1))}, "node flags"),
        (lambda q: {"missing_left": memoryview(b"\xff" * len(q.missing_left))}, "padded"),
        (lambda q: {"left_set": memoryview(bytes(len(q.left_set) + 32))}, "sets"),
        (lambda _: {"wholes": NOTHING}, "node flags"),
        (lambda _: {"wholes": memoryview(b"\xff")}, "padded"),
    ],
)
def test_questions_that_do_not_fit_the_open_nodes_are_refused(change: Any, reason: str) -> None:
    party, request, recording, step = before("classes", CountParts)
    question = decode_question(request.parts[0])
    other = memoryview(msgspec.msgpack.encode(changed(question, **change(question))))
    refuse(party, changed(request, parts=(Part((), other),)), reason)
    recording.assert_goes_on_as_recorded(party, step)


@pytest.mark.parametrize("question", [b"", b"\xc1", b"\x91" * 5000, b"\x90", b"\xa1\xff"])
def test_questions_that_cannot_be_read_are_refused(question: bytes) -> None:
    party, request, recording, step = before("classes", CountParts)
    refuse(party, changed(request, parts=(Part((), memoryview(question)),)), "cannot be read")
    recording.assert_goes_on_as_recorded(party, step)


def test_the_whole_table_is_counted_once_at_the_start_and_never_with_noise() -> None:
    table = CutsQuestion(0, NOTHING, NOTHING, NOTHING, NOTHING, whole_table=True)
    ask_table = (Part((), memoryview(msgspec.msgpack.encode(table))),)
    party, request, recording, step = before("classes", CountParts, 1)
    refuse(party, changed(request, parts=ask_table), "only once, at the start")
    recording.assert_goes_on_as_recorded(party, step)
    for kind in ("local", "global"):
        party, request, recording, step = before(kind, CountParts)
        refuse(party, changed(request, parts=ask_table), "paid for")
        recording.assert_goes_on_as_recorded(party, step)


@pytest.mark.parametrize("kind", ["local", "global", "bounded"])
def test_a_question_that_is_refused_does_not_use_up_another(kind: str) -> None:
    """The first part is counted, the second cannot be: nothing was sent, so nothing was spent."""
    party, request, recording, step = before(kind, CountParts)
    parts = (*request.parts, Part((), memoryview(b"\xc1")))
    for _ in range(3):
        refuse(party, changed(request, parts=parts), "cannot be read")
    recording.assert_goes_on_as_recorded(party, step)


def other_model(request: TakeForest, **changes: Any) -> TakeForest:
    """The model of a run, with something in it exchanged; checksums are right."""
    stored = decode_forest(request.model)
    parts: dict[str, Any] = {
        "forest": stored.forest,
        "bins": stored.bins,
        "classes": stored.classes,
    } | changes
    return TakeForest(memoryview(encode_forest(**parts)))


def test_a_model_that_is_damaged_is_refused_and_not_kept() -> None:
    party, request, recording, step = before("classes", TakeForest)
    whole = bytes(request.model)
    splits = decode_forest(request.model).forest.splits
    splits.feature[np.flatnonzero(splits.feature >= 0)[0]] = 5  # the table has five columns
    forest = replace(decode_forest(request.model).forest, splits=splits)
    refuse(party, TakeForest(memoryview(whole[:-1])), "cannot be used")
    refuse(party, TakeForest(memoryview(whole[:-9] + b"9" + whole[-8:])), "cannot be used")
    refuse(party, TakeForest(NOTHING), "cannot be used")
    refuse(party, other_model(request, forest=forest), "cannot be used: .* out of range")
    assert party.model is None
    recording.assert_goes_on_as_recorded(party, step)


def test_a_model_of_another_run_is_refused_and_not_kept() -> None:
    """It could be walked, and would answer with other columns, categories or classes."""
    party, request, recording, step = before("classes", TakeForest)
    stored = decode_forest(request.model)
    bins, categories = stored.bins, stored.bins.categories(3)
    renamed = replace(bins, names=("other", *bins.names[1:]))
    by_bin = replace(stored.forest.splits, cut=np.zeros(stored.forest.shape.n_nodes, np.uint8))
    turned = replace(bins, rules=(*bins.rules[:3], categories[::-1], bins.rules[4]))
    for changes, reason in (
        ({"bins": renamed}, "another table"),
        ({"bins": turned}, "another table"),
        ({"classes": np.array([0, 1, 3])}, "other classes"),
        ({"classes": np.array([0.0, 1.0, 2.0])}, "other classes"),
        ({"classes": None}, "other classes"),
        ({"forest": replace(stored.forest, splits=by_bin)}, "splits by bins"),
        ({"forest": concatenate_forests([stored.forest] * 2)}, "more trees than agreed"),
    ):
        refuse(party, other_model(request, **changes), reason)
    numbers = before("numbers", TakeForest)[1]
    refuse(party, numbers, "other classes")
    assert party.model is None
    recording.assert_goes_on_as_recorded(party, step)
    assert party.model is not None
    without_classes = other_model(request, classes=None)
    refuse(before("numbers", TakeForest)[0], without_classes, "other classes")


def test_requests_are_refused_in_any_other_order() -> None:
    """Every later request, told to a party that has heard nothing in between."""
    recording = record("classes")
    for heard in (0, 1, 2, 3):
        party = recording.party_before(heard)
        for later in recording.requests[heard + 1 :]:
            if isinstance(decode(later, REQUESTS), DeclareTable | TakeForest):
                continue
            try:
                make_endpoint(party, REQUESTS)(later)
            except FederationError as refusal:
                assert_is_named(refusal)
            else:
                break  # a later step of the same kind may well come first: that is its right
