"""Times encrypted sums on one core: single operations, and the work of one tree.

    python benchmarks/micro/homomorphic.py [--rivals PYTHON] [--write FILE]

Figures are of processor time, as is right on a machine that others use, too. A tree is grown on
5,000 rows and 40 columns in 32 bins, six levels, seven candidate columns per node: its party sums
and re-randomises, the label party decrypts. `--rivals` names an interpreter with gmpy2 or sf-heu,
for `comparisons/homomorphic_rivals.py`; what their operations would take for the same tree is
worked out from their rates. `results/homomorphic.json` keeps what was measured last.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

import numpy as np
from numba import njit

from benchmarks.measure import ROOT
from fedforest.experiments.environment import describe_environment
from fedforest.kernels.layout import Columns, RowOrder
from fedforest.kernels.points.curve import (
    POINT_LIMBS,
    add_addend,
    load_addend,
    load_point,
    store_point,
)
from fedforest.kernels.points.wide_products import ENTRIES
from fedforest.kernels.points.windows import add_multiples
from fedforest.masking.homomorphic.decryption import Decryptor
from fedforest.masking.homomorphic.group import multiply, multiply_base
from fedforest.masking.homomorphic.keys import DecryptionKey
from fedforest.masking.homomorphic.scheme import (
    RANDOM_WINDOWS,
    Rows,
    Scheme,
    Sums,
    accumulate_bins,
    decode_trusted,
    draw_digits,
    make_tables,
)
from fedforest.masking.homomorphic.summands import Summands

SEED, REPEATS = 0, 7
N_ROWS, N_BINS, N_LEVELS, N_CANDIDATES = 5_000, 32, 6, 7
SECRET, KEY = bytes(range(32)), b"k" * 32
N_SUMS = (2**N_LEVELS - 1) * N_CANDIDATES * (N_BINS - 1)
N_ADDED = N_ROWS * N_CANDIDATES * N_LEVELS
KINDS = {
    "2 classes": Summands(1, 0, 1, N_ROWS),
    "10 classes": Summands(9, 0, 1, N_ROWS),
    "numbers of 27 bits": Summands(1, -(2**26), 2**26 - 1, N_ROWS),  # sums of 40
    "numbers of 40 bits": Summands(1, -(2**39), 2**39 - 1, N_ROWS),
}


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least processor time of several runs, after one that may compile."""
    work()
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


@njit(nogil=True)
def add_indexed(points, digits, tables):  # type: ignore[no-untyped-def] # numba's to infer
    """What `add_multiples` would be were digits no secret: entries read by their index."""
    for window in range(tables.shape[0]):
        for i in range(np.uint64(points.shape[0])):
            addend = load_addend(tables[window], np.uint64(digits[i, window] % ENTRIES))
            total = add_addend(load_point(points, i), addend)
            store_point(points, i, total)


def measure_windows() -> dict[str, float]:
    """Microseconds for one multiple of a fixed base, three ways."""
    n = 2000
    digits, base = draw_digits(KEY, n), decode_trusted(multiply_base(SECRET))
    tables = make_tables(base[0], RANDOM_WINDOWS)
    points = np.repeat(base, n, axis=0)
    encoded = multiply_base(SECRET)
    return {
        "all entries read, masked": seconds(lambda: add_multiples(points, digits, tables))
        / n
        * 1e6,
        "entries read by index": seconds(lambda: add_indexed(points, digits, tables)) / n * 1e6,
        "libsodium, base point": seconds(lambda: [multiply_base(SECRET) for _ in range(500)])
        / 500
        * 1e6,
        "libsodium, public key": seconds(lambda: [multiply(SECRET, encoded) for _ in range(500)])
        / 500
        * 1e6,
    }


def make_level(level: int) -> tuple[Columns, RowOrder, np.ndarray]:
    """Columns, rows and candidates of a level all of whose nodes have as many rows."""
    rng = np.random.default_rng(SEED)
    bins = rng.integers(0, N_BINS, (40, N_ROWS)).astype(np.uint8)
    columns = Columns(
        bins.reshape(-1),
        np.uint64(N_ROWS),
        np.full(40, N_BINS, np.int16),
        np.zeros(40, np.bool_),
        np.zeros((0, 0), np.uint8),
    )
    ends = np.linspace(0, N_ROWS, 2**level + 1).astype(np.int64)
    rows = [np.sort(part) for part in np.split(rng.permutation(N_ROWS), ends[1:-1])]
    entries = (1 << 13 | np.concatenate(rows)).astype(np.uint32)
    order = RowOrder(entries, np.uint64(13), ends[:-1], ends[1:])
    candidates = np.array([rng.choice(40, N_CANDIDATES, replace=False) for _ in rows], np.int32)
    return columns, order, candidates


def sum_cuts(
    scheme: Scheme, rows: Rows, columns: Columns, order: RowOrder, candidates: np.ndarray
) -> Sums:
    """What is left of every cut of a level's nodes."""
    cells = accumulate_bins(scheme.sum_rows(rows, columns, order, candidates, N_BINS))
    return cells[:, :, : N_BINS - 1].reshape(-1, scheme.n_components, POINT_LIMBS)


