"""Tables of any length for live federations, made piece by piece and written as Parquet.

A table depends on its seed alone, so that parties with different columns of the same rows can write
at different times. No piece is larger than a million rows.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from benchmarks.live_federation import LABEL

PIECE_ROWS = 1_000_000
NOISE = 1.0  # beside the sum of the informative columns
N_INFORMATIVE = 3  # columns of each block

Write = Callable[[Path], None]


def write_columns(n_rows: int, blocks: tuple[int, ...], number: int) -> Write:
    """Return how party `number` writes its block of columns; the first party has the label."""

    def write(path: Path) -> None:
        _write(path, (_columns(piece, blocks, number) for piece in _pieces(0, n_rows)))

    return write


def write_rows(first: int, n_rows: int, n_columns: int) -> Write:
    """Return how a party writes its rows of a table, with all columns and the label."""

    def write(path: Path) -> None:
        _write(path, (_columns(piece, (n_columns,), 0) for piece in _pieces(first, n_rows)))

    return write


def _pieces(first: int, n_rows: int) -> Iterator[tuple[int, int]]:
    """List (seed, rows) of each piece."""
    for start in range(0, n_rows, PIECE_ROWS):
        yield first + start, min(PIECE_ROWS, n_rows - start)


def _columns(
    piece: tuple[int, int], blocks: tuple[int, ...], number: int
) -> dict[str, NDArray[np.generic]]:
    seed, n_rows = piece
    own = _block(seed, n_rows, number, blocks[number])
    names = [f"column_{sum(blocks[:number]) + place}" for place in range(blocks[number])]
    table: dict[str, NDArray[np.generic]] = dict(zip(names, own, strict=True))
    if number == 0:
        score = np.random.default_rng([seed, len(blocks)]).standard_normal(n_rows, np.float32)
        score *= NOISE
        for other, n_columns in enumerate(blocks):
            known = own if other == 0 else _block(seed, n_rows, other, n_columns, N_INFORMATIVE)
            score += known[:N_INFORMATIVE].sum(axis=0)
        table[LABEL] = (score > 0).astype(np.int8)
    return table


def _block(
    seed: int, n_rows: int, number: int, n_columns: int, n_first: int | None = None
) -> NDArray[np.float32]:
    """Return the columns of a block, or the first of them."""
    n_made = n_columns if n_first is None else min(n_first, n_columns)
    made = [
        np.random.default_rng([seed, number, column]).standard_normal(n_rows, np.float32)
        for column in range(n_made)
    ]
    return np.stack(made)


def _write(path: Path, pieces: Iterator[dict[str, NDArray[np.generic]]]) -> None:
    writer = None
    for piece in pieces:
        table = pyarrow.table(piece)
        if writer is None:
            # numbers drawn at random do not shrink
            writer = pyarrow.parquet.ParquetWriter(
                path, table.schema, compression="none", use_dictionary=False
            )
        writer.write_table(table)
    assert writer is not None, "a table has rows"
    writer.close()
