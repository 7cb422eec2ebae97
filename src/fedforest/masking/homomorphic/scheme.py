"""Sums of encrypted numbers: EC-ElGamal on ristretto255, additively homomorphic in the exponent.

    encrypt (label party) -> decode, sum_rows, ... rerandomise (any party) -> decrypt (label party)

A ciphertext of a row is r G, and for each plaintext m with its key H: m U + r H, where r is random.
Sums of ciphertexts are ciphertexts of sums; re-randomising one adds a ciphertext of zeros, after
which nothing tells which rows it is a sum of. The owner of the secret key decrypts sums and should
see no others: on what `encrypt` made, and was not re-randomised, `decrypt` fails or is wrong.

Encoding doubles (`kernels/points/encoding.py`): of the plaintext, what one `encrypt` and one
`rerandomise` make is four times m U, so U is a quarter of the base point.

Who learns what: r and the plaintexts are the encryptor's secrets, r also the re-randomiser's. They
appear in `add_multiples` only, which takes the same time and reads the same memory for all. Whoever
has ciphertexts and not the secret key learns nothing from them (decisional Diffie-Hellman).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.kernels.layout import Columns, RowOrder
from fedforest.kernels.points import sums as kernels
from fedforest.kernels.points.curve import ADDEND_LIMBS, POINT_LIMBS
from fedforest.kernels.points.encoding import decode_addends, decode_points, encode_doubles
from fedforest.kernels.points.wide_products import ENTRIES, ENTRY_LIMBS
from fedforest.kernels.points.windows import DIGIT_BITS, add_multiples, fill_tables
from fedforest.masking.homomorphic.group import (
    NEUTRAL,
    ORDER,
    POINT_BYTES,
    encode_scalar,
    multiply_base,
)
from fedforest.masking.homomorphic.keys import EncryptionKey
from fedforest.masking.homomorphic.summands import Packing, Summands
from fedforest.masking.keystream import expand

Encoded: TypeAlias = NDArray[np.uint8]  # (ciphertexts, components, 32), on the wire
Rows: TypeAlias = NDArray[np.uint64]  # (rows * components, 15), what is added
Sums: TypeAlias = NDArray[np.uint64]  # (..., components, 20), what is added to

RANDOM_WINDOWS = 42  # 252 bits: multiples within 2^-126 of uniform ones
PLAINTEXT_WINDOWS = 3  # up to 2^17 in magnitude
_PLAINTEXT_OFFSET = 1 << (PLAINTEXT_WINDOWS * DIGIT_BITS - 1)
_PLAINTEXT_SHIFTS = DIGIT_BITS * np.arange(PLAINTEXT_WINDOWS)
_DIGIT = (1 << DIGIT_BITS) - 1


class Scheme:
    """What anyone can do who has the public key; arrays of many ciphertexts at a time.

    A key for randomness is 32 secret bytes, for one call only: two calls with one key have the same
    r, and what they encrypted differs by can be read.
    """

    def __init__(self, summands: Summands, public: EncryptionKey) -> None:
        if len(public.points) != summands.n_keys:
            raise MaskingError(
                f"{summands.n_keys} plaintexts need as many keys, not {len(public.points)}"
            )
        self.summands = summands
        self._bases = decode_trusted(b"".join((multiply_base(encode_scalar(1)), public.encode())))

    @property
    def n_components(self) -> int:
        return 1 + self.summands.n_keys

    def encrypt(self, numbers: NDArray[np.int64], key: bytes) -> Encoded:
        """Ciphertexts of rows of numbers."""
        plaintexts = self.summands.split(numbers)
        points = (start_component(plaintexts, component) for component in range(self.n_components))
        return randomise(points, self._bases, draw_digits(key, len(plaintexts)))

    def rerandomise(self, sums: Sums, most_rows: int, key: bytes) -> Encoded:
        """Other ciphertexts of the same sums (n, components, 20), packed and fit to be decrypted.

        None of them may be of more than so many rows.
        """
        packing = self.summands.packing(most_rows)
        [bases], packed = pack(self._bases[None], packing), pack(sums, packing)
        return randomise(np.moveaxis(packed, 1, 0), bases, draw_digits(key, len(sums)))

    def decode(self, encoded: Encoded) -> Rows:
        """What a peer encrypted, ready to be added.

        Raises
        ------
        MaskingError
            If any of it encodes no point, or the neutral one, which no encryption gives.
        """
        words = read_words(encoded, self.n_components)
        rows = np.empty((words.size // 4, ADDEND_LIMBS), np.uint64)
        check_decoded(decode_addends(words.reshape(-1, 4), rows), self.n_components)
        return rows

    def sum_rows(
        self,
        rows: Rows,
        columns: Columns,
        order: RowOrder,
        candidates: NDArray[np.integer],
        n_bins: int,
    ) -> Sums:
        """Sums per (open node, candidate, bin); the bin after the last is of missing values."""
        if n_bins < columns.n_bins.max(initial=0):
            raise MaskingError(f"sums need a cell for each of {columns.n_bins.max()} bins")
        if len(rows) != int(columns.n_rows) * self.n_components:
            raise MaskingError("encrypted numbers and columns are not of the same rows")
        cells = np.empty((*candidates.shape, n_bins + 1, self.n_components, POINT_LIMBS), np.uint64)
        kernels.clear(cells.reshape(-1, POINT_LIMBS))
        kernels.add_rows(cells, rows, columns, order, candidates)
        return cells


def accumulate_bins(cells: Sums) -> Sums:
    """Cells (nodes, candidates, bins, ...), each the sum of all bins up to it, but for the last."""
    sums = np.array(cells, order="C")
    kernels.run_sums(sums.reshape(-1, *sums.shape[2:]), sums.shape[2] - 1)
    return sums


def add_sums(sums: Sums, others: Sums) -> Sums:
    """Sums of ciphertexts, one by one."""
    return _combine(kernels.add_points, sums, others)


def subtract_sums(sums: Sums, others: Sums) -> Sums:
    """Differences of ciphertexts, one by one."""
    return _combine(kernels.subtract_points, sums, others)


def _combine(kernel: Callable[..., None], sums: Sums, others: Sums) -> Sums:
    if sums.shape != others.shape:
        raise MaskingError(f"{sums.shape} and {others.shape} are not as many ciphertexts")
    results = np.array(sums, order="C")
    kernel(results.reshape(-1, POINT_LIMBS), np.ascontiguousarray(others).reshape(-1, POINT_LIMBS))
    return results


def pack(sums: Sums, packing: Packing) -> Sums:
    """Ciphertexts with fewer plaintexts, each made of several."""
    n_groups = len(packing.group(sums.shape[1] - 1))
    packed = np.empty((len(sums), 1 + n_groups, POINT_LIMBS), np.uint64)
    kernels.pack_points(np.ascontiguousarray(sums), packing.bits, packing.size, packed)
    return packed


def randomise(
    components: Iterable[NDArray[np.uint64]],
    bases: NDArray[np.uint64],
    digits: NDArray[np.uint8],
) -> Encoded:
    """Add r times its base to each component, the same r for all of a ciphertext, and encode."""
    words = np.empty((len(digits), len(bases), POINT_BYTES // 8), np.uint64)
    for place, (component, base) in enumerate(zip(components, bases, strict=True)):
        points = np.array(component, order="C")
        add_multiples(points, digits, make_tables(base, RANDOM_WINDOWS))
        own = np.empty((len(digits), POINT_BYTES // 8), np.uint64)
        encode_doubles(points, own)
        words[:, place] = own
    return words.astype("<u8", copy=False).view(np.uint8)


def draw_digits(key: bytes, count: int) -> NDArray[np.uint8]:
    """Random digits of as many scalars, from the key's stream."""
    n_bytes = count * RANDOM_WINDOWS
    stream = expand(key, -(-n_bytes // 8)).astype("<u8", copy=False).view(np.uint8)
    return (stream[:n_bytes] & np.uint8(_DIGIT)).reshape(count, RANDOM_WINDOWS)


def make_tables(base: NDArray[np.uint64], n_windows: int) -> NDArray[np.uint64]:
    """Multiples of a point for `add_multiples`: 0.3 ms, less than to keep them for all keys."""
    tables = np.zeros((n_windows, ENTRIES, ENTRY_LIMBS), np.uint64)
    fill_tables(base[None], n_windows, tables)
    return tables


def start_component(plaintexts: NDArray[np.int64], component: int) -> NDArray[np.uint64]:
    """Points of a component without r: the neutral one in the first, m U in the others.

    Windows make odd multiples only: (2 m + 1) U / 2 is added to -U / 2.
    """
    tables, starts = plaintext_tables()
    if component == 0:
        return np.repeat(starts[:1], len(plaintexts), axis=0)
    points = np.repeat(starts[1:], len(plaintexts), axis=0)
    add_multiples(points, plaintext_digits(plaintexts[:, component - 1]), tables)
    return points


@lru_cache(maxsize=1)
def plaintext_tables() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(tables of U / 2, the neutral point and -U / 2)."""
    eighth = pow(8, -1, ORDER)
    points = [NEUTRAL, *(multiply_base(encode_scalar(sign * eighth)) for sign in (-1, 1))]
    decoded = decode_trusted(b"".join(points))
    return make_tables(decoded[2], PLAINTEXT_WINDOWS), decoded[:2]


def plaintext_digits(plaintexts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Digits of m that stand for 2 m + 1 in `add_multiples`."""
    shifted = (plaintexts + _PLAINTEXT_OFFSET)[:, None] >> _PLAINTEXT_SHIFTS
    return (shifted & _DIGIT).astype(np.uint8)


def read_words(encoded: Encoded, n_components: int) -> NDArray[np.uint64]:
    """Ciphertexts from a peer as words (n, components, 4), in the shape that they must have."""
    shape = (n_components, POINT_BYTES)
    if encoded.dtype != np.uint8 or encoded.ndim != 3 or encoded.shape[1:] != shape:
        raise MaskingError.stating(
            "ciphertexts must be arrays of {n_bytes} bytes each; no honest party sends others",
            n_bytes=n_components * POINT_BYTES,
        )
    words = np.ascontiguousarray(encoded).view("<u8").astype(np.uint64, copy=False)
    if not words.any(axis=2).all():
        raise MaskingError.stating(
            "a ciphertext was spoiled: a component of it is the neutral point, so nothing is hidden"
        )
    return words


def check_decoded(first_wrong: int, n_components: int) -> None:
    """Raise if a kernel found that a point, counted over all components, is none."""
    if first_wrong >= 0:
        raise MaskingError.stating(
            "ciphertext {number} was spoiled: a component of it encodes no point",
            number=first_wrong // n_components,
        )


def decode_trusted(encoded: bytes) -> NDArray[np.uint64]:
    """Points (n, 20) that libsodium made or accepted."""
    words = np.frombuffer(encoded, "<u8").astype(np.uint64).reshape(-1, POINT_BYTES // 8)
    points = np.empty((len(words), POINT_LIMBS), np.uint64)
    check_decoded(decode_points(words, points), 1)
    return points
