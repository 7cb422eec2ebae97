"""What transcripts of encrypted trainings show: structure and bits, and nothing of labels else."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.kernels.layout import RowOrder
from fedforest.kernels.points.encoding import encode_doubles
from fedforest.masking.homomorphic.scheme import Scheme, accumulate_bins, pack
from fedforest.protocol.asking import Accepted
from fedforest.protocol.vertical.encrypted.messages import (
    REQUESTS,
    ChooseCuts,
    CutsOffered,
    LabelsEncrypted,
    OfferCuts,
    TakeCiphertexts,
)
from fedforest.transport.codec import decode
from tests.protocol.named_replies import replies_to
from tests.protocol.vertical.cases import VerticalCase
from tests.protocol.vertical.encrypted_trainings import EncryptedTraining, train_encryptedly

N_ROWS = 60
SECRET_FIELDS = {"ciphertexts", "sums", "counts", "seal", "seals"}


def case(y: Any = None) -> VerticalCase:
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {f"c{k}": rng.standard_normal(N_ROWS) for k in range(4)}
    if y is None:
        y = (columns["c0"] + columns["c3"] > 0).astype(np.int64)
    parameters = {"n_estimators": 2, "max_bins": 8, "max_depth": 3}
    return VerticalCase(columns, y, None, parameters, (1, 1, 2), label_party=1)


def without_ciphertexts(value: Any) -> Any:
    """A message, with the lengths of ciphertexts and sealed texts in their place."""
    if isinstance(value, msgspec.Struct):
        names = [field.name for field in msgspec.structs.fields(value)]
        shown = {name: getattr(value, name) for name in names}
        return {
            name: _lengths(content) if name in SECRET_FIELDS else without_ciphertexts(content)
            for name, content in shown.items()
        }
    if isinstance(value, tuple):
        return [without_ciphertexts(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


def _lengths(content: Any) -> Any:
    if isinstance(content, tuple):
        return [_lengths(item) for item in content]
    return len(content if isinstance(content, memoryview) else content.data)


def seen_by_others(training: EncryptedTraining) -> list[Any]:
    """All that travels, as those see it who have no key."""
    recorder = training.recorder
    requests = [decode(data, REQUESTS) for sent in recorder.requests for data in sent.values()]
    kinds: Any = (Accepted, *replies_to(REQUESTS))
    replies = [decode(data, kinds) for sent in recorder.replies for data in sent.values()]
    return [(type(m).__name__, without_ciphertexts(m)) for m in requests + replies]


def test_labels_that_give_the_same_trees_give_transcripts_that_differ_in_ciphertexts_only() -> None:
    first = case()
    other = replace(first, y=1 - first.y)  # the same gains, so the same trees
    transcripts = [train_encryptedly(one) for one in (first, other)]
    assert seen_by_others(transcripts[0]) == seen_by_others(transcripts[1])
    given = [messages(training, LabelsEncrypted)[0] for training in transcripts]
    assert bytes(given[0].labels.ciphertexts) != bytes(given[1].labels.ciphertexts)
    one, two = (training.label_party.outline().leaves.label for training in transcripts)
    assert not np.array_equal(one, two)


def messages(training: EncryptedTraining, kind: Any) -> list[Any]:
    """All requests or replies of a kind."""
    sent = [*training.recorder.requests, *training.recorder.replies]
    return [
        decode(data, (kind,))
        for exchange in sent
        for data in exchange.values()
        if kind.__name__.encode() in data[: len(kind.__name__) + 4]
    ]


def test_ciphertexts_of_equal_labels_differ() -> None:
    [labels] = messages(train_encryptedly(case(np.repeat([0, 1], 30))), LabelsEncrypted)
    points = np.frombuffer(labels.labels.ciphertexts, np.uint8).reshape(-1, 32)
    assert len(np.unique(points, axis=0)) == len(points)


def test_nobody_is_told_a_sum_a_gain_or_a_leaf() -> None:
    """The outline of the coordinator has no leaves, and those messages do not exist."""
    training = train_encryptedly(case())
    assert len(training.trained.outline.leaves.value) == 0
    assert not training.trained.outline.decrease.any()
    told = {name for name, _ in seen_by_others(training)}
    assert not told & {"SplitsFound", "LabelsShared", "TakeLabels", "ColumnsWeighed"}
    started = [m for name, m in seen_by_others(training) if name == "TreesStarted"]
    assert all(message["root_sums"] is None for message in started)


EVERY_ROW = {"n_estimators": 1, "max_bins": 8, "max_features": None, "bootstrap": False}


def link_sums() -> tuple[set[bytes], set[bytes]]:
    """The sums of its own ciphertexts that the label party can make, and what it is offered."""
    training = train_encryptedly(replace(case(), parameters=EVERY_ROW))
    replies = messages(training, CutsOffered)
    data = [np.frombuffer(offered.cuts.sums, np.uint8).reshape(-1, 32) for offered in replies]
    offered = {bytes(point) for points in data for point in points}
    return sums_at_root(training.parties["p2"]), offered


def test_the_label_party_cannot_find_a_sum_among_the_sums_of_its_own_ciphertexts() -> None:
    sums, offered = link_sums()
    assert len(sums) > 20
    assert not sums & offered


def test_a_sum_that_is_not_rerandomised_would_be_found_and_its_rows_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The attack works: it knows the ciphertexts of all rows, and a cut is one of their sums."""

    def encode_as_they_are(scheme: Scheme, sums: Any, most_rows: int, key: bytes) -> Any:
        del key  # which would hide them
        packed = pack(sums, scheme.summands.packing(most_rows))
        words = np.empty((*packed.shape[:2], 4), np.uint64)
        encode_doubles(packed.reshape(-1, packed.shape[-1]), words.reshape(-1, 4))
        return words.astype("<u8").view(np.uint8)

    monkeypatch.setattr(Scheme, "rerandomise", encode_as_they_are)
    sums, offered = link_sums()
    assert len(sums & offered) > 10


