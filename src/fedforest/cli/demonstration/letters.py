"""The demo's data: scikit-learn's handwritten digits, as three sorting offices have them.

Vertically, every office scanned its strip of the same letters: no strip is enough to read a digit.
Each office misses some letters, and none has them in the order of the others, so only ids tell what
belongs together. Horizontally, every office has whole scans of letters of its own.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from numpy.typing import NDArray
from sklearn.datasets import load_digits

OFFICES = ("amsterdam", "brussels", "cologne")  # the first one knows the digits
LABEL, ID = "digit", "letter"
STRIPS, NEW, SCANS = "strips", "new_strips", "scans"  # names of data sets
N_NEW = 200  # letters that come after training
KNOWN_SHARE = 0.9  # of all letters that an office has scanned
_COLUMNS_OF_PIXELS = ((0, 1, 2), (3, 4), (5, 6, 7))
_SIDE = 8


class Letters(NamedTuple):
    """Tables by office and name of data set, and everything in one, which no office has."""

    tables: Mapping[str, Mapping[str, pyarrow.Table]]
    old: NDArray[np.int64]  # letters for training
    pixels: NDArray[np.float32]
    digits: NDArray[np.int64]


def draw_letters(seed: int) -> Letters:
    """Divide the digits among the offices."""
    rng = np.random.default_rng(seed)
    images, digits = load_digits(return_X_y=True)
    pixels, digits = images.astype(np.float32), digits.astype(np.int64)
    shuffled = rng.permutation(len(digits))
    new, old = shuffled[:N_NEW], shuffled[N_NEW:]
    tables: dict[str, dict[str, pyarrow.Table]] = {}
    for number, office in enumerate(OFFICES):
        known = rng.permutation(old)[: round(KNOWN_SHARE * len(old))]
        own = old[number :: len(OFFICES)]
        label = digits if number == 0 else None
        strip = pixels_of(office)
        tables[office] = {
            STRIPS: _table(known, pixels, strip, label),
            NEW: _table(rng.permutation(new), pixels, strip, None),
            SCANS: _table(own, pixels, range(_SIDE * _SIDE), digits),
        }
    return Letters(tables, old, pixels, digits)


def pixels_of(office: str) -> list[int]:
    """Return the pixels in the strip of an office, in the order of its columns."""
    return _pixels_of(_COLUMNS_OF_PIXELS[OFFICES.index(office)])


def rows_of(letters: Letters, office: str) -> NDArray[np.int64]:
    """Return the letters that an office has whole scans of, in the order of its table."""
    return letters.old[OFFICES.index(office) :: len(OFFICES)]


def letter_id(number: int) -> str:
    """Return the text on the back of a letter."""
    return f"L{number:04d}"


def number_of(letter: str) -> int:
    """Return the number of the letter that has this id."""
    return int(letter[1:])


def _pixels_of(columns: tuple[int, ...]) -> list[int]:
    return [_SIDE * row + column for row in range(_SIDE) for column in columns]


def _table(
    letters: NDArray[np.int64],
    pixels: NDArray[np.float32],
    which: Any,
    digits: NDArray[np.int64] | None,
) -> pyarrow.Table:
    columns: dict[str, Any] = {ID: [letter_id(letter) for letter in letters.tolist()]}
    columns |= {f"pixel_{pixel:02d}": pixels[letters, pixel] for pixel in which}
    if digits is not None:
        columns[LABEL] = digits[letters]
    return pyarrow.table(columns)