def measure_tree(summands: Summands) -> dict[str, float]:
    """Seconds per tree, and per forest for encryption and decoding."""
    secret = DecryptionKey(SECRET, summands.n_keys)
    scheme, decryptor = Scheme(summands, secret.public), Decryptor(summands, secret)
    rng = np.random.default_rng(SEED)
    shape = (N_ROWS, summands.n_numbers)
    numbers = rng.integers(summands.lowest, summands.highest + 1, shape)
    encoded = scheme.encrypt(numbers, KEY)
    rows = scheme.decode(encoded)
    spent = {
        "encrypt, per forest": seconds(lambda: scheme.encrypt(numbers, KEY)),
        "decode, per forest": seconds(lambda: scheme.decode(encoded)),
        "sum": 0.0,
        "rerandomise": 0.0,
        "decrypt": 0.0,
    }
    for level in range(N_LEVELS):
        columns, order, candidates = make_level(level)
        add = partial(sum_cuts, scheme, rows, columns, order, candidates)
        n_rows = np.repeat(order.stop - order.start, N_CANDIDATES * (N_BINS - 1))
        rerandomise = partial(scheme.rerandomise, add(), int(n_rows.max()), KEY)
        decrypt = partial(decryptor.decrypt, rerandomise(), n_rows, int(n_rows.max()))
        spent["sum"] += seconds(add, 3)
        spent["rerandomise"] += seconds(rerandomise, 3)
        spent["decrypt"] += seconds(decrypt, 1)
    spent["per tree"] = spent["sum"] + spent["rerandomise"] + spent["decrypt"]
    return {"components": scheme.n_components, **spent}


def measure_rates(tree: dict[str, float]) -> dict[str, float]:
    """Operations per second for two classes: a ciphertext is two points."""
    summands = KINDS["2 classes"]
    scheme = Scheme(summands, DecryptionKey(SECRET, 1).public)
    rows = scheme.decode(scheme.encrypt(np.ones((N_ROWS, 1), np.int64), KEY))
    columns, order, candidates = make_level(0)
    cells = scheme.sum_rows(rows, columns, order, candidates, N_BINS)
    n_added = N_ROWS * N_CANDIDATES

    def add() -> None:
        scheme.sum_rows(rows, columns, order, candidates, N_BINS)

    sums = np.ascontiguousarray(np.resize(cells, (N_ROWS, 2, POINT_LIMBS)))
    return {
        "additions": n_added / seconds(add),
        "encryptions": N_ROWS / tree["encrypt, per forest"],
        "rerandomisations": N_ROWS / seconds(lambda: scheme.rerandomise(sums, N_ROWS, KEY)),
        "decodings": N_ROWS / tree["decode, per forest"],
        "decryptions": N_SUMS / tree["decrypt"],
    }


def estimate_trees(rival: dict[str, float]) -> dict[str, float]:
    """Seconds for the tree's sums: one ciphertext a sum, and where it can be, many packed."""
    base = N_ADDED / rival["additions"] + N_SUMS / rival["encryptions"]
    estimates = {"a sum each": base + N_SUMS / rival["decryptions"]}
    if "shifts" in rival:
        packed = N_SUMS / rival["slots"]
        estimates["packed"] = (
            N_ADDED / rival["additions"]
            + N_SUMS / rival["shifts"]
            + packed / rival["encryptions"]
            + packed / rival["decryptions"]
        )
    return estimates


def main() -> None:
    parser = argparse.ArgumentParser(description="Time encrypted sums on one core (two minutes).")
    parser.add_argument("--rivals", type=Path, metavar="PYTHON", help="with gmpy2 or sf-heu")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the figures here")
    chosen = parser.parse_args()
    result: dict[str, Any] = {"environment": describe_environment(), "settings": {"seed": SEED}}
    result["microseconds per multiple"] = measure_windows()
    result["seconds of one tree"] = {kind: measure_tree(KINDS[kind]) for kind in KINDS}
    result["per second"] = measure_rates(result["seconds of one tree"]["2 classes"])
    if chosen.rivals:
        script = ROOT / "benchmarks" / "comparisons" / "homomorphic_rivals.py"
        outcome = subprocess.run(
            [str(chosen.rivals), str(script)], capture_output=True, text=True, check=True
        )
        rivals = json.loads(outcome.stdout.splitlines()[-1])
        for name, rival in rivals.items():
            kind = "2 classes" if "ElGamal" in name else "numbers of 27 bits"
            rival[f"seconds of one tree, {kind}"] = estimate_trees(rival)
        result["rivals, per second"] = rivals
    text = json.dumps(round_all(result), indent=1) + "\n"
    print(text)
    if chosen.write:
        chosen.write.write_text(text)


def round_all(value: Any) -> Any:
    """Four digits are as many as such figures have."""
    if isinstance(value, dict):
        return {name: round_all(item) for name, item in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