def sums_at_root(party: Any) -> set[bytes]:
    """The encodings of the sums of rows left of every bin, in each column of a party."""
    cipher, columns = party._cipher, party._rows.columns
    entries = np.arange(N_ROWS, dtype=np.uint32) | np.uint32(1 << 20)  # each drawn once
    order = RowOrder(entries, np.uint64(20), np.array([0]), np.array([N_ROWS]))
    candidates = np.arange(len(columns.n_bins), dtype=np.int32)[None]
    n_bins = int(columns.n_bins.max())
    cells = cipher.scheme.sum_rows(cipher.rows, columns, order, candidates, n_bins)
    points = accumulate_bins(cells).reshape(-1, cells.shape[-1])
    words = np.empty((len(points), 4), np.uint64)
    encode_doubles(points, words)
    return {word.astype("<u8").tobytes() for word in words} - {bytes(32)}


def test_the_order_of_cuts_is_secret_and_new_at_every_step() -> None:
    """Two trainings with other randomness choose other positions for the same trees."""
    trainings = [train_encryptedly(case(), seed=seed) for seed in (0, 1)]
    assert trainings[0].whole_file() == trainings[1].whole_file()
    chosen = [
        [bytes(m["choice"]["positions"]) for name, m in seen_by_others(t) if name == "ApplyCuts"]
        for t in trainings
    ]
    assert chosen[0] != chosen[1]


def test_a_party_hears_nothing_but_ciphertexts_moves_candidates_and_its_own_choices() -> None:
    training = train_encryptedly(case())
    kinds = {type(decode(data, REQUESTS)) for data in training.recorder.requests_to("p2")}
    assert ChooseCuts not in kinds
    assert {TakeCiphertexts, OfferCuts} <= kinds
