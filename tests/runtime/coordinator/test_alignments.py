"""Services align the rows of parties that know only some of the same people."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from fedforest import VerticalForestClassifier, VerticalForestRegressor
from fedforest.errors import (
    ConfigurationError,
    DataError,
    MaskingError,
    PolicyRefusal,
    UnknownColumn,
)
from fedforest.runtime.messages.envelope import derive_part
from fedforest.runtime.messages.orders import (
    AlignRows,
    AnyOrder,
    PredictVertical,
    ShowRun,
    Validation,
)
from fedforest.runtime.messages.results import Alignment, Predictions, RunDetails, VerticalResult
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.row_selection import hold_out
from fedforest.runtime.trainings.forests import choose_rows
from fedforest.tree.files.forests import decode_outline, encode_outline
from fedforest.tree.forest.metrics import score_classes, score_numbers
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.local_federation import LocalFederation, local_federation, make_party
from tests.runtime.partly_shared import (
    PARTIES,
    REGRESSION,
    align_order,
    columns_of,
    common_people,
    make_pattern,
    make_tables,
    members,
    people,
    vertical_order,
)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def] # a fixture
    folder = tmp_path_factory.mktemp("aligned")
    with local_federation(folder / "local", make_pattern(folder / "pattern")) as federation:
        yield federation


def run_id(number: int) -> bytes:
    return bytes([number]) * 16


def people_of(federation: LocalFederation, alignment: str) -> dict[str, list[int]]:
    """Whom each party took, in the common order."""
    return {
        party: [members(party)[row] for row in _kept(federation, party).read(alignment).rows()]
        for party in PARTIES
    }


def _kept(federation: LocalFederation, party: str) -> Alignments:
    return Alignments(federation.homes[party] / "alignments")


def test_every_party_keeps_its_rows_of_the_common_people_in_one_order(
    federation: LocalFederation,
) -> None:
    alignment = federation.ask(align_order(), Alignment, run_id(1))
    assert alignment == Alignment(
        n_common=len(common_people()),
        n_rows=dict.fromkeys(PARTIES, 300),
        n_duplicates=dict.fromkeys(PARTIES, 0),
        id=derive_part(run_id(1), "alignment").hex(),
    )
    taken = people_of(federation, alignment.id)
    assert set(taken["bank"]) == common_people()
    assert taken["bank"] == taken["shop"] == taken["clinic"]
    for party in PARTIES:
        assert taken[party] != [each for each in members(party) if each in common_people()]


@pytest.fixture(scope="module")
def intersected(federation: LocalFederation) -> VerticalResult:
    """A training on rows that were aligned by private set intersection."""
    result = federation.ask(vertical_order(align="psi", alone=True), VerticalResult, run_id(6))
    assert isinstance(result, VerticalResult)
    return result


def test_an_intersection_finds_the_same_people_as_keyed_hashes(
    federation: LocalFederation, intersected: VerticalResult
) -> None:
    assert intersected.alignment is not None
    assert intersected.alignment.n_common == len(common_people())
    taken = people_of(federation, intersected.alignment.id)
    assert set(taken["bank"]) == common_people()
    assert taken["bank"] == taken["shop"] == taken["clinic"]
    assert intersected.validation is not None


def test_new_rows_are_matched_by_an_intersection_before_they_are_predicted(
    federation: LocalFederation, intersected: VerticalResult
) -> None:
    data = dict.fromkeys(PARTIES, "people")
    order = PredictVertical(data=data, model=intersected.model, align="psi")
    predictions = federation.ask(order, Predictions)
    assert isinstance(predictions, Predictions)
    assert predictions.alignment is not None
    assert set(people_of(federation, predictions.alignment.id)["shop"]) == common_people()
    assert len(predictions.read()) == len(common_people())


def test_guessing_ids_is_a_risk_of_keyed_hashes_only(
    federation: LocalFederation, aligned: "Aligned", intersected: VerticalResult
) -> None:
    risks = {}
    for name, result in (("keyed-hash", aligned.result), ("psi", intersected)):
        details = federation.ask(ShowRun(run=result.model), RunDetails)
        assert isinstance(details, RunDetails)
        risks[name] = "guessing ids" in str(details.leakage)
    assert risks == {"keyed-hash": True, "psi": False}


class Aligned:
    """A training with everything, and the same by hand: rows joined where all of them are known."""

    def __init__(self, federation: LocalFederation, number: int, *, is_regression: bool) -> None:
        self.order = vertical_order(alone=True)
        if is_regression:
            data = dict.fromkeys(PARTIES, "people_measured")
            self.order = msgspec.structs.replace(self.order, data=data, parameters=REGRESSION)
        result = federation.ask(self.order, VerticalResult, run_id(number))
        assert isinstance(result, VerticalResult)
        self.result = result
        assert result.alignment is not None
        self.common = np.array(people_of(federation, result.alignment.id)["bank"])
        rows = choose_rows(self.order, None)
        assert rows is not None
        self.is_held_out = hold_out(len(self.common), rows.held_out, rows.seed)
        self.y = people()[2 if is_regression else 1]
        self.kind = VerticalForestRegressor if is_regression else VerticalForestClassifier

    @property
    def trained_on(self) -> np.ndarray:
        return self.common[~self.is_held_out]

    @property
    def held_out(self) -> np.ndarray:
        return self.common[self.is_held_out]

    def table(self, party: str, chosen: np.ndarray) -> dict[str, np.ndarray]:
        return {f"x{column}": people()[0][chosen, column] for column in columns_of(party)}

    def fit(self, parties: tuple[str, ...] = PARTIES):  # type: ignore[no-untyped-def] # one of two kinds
        """The estimator, trained by hand on some parties' columns."""
        settings: Any = self.order.parameters
        forest = self.kind(
            n_estimators=settings.n_estimators,
            max_depth=settings.max_depth,
            bootstrap=settings.bootstrap,
            max_features=settings.max_features,
            random_state=self.order.seed,
        )
        tables = {party: self.table(party, self.trained_on) for party in parties}
        return forest.fit(tables, self.y[self.trained_on])

    def judge(self, parties: tuple[str, ...] = PARTIES) -> dict[str, float]:
        """How good the estimator is on the people that were held out."""
        forest = self.fit(parties)
        tables = {party: self.table(party, self.held_out) for party in parties}
        y = self.y[self.held_out]
        if self.order.is_regression:
            return _rounded(score_numbers(y, forest.predict(tables)).values)
        codes = np.searchsorted(forest.classes_, y)
        return _rounded(score_classes(codes, forest.predict_proba(tables)).values)


