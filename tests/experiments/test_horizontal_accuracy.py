"""The horizontal experiments, run for real with small forests on built-in data."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from fedforest.errors import ConfigurationError, DataError
from fedforest.experiments.data_sets import reason_missing
from fedforest.experiments.findings import MISSED, NOTHING, REACHED
from fedforest.experiments.horizontal_accuracy import (
    HorizontalExperiment,
    Measurement,
    choose_part,
    main,
)
from fedforest.experiments.horizontal_cells import apart, mean_of
from fedforest.experiments.horizontal_figure import draw
from fedforest.experiments.horizontal_findings import (
    beside_pooled,
    find,
    local_noise,
    write_page,
)
from fedforest.experiments.horizontal_methods import (
    FULL,
    LOCAL,
    METHODS,
    QUERY,
    SHARES,
    TOTAL,
    ForestSize,
    Method,
    Noise,
    share_name,
)
from fedforest.experiments.horizontal_record import (
    FILE,
    HorizontalRecord,
    HorizontalSettings,
    read_groups,
)
from fedforest.experiments.horizontal_tasks import (
    TEN_PARTIES,
    TWO_PARTIES,
    Deal,
    RowData,
    deal_rows,
    read_rows,
)
from fedforest.experiments.participation_findings import falling, participation

CANCER = RowData.of_numbers("breast_cancer", *load_breast_cancer(return_X_y=True))
DIGITS = RowData.of_numbers("digits", *load_digits(return_X_y=True))
WINE = RowData.of_numbers("wine", *load_wine(return_X_y=True))
SETTINGS = HorizontalSettings(
    seed=3,
    exact_forest=ForestSize(20),
    local_forest=ForestSize(10, max_depth=4, min_samples_leaf=5),
    query_forest=ForestSize(10, max_depth=4, min_samples_leaf=5),
    total_forest=ForestSize(5, max_depth=3, min_samples_leaf=5),
    participation_forest=ForestSize(5, criterion="entropy"),
)
KEPT = {
    "comparison": tuple(METHODS),
    "local": (LOCAL.reference, *map(LOCAL.method, (0.5, 8.0))),
    "query": (QUERY.reference, *map(QUERY.method, (0.03, 10.0))),
    "total": (TOTAL.reference, *map(TOTAL.method, (1.0, 300.0))),
    "participation": tuple(share_name("tree", share) for share in (0.2, 0.6, 1.0)),
}


def part_of(name: str) -> Measurement:
    """A part with few of its methods, so that a test takes seconds."""
    part = choose_part(name, "waveform", SETTINGS, n_jobs=1)
    assert part is not None
    return part._replace(methods={method: part.methods[method] for method in KEPT[name]})


def measure(folder: Path | None, repetitions: int, parts: tuple[str, ...]) -> HorizontalRecord:
    record = HorizontalRecord.open(folder, SETTINGS)
    experiment = HorizontalExperiment(record, Console(quiet=True))
    for name in parts:
        data = WINE if name == "participation" else CANCER
        experiment.measure(part_of(name), data, repetitions)
    return record


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return measure(None, 5, tuple(KEPT)).as_result()


@pytest.fixture
def result(measured: dict[str, Any]) -> dict[str, Any]:
    """The result of a run, to change at will."""
    return copy.deepcopy(measured)


@pytest.mark.slow
@pytest.mark.parametrize("data", [CANCER, DIGITS], ids=lambda data: data.name)
def test_two_parties_are_as_good_as_scikit_learn_on_their_pooled_rows(data: RowData) -> None:
    """Deals are the same for both, so that differences vary little: by 0.008 from deal to deal."""
    part = part_of("comparison")
    both = {method: part.methods[method] for method in ("federated", "pooled")}
    record = HorizontalRecord.open(None, SETTINGS)
    experiment = HorizontalExperiment(record, Console(quiet=True))
    experiment.measure(part._replace(methods=both), data, 12)
    measured = read_groups(record.as_result())["two_parties"][data.name]
    difference = apart(measured, "federated", "pooled")
    assert difference is not None
    assert -0.01 < difference.low < difference.high < 0.01
    assert mean_of(measured, "federated") > 0.95


@pytest.mark.slow
def test_noise_costs_accuracy_and_much_noise_costs_more(result: dict[str, Any]) -> None:
    record = read_groups(result)["two_parties"]["breast_cancer"]
    for noise, most, least in ((LOCAL, 8.0, 0.5), (QUERY, 10.0, 0.03), (TOTAL, 300.0, 1.0)):
        assert mean_of(record, noise.method(most)) > 0.85
        assert mean_of(record, noise.method(least)) < mean_of(record, noise.method(most)) - 0.02


def test_epsilons_are_those_that_the_training_reports(result: dict[str, Any]) -> None:
    record = read_groups(result)["two_parties"]["breast_cancer"]
    assert mean_of(record, LOCAL.method(8.0), "epsilon_cap") == pytest.approx(8.0)
    assert mean_of(record, TOTAL.method(300.0), "epsilon_composed") == pytest.approx(300.0)
    for epsilon in (0.03, 10.0):
        method = QUERY.method(epsilon)
        assert mean_of(record, method, "epsilon_query") == pytest.approx(epsilon)
        n_queries = 5 * 4 * 10  # candidates, levels, trees
        composed = mean_of(record, method, "epsilon_composed")
        assert composed == pytest.approx(epsilon * n_queries)


@pytest.mark.parametrize("cap", LOCAL.epsilons)
def test_the_epsilons_of_local_noise_are_those_of_the_whole_training(cap: float) -> None:
    for n_classes in (2, 3, 26):
        assert LOCAL.protect(cap).resolve(n_classes).cap == pytest.approx(cap)


def test_fewer_parties_aggregate_less(result: dict[str, Any]) -> None:
    record = read_groups(result)["ten_parties"]["wine"]
    work = [mean_of(record, method, "aggregated") for method in KEPT["participation"]]
    assert work[0] < work[1] < work[2]


@pytest.mark.parametrize("is_timed", [False, True])
def test_where_seconds_count_everybody_trains_once_before_and_nobody_is_always_first(
    is_timed: bool,
) -> None:
    trained: list[str] = []

    def method(name: str) -> Method:
        def train(_deal: Deal) -> dict[str, float]:
            trained.append(name)
            return {"score": 1.0}

        return train

    methods = {name: method(name) for name in "abc"}
    part = Measurement("ten_parties", methods, repetitions=4, is_timed=is_timed)
    record = HorizontalRecord.open(None, SETTINGS)
    HorizontalExperiment(record, Console(quiet=True)).measure(part, WINE)
    before = "abc" if is_timed else ""
    assert "".join(trained) == before + "abc" + "bca" + "cab" + "abc"
    measured = read_groups(record.as_result())["ten_parties"]["wine"]
    assert measured.n_repetitions(*"abc") == 4


def test_the_full_share_is_one_method_whatever_the_scope() -> None:
    part = choose_part("participation", "mfeat", SETTINGS, n_jobs=1)
    assert part is not None
    names = list(part.methods)
    assert names.count(FULL) == 1
    assert len(names) == 2 * (len(SHARES) - 1) + 1


def test_parts_that_do_not_concern_a_data_set_measure_nothing_on_it() -> None:
    for name, data_set in (
        ("participation", "letter"),
        ("comparison", "mfeat"),
        ("local", "mfeat"),
    ):
        assert choose_part(name, data_set, SETTINGS, n_jobs=1) is None


@pytest.mark.parametrize("noise", [LOCAL, QUERY, TOTAL])
def test_a_curve_has_every_epsilon_and_the_forest_without_noise(noise: Noise) -> None:
    part = choose_part(noise.name, "letter", SETTINGS, n_jobs=1)
    assert part is not None
    assert list(part.methods) == [noise.reference, *map(noise.method, noise.epsilons)]


@pytest.mark.parametrize("dealing", [TWO_PARTIES, TEN_PARTIES])
def test_rows_are_dealt_in_equal_shares_and_every_row_is_somewhere(dealing: Any) -> None:
    deal = deal_rows(CANCER, dealing, seed=0, repetition=1)
    n_rows = len(CANCER.y)
    assert len(deal.test) == round(dealing.test_share * n_rows)
    assert sorted([*deal.train, *deal.test]) == list(range(n_rows))
    sizes = np.bincount(deal.owner)
    assert len(sizes) == dealing.n_parties
    assert sizes.max() - sizes.min() <= 1


def test_a_deal_follows_from_the_seed_and_its_number_alone() -> None:
    first, again = (deal_rows(CANCER, TWO_PARTIES, 0, 0) for _ in range(2))
    np.testing.assert_array_equal(first.train, again.train)
    assert first.seed == again.seed
    for seed, number in ((0, 1), (1, 0)):
        other = deal_rows(CANCER, TWO_PARTIES, seed, number)
        assert not np.array_equal(first.train, other.train)
        assert first.seed != other.seed


def test_texts_are_categories_for_us_and_codes_for_scikit_learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"kind": ["b", "a", "c", "a"], "size": [1.5, 2.5, 3.5, 4.5]})
    frame.assign(target=["x", "y", "x", "y"]).to_parquet(tmp_path / "small.parquet")
    monkeypatch.setenv("FEDFOREST_DATA", str(tmp_path))
    data = read_rows("small")
    assert isinstance(data.X["kind"].dtype, pd.CategoricalDtype)
    np.testing.assert_array_equal(data.codes, [[1, 1.5], [0, 2.5], [2, 3.5], [0, 4.5]])
    assert data.shape == (4, 2)
    deal = deal_rows(data, TWO_PARTIES, 0, 0)
    assert list(deal.take(deal.train)["size"]) == list(data.codes[deal.train, 1])


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_where_it_ended(
    tmp_path: Path, result: dict[str, Any]
) -> None:
    measure(tmp_path, 2, ("comparison",))
    gone_on = measure(tmp_path, 5, ("comparison",)).as_result()
    entries = (r["groups"]["two_parties"]["breast_cancer"]["measured"] for r in (gone_on, result))
    kept, whole = ({method: entry[method]["score"] for method in METHODS} for entry in entries)
    assert kept == whole
    assert [run["added"] for run in gone_on["runs"]] == [{"breast_cancer": 6}, {"breast_cancer": 9}]


def test_a_file_has_what_was_measured_in_eight_digits_and_quantities_that_some_lack(
    tmp_path: Path,
) -> None:
    record = HorizontalRecord(HorizontalSettings(), tmp_path)
    entry = record.entry("two_parties", CANCER)
    third = {"score": 1 / 3, "bytes": 12345678901, "aggregated": 822230.0}
    record.add(entry, "pooled", third)
    record.add(entry, "pooled", {"score": 2 / 3, "epsilon_cap": 1.0})
    reopened = HorizontalRecord.open(tmp_path, HorizontalSettings()).groups["two_parties"][
        "breast_cancer"
    ]
    assert reopened.measured["pooled"] == [
        {"score": 0.33333333, "bytes": 12345678901, "aggregated": 822230},
        {"score": 0.66666667, "epsilon_cap": 1},
    ]
    lines = (tmp_path / FILE.name).read_text().splitlines()
    assert '"score": [ 0.33333333, 0.66666667 ],' in map(str.strip, lines)


def test_what_is_there_is_not_measured_again_unless_it_is_forgotten(tmp_path: Path) -> None:
    record = measure(tmp_path, 2, ("comparison",))
    written = (tmp_path / FILE.name).read_bytes()
    measure(tmp_path, 2, ("comparison",))
    assert (tmp_path / FILE.name).read_bytes() == written
    record.forget("two_parties", ["breast_cancer", "absent"], ["federated"])
    assert record.groups["two_parties"]["breast_cancer"].measured.keys() == {"alone", "pooled"}


def test_measurements_of_other_settings_or_another_table_are_refused(tmp_path: Path) -> None:
    record = measure(tmp_path, 2, ("comparison",))
    with pytest.raises(ConfigurationError, match="other settings"):
        HorizontalRecord.open(tmp_path, HorizontalSettings(seed=4))
    smaller = RowData.of_numbers("breast_cancer", CANCER.X[:, :9], CANCER.y)
    with pytest.raises(ConfigurationError, match="another 'breast_cancer'"):
        HorizontalExperiment(record, Console(quiet=True)).measure(part_of("comparison"), smaller, 2)


@pytest.mark.parametrize("content", ['{"experiment": "hori', '{"experiment": "accuracy"}'])
def test_a_file_that_is_no_result_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE.name).write_text(content)
    with pytest.raises(DataError, match=r"horizontal_accuracy\.json"):
        FILE.read(tmp_path / FILE.name)


def test_the_page_and_the_figures_come_from_the_result_alone(
    tmp_path: Path, result: dict[str, Any]
) -> None:
    write_page(result, tmp_path / "page.md")
    draw(result, tmp_path)
    page = (tmp_path / "page.md").read_text()
    for name in ("horizontal_accuracy.png", "horizontal_participation.png"):
        assert f"({name})" in page
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    for word in ("breast_cancer", "wine", *METHODS.values(), "numpy"):
        assert word in page
    assert str(Path.cwd()) not in page


def test_a_result_of_one_part_has_the_findings_of_that_part_alone(result: dict[str, Any]) -> None:
    result["groups"]["ten_parties"] = {}
    titles = [finding.title for finding in find(result)]
    assert "A share of ten parties at a time" not in titles
    assert "Two parties beside pooled rows" in titles


def test_verdicts_follow_the_intervals(result: dict[str, Any]) -> None:
    record = read_groups(result)["two_parties"]["breast_cancer"]
    record.name = "spambase"  # where local noise is judged
    for lost, judged in ((0.0, REACHED), (0.2, MISSED)):
        for method in ("federated", LOCAL.method(8.0)):
            record.measured[method] = [
                {**each, "score": each["score"] - lost} for each in record.measured["pooled"]
            ]
        (row,) = beside_pooled([record]).rows
        assert row[4] == judged
    record.measured["federated"] = record.measured["pooled"]
    spent = {"epsilon_query": 1.0, "epsilon_composed": 9.0}
    for lost, judged in ((0.02, REACHED), (0.2, MISSED)):
        record.measured = {
            **record.measured,
            LOCAL.method(8.0): [
                {**each, **spent, "score": each["score"] - lost}
                for each in record.measured["pooled"]
            ],
        }
        assert local_noise([record]).rows[-1][-1] == judged
    record.name = "letter"
    assert local_noise([record]).rows[-1][-1] == NOTHING


def test_participation_is_judged_at_two_fifths_of_the_parties(result: dict[str, Any]) -> None:
    record = read_groups(result)["ten_parties"]["wine"]
    full = record.measured[FULL]
    for lost, judged in ((0.01, REACHED), (0.1, MISSED)):
        record.measured[share_name("tree", 0.4)] = [
            {**each, "score": each["score"] - lost} for each in full
        ]
        rows = {row[2]: row[6] for row in participation([record]).rows if row[1] == "every tree"}
        assert rows == {"0.2": NOTHING, "0.4": judged, "0.6": NOTHING, "1": NOTHING}


def test_work_that_rises_with_fewer_parties_is_no_fall(result: dict[str, Any]) -> None:
    record = read_groups(result)["ten_parties"]["wine"]
    assert falling([record]).rows[0][-1] == REACHED
    record.measured[share_name("tree", 0.2)] = [
        {**each, "aggregated": 2 * each["aggregated"]} for each in record.measured[FULL]
    ]
    assert falling([record]).rows[0][-1] == MISSED


def test_a_missing_data_set_is_named_with_the_variable_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDFOREST_DATA", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["--datasets", "spambase", "--repetitions", "2"])
    shown = capsys.readouterr().out
    assert ended.value.code == 1
    assert "spambase.parquet" in shown
    assert "FEDFOREST_DATA" in shown


def test_a_single_repetition_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--repetitions", "1"])
    assert "at least 2" in capsys.readouterr().err


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif(reason_missing("waveform") is not None, reason=str(reason_missing("waveform")))
def test_waveform_is_told_beside_pooled_rows_with_a_page(tmp_path: Path) -> None:
    arguments = ["--datasets", "waveform", "--parts", "comparison", "--repetitions", "2"]
    main([*arguments, "--output", str(tmp_path)])
    page = (tmp_path / "horizontal_accuracy.md").read_text()
    assert "waveform (5,000 × 21, 3 classes)" in page
    record = read_groups(json.loads((tmp_path / FILE.name).read_text()))["two_parties"]["waveform"]
    difference = apart(record, "federated", "pooled")
    assert difference is not None
    assert abs(difference.mean) < 0.02
    assert mean_of(record, "federated") > 0.82
