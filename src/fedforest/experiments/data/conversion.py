"""The original files of each public data set, read into the table that experiments expect.

Originals are what UCI's archives hold. Each reader returns features first and `target` last; whole
numbers get the smallest type that holds them.
"""

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from fedforest.errors import DataError
from fedforest.experiments.data.catalogue import DATA_SETS, PaperDataSet
from fedforest.extras import import_extra

Frame: TypeAlias = Any  # of pandas
Originals = Mapping[str, Path]  # name of an original file -> where it is


def convert(name: str, originals: Originals) -> Frame:
    """Return the table of a data set; raises `DataError` where the files hold something else."""
    data = DATA_SETS[name]
    _pandas()  # or its lack would be told as a fault of the files
    try:
        frame = _READERS[name](data, originals)
    except (ValueError, KeyError, UnicodeDecodeError) as error:
        listed = ", ".join(data.originals)
        raise DataError(f"{listed} could not be read as {data.title}: {error}") from error
    frame = _shrink(frame, float_type="float32" if data.is_float32 else "float64")
    n_keys = len(data.group_keys)
    if frame.shape[1] != n_keys + data.n_columns + 1:
        raise DataError(
            f"{name} has {data.n_columns} features, and the files gave "
            f"{frame.shape[1] - n_keys - 1}; is it another version of the data set?"
        )
    return frame


def _pandas() -> Any:
    return import_extra("pandas", "reading a table of the papers")


def _only(originals: Originals) -> Path:
    return next(iter(originals.values()))


def _column_names(name: str) -> list[str]:
    listing = files("fedforest.experiments.data").joinpath("columns.json").read_text()
    names: list[str] = json.loads(listing)[name]
    return names


def _read_comma_separated(
    names: Callable[[PaperDataSet], list[str]],
    classes: Mapping[Any, Any] | None = None,
    *,
    target_first: bool = False,
) -> Callable[[PaperDataSet, Originals], Frame]:
    """Return a reader of one file without a header line."""

    def read(data: PaperDataSet, originals: Originals) -> Frame:
        listed = ["target", *names(data)] if target_first else [*names(data), "target"]
        frame = _pandas().read_csv(_only(originals), header=None, skipinitialspace=True)
        if frame.shape[1] != len(listed):
            raise ValueError(f"{frame.shape[1]} columns instead of {len(listed)}")
        frame.columns = listed
        frame["target"] = frame.pop("target")  # last
        if classes is not None:
            frame["target"] = frame["target"].map(classes)
            if frame["target"].isna().any():
                raise ValueError(f"classes other than {', '.join(map(str, classes))}")
        return frame

    return read


def _numbered(prefix: str, width: int = 0) -> Callable[[PaperDataSet], list[str]]:
    return lambda data: [f"{prefix}{number:0{width}d}" for number in range(1, 1 + data.n_columns)]


def _listed(data: PaperDataSet) -> list[str]:
    return _column_names(data.name)


def _read_parkinson(_: PaperDataSet, originals: Originals) -> Frame:
    """The first of two header lines names groups of columns."""
    frame = _pandas().read_csv(_only(originals), header=1)
    return frame.rename(columns={"class": "target"})


def _read_kddcup(data: PaperDataSet, originals: Originals) -> Frame:
    frame = _read_comma_separated(_listed)(data, originals)
    frame["target"] = frame["target"].str.removesuffix(".")
    return frame


def _read_superconduct(_: PaperDataSet, originals: Originals) -> Frame:
    frame = _pandas().read_csv(_only(originals))
    return frame.rename(columns={"critical_temp": "target"})


def _read_credit(_: PaperDataSet, originals: Originals) -> Frame:
    frame = _pandas().read_csv(_only(originals)).drop(columns=["ID"])
    return frame.rename(columns={frame.columns[-1]: "target"})


def _read_mfeat(_: PaperDataSet, originals: Originals) -> Frame:
    """Six files of the same rows: as many of each digit, in order."""
    pandas = _pandas()
    views = []
    for name, path in originals.items():
        view = pandas.read_csv(path, header=None, sep=r"\s+")
        prefix = name.removeprefix("mfeat-")
        view.columns = [f"{prefix}_{number:03d}" for number in range(1, 1 + view.shape[1])]
        views.append(view)
    if len({len(view) for view in views}) != 1:
        raise ValueError("the six files have different numbers of rows")
    frame = pandas.concat(views, axis=1)
    target = pandas.Series([10 * row // len(frame) for row in range(len(frame))], name="target")
    return pandas.concat([frame, target], axis=1)


def _read_year(data: PaperDataSet, originals: Originals) -> Frame:
    average, covariance = (size for _, size in data.groups)
    names = [f"timbre_avg_{number:02d}" for number in range(1, 1 + average)]
    names += [f"timbre_cov_{number:02d}" for number in range(1, 1 + covariance)]
    frame = _read_comma_separated(lambda _: names, target_first=True)(data, originals)
    return frame.head(data.n_rows)


_READERS: Mapping[str, Callable[[PaperDataSet, Originals], Frame]] = {
    "ionosphere": _read_comma_separated(_numbered("V"), {"g": "good", "b": "bad"}),
    "spambase": _read_comma_separated(_listed, {1: "spam", 0: "nonspam"}),
    "parkinson": _read_parkinson,
    "kddcup99_10pct": _read_kddcup,
    "waveform": _read_comma_separated(_numbered("x", 2)),
    "superconduct": _read_superconduct,
    "credit_default": _read_credit,
    "letter": _read_comma_separated(_listed, target_first=True),
    "mfeat": _read_mfeat,
    "year_prediction_sample": _read_year,
}


def _shrink(frame: Frame, float_type: str) -> Frame:
    """Store whole numbers in the smallest type, others as asked; the target keeps its precision."""
    pandas, columns = _pandas(), {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind in "iu":
            column = pandas.to_numeric(column, downcast="integer")
        elif column.dtype.kind == "f" and name != "target":
            column = column.astype(float_type)
        columns[name] = column
    return pandas.DataFrame(columns)