def _rounded(values: object) -> dict[str, float]:
    assert isinstance(values, dict)
    return {name: float(f"{value:.6g}") for name, value in values.items()}


@pytest.fixture(scope="module")
def aligned(federation: LocalFederation) -> Aligned:
    return Aligned(federation, 2, is_regression=False)


def test_an_aligned_training_grows_the_forest_of_the_joined_rows_without_those_held_out(
    federation: LocalFederation, aligned: Aligned
) -> None:
    assert aligned.result.alignment is not None
    assert aligned.result.alignment.n_common == len(aligned.common)
    assert aligned.result.n_rows == len(aligned.trained_on)
    share = federation.homes["coordinator"] / "models" / f"{aligned.result.model}.share"
    stored = decode_outline(share.read_bytes())
    expected = encode_outline(aligned.fit()._model.outline, None, stored.metadata)
    assert share.read_bytes() == expected


def test_scores_are_those_of_the_same_forest_by_hand(aligned: Aligned) -> None:
    assert aligned.result.validation is not None
    federated = aligned.result.validation.federated
    assert federated.n_rows == len(aligned.held_out)
    assert federated.values == aligned.judge()
    assert sum(map(sum, federated.confusion or [])) == federated.n_rows


def test_the_page_of_a_run_names_the_classes_of_its_confusion_matrix(
    federation: LocalFederation, aligned: Aligned
) -> None:
    details = federation.ask(ShowRun(run=aligned.result.model), RunDetails)
    assert isinstance(details, RunDetails)
    assert details.classes == ["no", "yes"]


@pytest.mark.parametrize("party", PARTIES)
def test_what_a_party_reaches_alone_is_a_forest_over_its_own_columns(
    aligned: Aligned, party: str
) -> None:
    assert aligned.result.validation is not None
    assert aligned.result.validation.alone[party].values == aligned.judge((party,))


def test_baselines_are_not_kept(federation: LocalFederation, aligned: Aligned) -> None:
    for home in federation.homes.values():
        kept = {path.stem for path in (home / "models").glob("*")}
        assert kept <= {aligned.result.model, *(run_id(number).hex() for number in (3, 4, 6))}


def test_a_regression_is_scored_by_its_errors(federation: LocalFederation) -> None:
    aligned = Aligned(federation, 3, is_regression=True)
    report = aligned.result.validation
    assert report is not None
    assert report.federated.values == aligned.judge()
    assert report.federated.confusion is None
    assert {party: each.values for party, each in report.alone.items()} == {
        party: aligned.judge((party,)) for party in PARTIES
    }


def test_aligned_rows_are_predicted_in_the_order_that_parties_keep(
    federation: LocalFederation, aligned: Aligned
) -> None:
    order = PredictVertical(data=aligned.order.data, model=aligned.result.model, align=True)
    predictions = federation.ask(order, Predictions)
    assert isinstance(predictions, Predictions)
    assert predictions.alignment is not None
    taken = np.array(people_of(federation, predictions.alignment.id)["shop"])
    assert predictions.alignment.n_common == len(taken)
    tables = {party: aligned.table(party, taken) for party in PARTIES}
    assert np.array_equal(predictions.read(), aligned.fit().predict_proba(tables))


