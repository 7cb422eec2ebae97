"""What noise costs per draw: `python benchmarks/micro/noise.py`.

The least of many tries counts, because other work on the machine only ever adds to a time. Kernels
are compiled before the first try.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

import numpy as np
from rich.console import Console
from rich.table import Table

from fedforest.kernels.jit import kernel
from fedforest.kernels.noise.binomial import draw_many, toss_few
from fedforest.kernels.noise.chacha import open_stream
from fedforest.kernels.noise.decoding import decode_sums
from fedforest.privacy.decoding import make_decoder
from fedforest.privacy.global_dp import add_noise
from fedforest.privacy.local_dp import LocalDP, permanent_responses, respond_instantly

KEY = bytes(range(32))
N_DRAWS = 200_000
N_TRIES = 7


@kernel
def toss_all(stream: Any, n: int, p: float, n_draws: int) -> int:
    """Many draws coin by coin."""
    total = 0
    for _ in range(n_draws):
        total += toss_few(stream, n, p)
    return total


@kernel
def invert_all(stream: Any, n: int, p: float, n_draws: int) -> int:
    """The same draws by inversion or rejection."""
    total = 0
    for _ in range(n_draws):
        total += draw_many(stream, n, p)
    return total


def answers(n: int) -> Callable[[], object]:
    """Rows with and without the bit, half of each, answer two bits anew."""
    exact = np.tile(np.array([n // 2, n // 2, n], np.int64), (N_DRAWS // 2, 1))
    code = LocalDP(keep=0.9).resolve(2)
    return lambda: respond_instantly(code, exact.copy(), KEY)


def decoding(n_classes: int, hashes: int = 1) -> Callable[[], object]:
    code = LocalDP(keep=0.9, hashes=hashes).resolve(n_classes)
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 500, (N_DRAWS // 10, 1))
    sums = np.hstack([rng.binomial(sizes, 0.3, (len(sizes), code.bits)), sizes])
    fixed, decoder = np.empty((len(sums), n_classes + 1), np.int64), make_decoder(code)
    return lambda: decode_sums(sums, decoder, 1024, fixed, 0, len(sums))


def works() -> list[tuple[str, int, Callable[[], object]]]:
    """What is timed, and how many draws it makes."""
    plain = np.zeros(N_DRAWS, np.int64)
    ids = np.arange(N_DRAWS, dtype=np.uint64)
    labels = (ids % np.uint64(3)).astype(np.uint16)
    few, many = LocalDP(keep=0.9).resolve(3), LocalDP(keep=0.9, bits=64).resolve(3)
    lines: list[tuple[str, int, Callable[[], object]]] = [
        ("discrete Laplace, scale 20", N_DRAWS, lambda: add_noise(plain, 0.1, 2, KEY)),
        ("discrete Laplace, scale 2^33", N_DRAWS, lambda: add_noise(plain, 0.1, 2**30, KEY)),
        ("permanent response, 3 bits", N_DRAWS, lambda: permanent_responses(few, labels, ids, KEY)),
        (
            "permanent response, 64 bits",
            N_DRAWS,
            lambda: permanent_responses(many, labels, ids, KEY),
        ),
    ]
    for n in (1, 5, 20, 64):
        for name, method in (("coins", toss_all), ("inversion", invert_all)):
            label = f"binomial by {name}, {n} × 0.1"
            lines.append((label, N_DRAWS, _bound(method, n)))
    lines += [
        (f"answers of {n:,} rows", N_DRAWS, answers(n))
        for n in (2, 10, 30, 100, 500, 600, 10_000, 10**6)
    ]
    lines += [
        (f"decoding {n_classes} classes", N_DRAWS // 10, decoding(n_classes))
        for n_classes in (2, 10, 26)
    ]
    lines.append(("decoding 10 classes, 3 hashes", N_DRAWS // 10, decoding(10, hashes=3)))
    return lines


def _bound(method: Callable[..., object], n: int) -> Callable[[], object]:
    return lambda: method(open_stream(KEY), n, 0.1, N_DRAWS)


def main() -> None:
    """Time everything in turn and print a table."""
    lines = works()
    best = [float("inf")] * len(lines)
    for _ in range(N_TRIES):
        for i, (_, n_draws, work) in enumerate(lines):
            start = time.process_time_ns()
            work()
            best[i] = min(best[i], (time.process_time_ns() - start) / n_draws)
    table = Table("work", "ns per draw")
    for (name, _, _), nanoseconds in zip(lines, best, strict=True):
        table.add_row(name, f"{nanoseconds:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
