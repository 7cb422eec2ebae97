"""Trains one party in a process of its own, on a table of three times its memory limit.

Prints the peak of memory above that of the same process after it trained on a small table: the
interpreter, the libraries and compiled kernels are not the table's.
"""

import re
import sys
from pathlib import Path

import msgspec
import numpy as np
import pyarrow
import pyarrow.parquet

LIMIT = 48 * 10**6
READING = 40 * 10**6  # what Arrow keeps for reading Parquet, whatever the limit
N_COLUMNS = 12
N_LARGE = 3 * LIMIT // (8 * N_COLUMNS)
GROUP = 1 << 15


def peak() -> int:
    """The most memory so far; `getrusage` would count what the parent of the process had."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s*([0-9]+) kB", status)
    assert found is not None
    return 1024 * int(found[1])


def write(folder: Path, n_rows: int) -> None:
    """Write a table group by group: the writer's memory would count as well."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    names = [f"x{column}" for column in range(N_COLUMNS)]
    fields = [(name, pyarrow.float64()) for name in names]
    schema = pyarrow.schema([*fields, ("label", pyarrow.int8())])
    with pyarrow.parquet.ParquetWriter(folder / "bank.parquet", schema) as writer:
        for first in range(0, n_rows, GROUP):
            columns = list(rng.standard_normal((N_COLUMNS, min(n_rows - first, GROUP))))
            label = (columns[0] > 0).astype(np.int8)
            writer.write_table(pyarrow.table([*columns, label], schema=schema))


def main(folder: Path) -> None:
    from tests.runtime.party import test_larger_tables as larger  # noqa: PLC0415 - asks for this

    parts = {"data": {"bank": "bank"}, "batch_bytes": LIMIT // 4}
    order = msgspec.structs.replace(larger.VERTICAL, **parts)
    write(folder / "small", 2 * GROUP)
    write(folder / "large", N_LARGE)
    larger.train(folder / "small", order, 1_000)
    before = peak()
    within = larger.files_of(larger.train(folder / "large", order, LIMIT), order)
    above = peak() - before
    is_equal = within == larger.files_of(larger.train(folder / "large", order, None), order)
    sys.stdout.write(f"{above} {peak() - before} {is_equal}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
