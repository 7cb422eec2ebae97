"""Every party of a horizontal training scores the model, and its own, on rows it held out."""

import msgspec
import numpy as np
import pyarrow
import pytest

from fedforest.errors import ConfigurationError, PrivacyError, RemoteProtocolError
from fedforest.privacy.global_dp import GlobalDP
from fedforest.runtime.coordinator.validation import combine_scores, held_out
from fedforest.runtime.messages.orders import OptionChoice, ShowRun
from fedforest.runtime.messages.party_requests import BeginRun
from fedforest.runtime.messages.results import (
    HorizontalResult,
    RunDetails,
    Scores,
    ValidationReport,
)
from fedforest.runtime.messages.roles import HorizontalRole, ScoringRole
from fedforest.runtime.party.row_selection import hold_out
from fedforest.runtime.trainings.forests import choose_rows
from fedforest.runtime.trainings.horizontal import HORIZONTAL
from fedforest.transport.codec import encode
from fedforest.tree.files.forests import decode_forest
from fedforest.tree.forest.forest import ForestWalker
from fedforest.tree.forest.metrics import Judgement, score_classes, score_numbers
from fedforest.tree.table.frames import read_table
from fedforest.tree.workers import ALONE
from tests.integration.local_federation import LocalFederation, local_federation
from tests.runtime.partly_shared import (
    PARTIES,
    REGRESSION,
    horizontal_order,
    make_pattern,
    make_tables,
    masked,
)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def] # a fixture
    folder = tmp_path_factory.mktemp("validated")
    with local_federation(folder / "local", make_pattern(folder / "pattern")) as federation:
        yield federation


def train(federation: LocalFederation, order: object, number: int) -> HorizontalResult:
    result = federation.ask(order, HorizontalResult, bytes([number]) * 16)  # type: ignore[arg-type]
    assert isinstance(result, HorizontalResult)
    return result


def report_of(result: HorizontalResult) -> ValidationReport:
    assert result.validation is not None
    return result.validation


def judge(result: HorizontalResult, party: str, data: str = "rows") -> Judgement:
    """What the model says about the party's held-out rows, worked out here."""
    order = horizontal_order()
    rows = choose_rows(order, None)
    assert rows is not None
    table = make_tables()[party][data]
    held_out = table.filter(hold_out(table.num_rows, rows.held_out, rows.seed))
    stored = decode_forest(result.file)
    values = stored.bins.raw_values(read_table(held_out.drop_columns(["label"])), ALONE)
    votes = ForestWalker(stored.forest).votes(values, ALONE) / stored.forest.shape.n_trees
    labels = held_out.column("label").to_numpy(zero_copy_only=False)
    if stored.classes is None:
        return score_numbers(labels, votes[:, 0])
    return score_classes(np.searchsorted(stored.classes, labels.astype(str)), votes)


@pytest.fixture(scope="module")
def plain(federation: LocalFederation) -> HorizontalResult:
    return train(federation, horizontal_order(), 1)


def test_training_leaves_the_held_out_rows_alone(plain: HorizontalResult) -> None:
    n_rows = sum(tables["rows"].num_rows for tables in make_tables().values())
    assert plain.n_rows == n_rows - report_of(plain).federated.n_rows == 300


def test_the_smallest_group_of_the_report_is_that_of_the_smallest_leaf(
    federation: LocalFederation,
) -> None:
    order = horizontal_order(validation=None, alone=False)
    result = train(federation, order, 8)
    stored = decode_forest(result.file)
    tables = [make_tables()[party]["rows"].drop_columns(["label"]) for party in PARTIES]
    values = stored.bins.raw_values(read_table(pyarrow.concat_tables(tables)), ALONE)
    leaves = ForestWalker(stored.forest).apply(values, ALONE)
    counts = [np.unique(tree, return_counts=True)[1].min() for tree in leaves.T]
    assert leaves.shape[1] == order.parameters.n_estimators
    assert result.smallest_group == min(counts)


@pytest.mark.parametrize("is_regression", [False, True])
def test_the_page_of_a_run_names_the_classes_if_there_are_any(
    federation: LocalFederation, plain: HorizontalResult, *, is_regression: bool
) -> None:
    result = plain
    if is_regression:
        data = dict.fromkeys(PARTIES, "rows_measured")
        result = train(federation, horizontal_order(data=data, parameters=REGRESSION), 9)
    details = federation.ask(ShowRun(run=result.model), RunDetails)
    assert isinstance(details, RunDetails)
    assert details.classes == (None if is_regression else ["no", "yes"])


def test_every_party_scores_the_model_it_holds_on_its_own_rows(plain: HorizontalResult) -> None:
    for party in PARTIES:
        scores, expected = report_of(plain).by_party[party], judge(plain, party)
        assert scores.n_rows == expected.n_rows
        assert scores.values == pytest.approx(dict(expected.values), rel=1e-5)
        assert expected.confusion is not None
        assert scores.confusion == expected.confusion.tolist()


