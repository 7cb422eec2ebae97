"""Nanoseconds per row of moving rows to both children, by node size.

Entries of 32 bits are moved eight at once where the processor permutes vectors; those of 64 bits,
which tables of many rows need, one by one. Run it on the processor in question.
"""

import time

import numpy as np

from fedforest.kernels.bits.ranges import SPARE_BYTES
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, move_rows
from fedforest.kernels.layout import RowOrder

N_ROWS = 400_000
NODE_SIZES = (2, 4, 8, 16, 32, 64, 256, 1_024, 16_384)
REPEATS = 15


def measure(size: int, dtype: type[np.unsignedinteger]) -> float:
    """Best time per row, with half of every node's rows on either side at random."""
    rng = np.random.default_rng(size)
    starts = np.arange(0, N_ROWS - size + 1, size)
    n_nodes, n_bytes = len(starts), (size + 7) >> 3
    goes_left = rng.random((n_nodes, size)) < 0.5
    packed = np.packbits(goes_left, axis=1, bitorder="little").reshape(-1)
    bits = np.concatenate([packed, np.zeros(SPARE_BYTES, np.uint8)])
    source = np.arange(N_ROWS).astype(dtype)
    order = RowOrder(source, np.uint64(19), starts, starts + size)
    fate = np.full(n_nodes, OPEN_LEFT | OPEN_RIGHT, np.uint8)
    arguments = (fate, np.arange(n_nodes) * n_bytes, bits, goes_left.sum(1), starts, 0, n_nodes)
    target = np.empty_like(source)
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        move_rows(order, target, *arguments)
        seconds.append(time.perf_counter() - began)
    return min(seconds) / (n_nodes * size)


def main() -> None:
    """Print a table."""
    print(f"{'rows of a node':>15} {'32 bits, ns':>12} {'64 bits, ns':>12}")
    for size in NODE_SIZES:
        narrow, wide = measure(size, np.uint32), measure(size, np.uint64)
        print(f"{size:15,} {1e9 * narrow:12.2f} {1e9 * wide:12.2f}")


if __name__ == "__main__":
    main()