def test_a_warm_start_goes_on_with_the_same_rows(
    federation: LocalFederation, aligned: Aligned
) -> None:
    more = msgspec.structs.replace(
        aligned.order,
        align=False,
        alone=False,
        continues=aligned.result.model,
        parameters=replace(aligned.order.parameters, n_estimators=9),
    )
    result = federation.ask(more, VerticalResult, run_id(4))
    assert isinstance(result, VerticalResult)
    assert result.n_trees == 9
    assert result.n_rows == len(aligned.trained_on)
    assert result.validation is not None
    assert result.validation.federated.n_rows == len(aligned.held_out)
    other = msgspec.structs.replace(more, validation=Validation(0.5))
    with pytest.raises(ConfigurationError, match=r"a share of 0.25, not 0.5"):
        federation.ask(other, VerticalResult, run_id(5))


REFUSED: list[tuple[AnyOrder, type[Exception], str]] = [
    (AlignRows(data={"bank": "people"}), ConfigurationError, "two or more"),
    (AlignRows(data=dict.fromkeys(PARTIES, "rows")), DataError, "no id column"),
    (AlignRows(data=dict.fromkeys(PARTIES, "people_twice")), PolicyRefusal, "fewer than 10 ids"),
    (vertical_order(label_epsilon=2.0), ConfigurationError, "no noise covers"),
    (vertical_order(validation=None, alone=True), ConfigurationError, "ask for validation"),
    (vertical_order(continues=run_id(2).hex()), ConfigurationError, "leave align out"),
    (
        PredictVertical(
            data=dict.fromkeys(PARTIES, "people"), model=run_id(2).hex(), align=True, rows=[1]
        ),
        ConfigurationError,
        "predict them all",
    ),
]


@pytest.mark.parametrize(("order", "kind", "why"), REFUSED)
def test_what_cannot_be_aligned_or_validated_is_refused_by_name(
    federation: LocalFederation, aligned: Aligned, order: AnyOrder, kind: type[Exception], why: str
) -> None:
    assert aligned.result.model == run_id(2).hex()
    number = 100 + [each[0] for each in REFUSED].index(order)
    with pytest.raises(kind, match=why):
        federation.ask(order, Alignment, run_id(number))


def test_a_label_that_is_not_there_is_refused_before_ids_are_hashed(
    federation: LocalFederation,
) -> None:
    with pytest.raises(UnknownColumn, match="has no column 'lable'") as caught:
        federation.ask(vertical_order(label="lable"), VerticalResult, run_id(121))
    assert caught.value.party == "bank"
    details = federation.ask(ShowRun(run=run_id(121).hex()), RunDetails)
    assert isinstance(details, RunDetails)
    assert (details.state.state, details.state.n_exchanges) == ("failed", 0)
    assert str(caught.value) in details.state.doing


def test_nothing_is_aligned_without_pins(federation: LocalFederation) -> None:
    home = federation.homes["shop"]
    settings = home / "party.toml"
    text = settings.read_text()
    lines = [line for line in text.splitlines() if not line.startswith("clinic = ")]
    settings.write_text("\n".join(lines))
    careless = make_party(home)
    honest, federation.hub.endpoints["shop"] = federation.hub.endpoints["shop"], careless.answer
    try:
        with pytest.raises(MaskingError, match="party 'shop': no fingerprint of 'clinic' is"):
            federation.ask(align_order(), Alignment, run_id(120))
    finally:
        federation.hub.endpoints["shop"] = honest
        careless.close()
        settings.write_text(text)


def test_rows_of_a_data_set_that_has_changed_are_not_taken_for_those_aligned(
    federation: LocalFederation, aligned: Aligned
) -> None:
    file = federation.homes["clinic"] / "people.parquet"
    before = file.read_bytes()
    table = make_tables()["clinic"]["people"]
    pyarrow.parquet.write_table(table.slice(1), file)
    order = msgspec.structs.replace(
        aligned.order,
        align=False,
        alone=False,
        continues=aligned.result.model,
        parameters=replace(aligned.order.parameters, n_estimators=9),
    )
    try:
        with pytest.raises(DataError, match="have changed since alignment"):
            federation.ask(order, VerticalResult, run_id(130))
    finally:
        file.write_bytes(before)


def test_the_smallest_group_of_the_report_is_that_of_the_smallest_leaf(
    federation: LocalFederation,
) -> None:
    grown_out = ForestParameters(n_estimators=3, min_samples_leaf=4, bootstrap=False)
    order = vertical_order(parameters=grown_out, validation=None)
    result = federation.ask(order, VerticalResult, run_id(122))
    assert isinstance(result, VerticalResult)
    asked = PredictVertical(data=order.data, model=result.model, align=True, leaves=True)
    leaves = federation.ask(asked, Predictions)
    assert isinstance(leaves, Predictions)
    counts = [np.unique(tree, return_counts=True)[1].min() for tree in leaves.read()]
    assert result.smallest_group == min(counts) >= 4
