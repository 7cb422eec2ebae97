"""Original files of the public data sets become the tables that experiments expect."""

import functools
import gzip
import http.server
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.errors import ConfigurationError, DataError
from fedforest.experiments.data.catalogue import DATA_SETS
from fedforest.experiments.data.conversion import convert
from fedforest.experiments.data.originals import find_originals
from fedforest.experiments.data.reading import data_folder, path_of, read_table, reason_missing
from fedforest.experiments.data.storing import OTHER, WRONG, check_file, fetch

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
PUBLIC = [data.name for data in DATA_SETS.values() if not data.is_made]
RNG = np.random.default_rng(0)
N = 6


def lines(*columns: Any, separator: str = ",") -> str:
    return "".join(separator.join(map(str, row)) + "\n" for row in zip(*columns, strict=True))


def numbers(n_columns: int) -> list[list[float]]:
    return [list(column) for column in RNG.normal(size=(n_columns, N)).round(4)]


def headed(*names: str) -> str:
    return ",".join(names) + "\n"


def write_parkinson() -> str:
    groups = headed(*["Basic Info"] * 2, *["Baseline Features"] * 752, "")
    names = headed("id", "gender", *(f"feature_{n}" for n in range(752)), "class")
    return groups + names + lines([0, 0, 0, 1, 1, 1], [1] * N, *numbers(752), [1, 0] * 3)


def write_kddcup() -> str:
    texts = [["tcp"] * N, ["http"] * N, ["SF"] * N]
    return lines([0] * N, *texts, *numbers(37), ["normal.", "smurf."] * 3)


def write_superconduct() -> str:
    head = headed(*(f"feature_{n}" for n in range(81)), "critical_temp")
    return head + lines(*numbers(81), [29.5] * N)


def write_credit() -> str:
    head = headed("ID", *(f"X{n}" for n in range(23)), "default.payment.next.month")
    return head + lines(range(N), *numbers(23), [1, 0] * 3)


# a few rows as UCI lays them out, and their targets
EXCERPTS: dict[str, tuple[Callable[[], str], list[Any]]] = {
    "ionosphere": (lambda: lines(*numbers(34), list("gbgbgb")), ["good", "bad"] * 3),
    "spambase": (lambda: lines(*numbers(57), [1, 0] * 3), ["spam", "nonspam"] * 3),
    "parkinson": (write_parkinson, [1, 0] * 3),
    "kddcup99_10pct": (write_kddcup, ["normal", "smurf"] * 3),
    "waveform": (lambda: lines(*numbers(21), [0, 1, 2] * 2), [0, 1, 2] * 2),
    "superconduct": (write_superconduct, [29.5] * N),
    "credit_default": (write_credit, [1, 0] * 3),
    "letter": (lambda: lines(list("TIDTID"), *numbers(16)), list("TIDTID")),
    "year_prediction_sample": (lambda: lines([2001] * N, *numbers(90)), [2001] * N),
}


def write_excerpt(name: str, folder: Path) -> list[Any]:
    """Write original files of a few rows; return their targets."""
    originals = DATA_SETS[name].originals
    if name == "mfeat":
        for view, size in zip(originals, (216, 76, 64, 6, 240, 47), strict=True):
            (folder / view).write_text(lines(*numbers(size), separator="  "))
        return [0, 1, 3, 5, 6, 8]  # ten digits in order over six rows
    write, targets = EXCERPTS[name]
    (folder / originals[0]).write_text(write())
    return targets


@pytest.mark.parametrize("name", PUBLIC)
def test_an_excerpt_of_the_original_becomes_features_first_and_target_last(
    name: str, tmp_path: Path
) -> None:
    targets = write_excerpt(name, tmp_path)
    data = DATA_SETS[name]
    frame = convert(name, find_originals(data, str(tmp_path), tmp_path))
    assert list(frame.columns)[-1] == "target"
    assert len(frame) == N
    assert frame.shape[1] == data.n_columns + len(data.group_keys) + 1
    assert not frame.isna().any().any()
    assert frame["target"].tolist() == targets