def test_what_a_party_reaches_alone_is_scored_on_the_same_rows(plain: HorizontalResult) -> None:
    report = report_of(plain)
    assert report.alone.keys() == set(PARTIES)
    for party, scores in report.alone.items():
        assert scores.n_rows == report.by_party[party].n_rows
        assert scores.values["accuracy"] > 0.5
    mean = np.mean([scores.values["accuracy"] for scores in report.alone.values()])
    assert mean < report.federated.values["accuracy"]


def test_where_sums_are_hidden_counts_of_classes_are_not_shown(
    federation: LocalFederation, plain: HorizontalResult
) -> None:
    report = report_of(train(federation, masked(), 2))
    shown = [report.federated, *report.alone.values(), *report.by_party.values()]
    assert all(scores.confusion is None for scores in shown)
    assert report.federated.values["accuracy"] == report_of(plain).federated.values["accuracy"]


def test_a_regression_is_scored_by_its_errors(federation: LocalFederation) -> None:
    data = dict.fromkeys(PARTIES, "rows_measured")
    order = horizontal_order(data=data, parameters=REGRESSION)
    result = train(federation, order, 3)
    for party, scores in report_of(result).by_party.items():
        expected = judge(result, party, "rows_measured")
        assert scores.values == pytest.approx(dict(expected.values), rel=1e-5)
    assert report_of(result).federated.values["r2"] > 0.5


def test_scores_of_all_parties_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    votes = rng.dirichlet(np.ones(3), 90)
    codes = rng.integers(0, 3, 90)
    parts = np.split(np.arange(90), [20, 50])
    by_party = {
        str(number): Scores.of(score_classes(codes[part], votes[part]))
        for number, part in enumerate(parts)
    }
    combined, whole = combine_scores(by_party), Scores.of(score_classes(codes, votes))
    assert combined.confusion == whole.confusion
    assert combined.n_rows == 90
    for name in ("accuracy", "balanced_accuracy", "f1", "log_loss"):
        assert combined.values[name] == pytest.approx(whole.values[name], rel=1e-5)
    weights = [len(part) for part in parts]
    areas = [scores.values["auc"] for scores in by_party.values()]
    assert combined.values["auc"] == pytest.approx(np.average(areas, weights=weights), rel=1e-5)


def test_errors_of_all_parties_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    targets, predictions = rng.normal(size=(2, 50))
    parts = np.split(np.arange(50), [10])
    by_party = {
        str(number): Scores.of(score_numbers(targets[part], predictions[part]))
        for number, part in enumerate(parts)
    }
    combined, whole = combine_scores(by_party).values, score_numbers(targets, predictions).values
    for name in ("rmse", "mae"):
        assert combined[name] == pytest.approx(whole[name], rel=1e-5)


def test_a_party_with_a_class_that_training_did_not_see_has_a_larger_matrix() -> None:
    votes = np.array([[0.9, 0.1], [0.2, 0.8]])
    by_party = {
        "bank": Scores.of(score_classes(np.array([0, -1]), votes)),
        "shop": Scores.of(score_classes(np.array([0, 1]), votes)),
    }
    assert combine_scores(by_party).confusion == [[2, 0, 0], [0, 1, 0], [0, 1, 0]]


def test_noise_on_labels_and_scores_on_true_labels_do_not_go_together(
    federation: LocalFederation,
) -> None:
    order = horizontal_order(privacy=OptionChoice.of(GlobalDP(epsilon_query=1.0)))
    with pytest.raises(ConfigurationError, match="no noise covers"):
        train(federation, order, 4)


def test_a_party_does_not_score_a_model_whose_labels_are_noisy_whoever_asks(
    federation: LocalFederation,
) -> None:
    noise = OptionChoice.of(GlobalDP(epsilon_query=1.0))
    terms = HORIZONTAL.terms(horizontal_order(privacy=noise))
    rows = choose_rows(horizontal_order(), None)
    assert rows is not None
    bank, run = federation.parties["bank"], bytes([5]) * 16
    bank.answer(encode(BeginRun(run, HorizontalRole(data="rows", label="label", rows=rows), terms)))
    role = ScoringRole(data="rows", label="label", model=run.hex(), rows=held_out(rows))
    part = msgspec.structs.replace(terms, part_of=run.hex())
    with pytest.raises(PrivacyError, match="protected by noise"):
        bank.answer(encode(BeginRun(bytes([6]) * 16, role, part)))


def test_a_model_is_scored_in_one_run_only(
    federation: LocalFederation, plain: HorizontalResult
) -> None:
    order = horizontal_order()
    rows, terms = choose_rows(order, None), HORIZONTAL.terms(order)
    assert rows is not None
    role = ScoringRole(
        data="rows", label="label", model=plain.model, has_model=True, rows=held_out(rows)
    )
    part = msgspec.structs.replace(terms, part_of=plain.model, asker="user")
    begun = BeginRun(bytes([6]) * 16, role, part)
    with pytest.raises(RemoteProtocolError, match="scored already"):
        federation.parties["bank"].answer(encode(begun))
