"""The tables on which speed at default settings is measured: real ones, and two that are made.

Real tables come from the folder of `tasks.read_real`; one that is not there is skipped with its
reason. Two kinds of table that organisations have are in none of them: mostly text, and one-hot
columns with several classes. Those are made from a seed in the shape of known ones, and say so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks.tasks import SEED, Split, as_codes, read_real

QUICK_ROWS = 400
QUICK_COLUMNS = 12


@dataclass(frozen=True)
class SpeedTable:
    """A table, and how often everybody trains on it at most."""

    name: str
    read: Callable[[], Split | str]
    is_regression: bool = False
    is_made: bool = False
    repeats: int = 3

    def load(self, *, quick: bool) -> Split | str:
        """The table divided, or the reason why there is none; shrunk in a quick run."""
        split = self.read()
        if isinstance(split, str) or not quick:
            return split
        few = slice(0, QUICK_ROWS)
        X_train, X_test = (
            X.iloc[few, :QUICK_COLUMNS].reset_index(drop=True)
            for X in (split.X_train, split.X_test)
        )
        return Split(X_train, X_test, split.y_train[few], split.y_test[few])


def _read(file: str) -> Callable[[], Split | str]:
    def read() -> Split | str:
        split = read_real(file)
        if isinstance(split, str):
            return split
        X_train, X_test = (X.drop(columns="id", errors="ignore") for X in split[:2])
        return Split(X_train, X_test, split.y_train, split.y_test)

    return read


def _draw_skewed(rng: np.random.Generator, n_values: int, n_rows: int) -> np.ndarray[Any, Any]:
    """Category numbers of which the first are the most frequent, as professions are."""
    weights = 1.0 / np.arange(1, n_values + 1)
    return rng.choice(n_values, n_rows, p=weights / weights.sum())


def make_census() -> Split:
    """48,842 people in the shape of the Adult census: eight of fourteen columns are text."""
    rng = np.random.default_rng(SEED)
    n_rows = 48_842
    counts = {
        "workclass": 9,
        "education": 16,
        "marital": 7,
        "occupation": 15,
        "relationship": 6,
        "race": 5,
        "sex": 2,
        "country": 42,
    }
    codes = {name: _draw_skewed(rng, n, n_rows) for name, n in counts.items()}
    is_owner = rng.random(n_rows)
    numbers = {
        "age": rng.integers(17, 91, n_rows),
        "weight": rng.lognormal(12.0, 0.5, n_rows).round(),
        "schooling": np.clip(codes["education"] + rng.integers(-1, 2, n_rows), 1, 16),
        "gain": np.where(is_owner < 0.08, rng.lognormal(8.5, 1.2, n_rows).round(), 0.0),
        "loss": np.where(is_owner > 0.95, rng.normal(1870, 370, n_rows).round(), 0.0),
        "hours": np.clip(rng.normal(40, 12, n_rows).round(), 1, 99),
    }
    worth = {name: rng.normal(0.0, 0.8, n)[codes[name]] for name, n in counts.items()}
    score = sum(worth.values()) + 0.03 * (numbers["age"] - 45) + 0.02 * (numbers["hours"] - 40)
    score = score + 2.0 * (numbers["gain"] > 5000) + rng.logistic(0.0, 1.2, n_rows)
    texts = {name: np.char.add(f"{name} ", code.astype(str)) for name, code in codes.items()}
    frame = pd.DataFrame(numbers | texts).astype(dict.fromkeys(numbers, np.float32))
    y = np.where(score > np.quantile(score, 0.76), "over", "under")
    return Split(*train_test_split(frame, y, test_size=0.2, random_state=SEED))


def make_forest_cover() -> Split:
    """10,000 places in the shape of forest cover types: 44 of 54 columns one-hot, seven classes."""
    rng = np.random.default_rng(SEED)
    n_rows = 10_000
    area, soil = _draw_skewed(rng, 4, n_rows), _draw_skewed(rng, 40, n_rows)
    numbers = rng.normal(0.0, 1.0, (n_rows, 10))
    numbers[:, 0] += rng.normal(0.0, 1.0, 40)[soil]
    scores = numbers @ rng.normal(0.0, 1.0, (10, 7)) + rng.normal(0.0, 1.0, (40, 7))[soil]
    scores += rng.normal(0.0, 1.0, (4, 7))[area] + rng.gumbel(0.0, 1.5, (n_rows, 7))
    X = np.hstack([(100 * numbers).round(), np.eye(4)[area], np.eye(40)[soil]]).astype(np.float32)
    frame = pd.DataFrame(X, columns=[f"column_{number}" for number in range(X.shape[1])])
    return Split(*train_test_split(frame, scores.argmax(axis=1), test_size=0.2, random_state=SEED))


TABLES = (
    SpeedTable("ionosphere", _read("ionosphere"), repeats=5),
    SpeedTable("tissue_gene_expression", _read("tissue_gene_expression"), repeats=5),
    SpeedTable("parkinson", _read("parkinson")),
    SpeedTable("mfeat", _read("mfeat")),
    SpeedTable("spambase", _read("spambase")),
    SpeedTable("waveform", _read("waveform")),
    SpeedTable("letter", _read("letter")),
    SpeedTable("credit_default", _read("credit_default")),
    SpeedTable("kddcup99_10pct", _read("kddcup99_10pct"), repeats=1),
    SpeedTable("year_prediction_sample", _read("year_prediction_sample"), is_regression=True),
    SpeedTable("superconduct", _read("superconduct"), is_regression=True, repeats=1),
    SpeedTable("census (made)", make_census, is_made=True),
    SpeedTable("forest cover (made)", make_forest_cover, is_made=True),
)


def has_text(split: Split) -> bool:
    """Whether some columns are categories by their type."""
    return any(split.X_train[name].dtype.kind not in "biuf" for name in split.X_train.columns)


def as_numbers(split: Split) -> Split:
    """The same rows as one float32 array each, text as codes."""
    return as_codes(split)