@pytest.mark.data
@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.skipif(reason_missing("spambase") is not None, reason="the data sets are missing")
def test_names_and_groups_are_those_of_the_expected_file(name: str, tmp_path: Path) -> None:
    import pyarrow.parquet  # noqa: PLC0415 - an extra

    expected = pyarrow.parquet.read_schema(path_of(name)).names
    write_excerpt(name, tmp_path)
    found = convert(name, find_originals(DATA_SETS[name], str(tmp_path), tmp_path)).columns
    if name not in ("parkinson", "superconduct", "credit_default"):  # their files name columns
        assert list(found) == expected
    table = read_table(name, quick=True)
    sizes = {group: len(columns) for group, columns in table.groups.items()}
    assert sizes == dict(DATA_SETS[name].groups)


def by_gzip(folder: Path) -> Path:
    for path in list(folder.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return folder


def by_zip(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "spambase.zip", "w") as archive:
        archive.write(folder / "spambase.data", "../deep/spambase.data")
    (folder / "spambase.data").unlink()
    return folder / "spambase.zip"


@pytest.mark.parametrize("pack", [by_gzip, by_zip])
def test_originals_may_be_packed(
    pack: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDFOREST_DATA", str(tmp_path / "data"))
    originals = tmp_path / "originals"
    originals.mkdir()
    write_excerpt("spambase", originals)
    path = fetch(DATA_SETS["spambase"], str(pack(originals)))
    assert path == tmp_path / "data" / "spambase.parquet"
    assert len(pandas.read_parquet(path)) == N
    assert check_file(DATA_SETS["spambase"]).state == WRONG  # six rows
    assert not list(tmp_path.rglob("deep"))


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Serves a folder on loopback."""
    folder = tmp_path / "mirror"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    serve = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join(10)


@pytest.mark.parametrize("pack", [lambda folder: folder, by_gzip])
def test_originals_come_from_a_mirror_that_the_user_names(
    pack: Callable[[Path], Path],
    mirror: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDFOREST_DATA", str(tmp_path / "data"))
    address, folder = mirror
    write_excerpt("letter", folder)
    pack(folder)
    assert len(pandas.read_parquet(fetch(DATA_SETS["letter"], address))) == N
    with pytest.raises(DataError, match="could not be fetched"):
        fetch(DATA_SETS["waveform"], address)


def test_a_file_of_the_same_shape_and_other_bytes_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDFOREST_DATA", str(tmp_path))
    data = DATA_SETS["ionosphere"]
    frame = pandas.DataFrame(np.zeros((data.n_rows, data.n_columns + 1)))
    frame.columns = [*(f"V{n}" for n in range(data.n_columns)), "target"]
    frame.to_parquet(path_of("ionosphere"))
    assert check_file(data).state == OTHER


def test_missing_files_and_other_contents_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no spambase"):
        find_originals(DATA_SETS["spambase"], str(tmp_path), tmp_path)
    (tmp_path / "spambase.data").write_text("1,2,3\n")
    with pytest.raises(DataError, match="3 columns instead of 58"):
        convert("spambase", find_originals(DATA_SETS["spambase"], str(tmp_path), tmp_path))
    with pytest.raises(ConfigurationError, match="made from a seed"):
        fetch(DATA_SETS["gene"], str(tmp_path))


def test_the_commands_list_fetch_and_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDFOREST_DATA", str(tmp_path / "data"))
    listed = CliRunner().invoke(app, ["data", "list"]).output
    for data in DATA_SETS.values():
        assert data.source in listed
        assert data.sha256 in listed
    write_excerpt("waveform", tmp_path)
    fetched = CliRunner().invoke(app, ["data", "fetch", "waveform", "--from", str(tmp_path)])
    assert "6 rows and 21 features instead of 5,000 and 21" in fetched.output
    checked = CliRunner().invoke(app, ["data", "check", "waveform", "gene", "letter"])
    assert checked.exit_code == 1
    assert [line.split()[1] for line in checked.output.splitlines()] == ["wrong", "made", "missing"]


def test_tables_lie_beside_the_project_in_a_folder_here_or_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv("FEDFOREST_DATA", raising=False)
    assert data_folder().absolute() == here / "papers-data"
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert data_folder().resolve() == tmp_path / "shared" / "data"
    monkeypatch.setenv("FEDFOREST_DATA", "elsewhere")
    assert data_folder() == Path("elsewhere")
