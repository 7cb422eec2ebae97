"""Encryption as the textbook has it, sums of ciphertexts, and what re-randomising hides."""

from itertools import combinations

import numpy as np
import pytest
import rbcl
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.errors import MaskingError
from fedforest.kernels.layout import MISSING_BIN, Columns, RowOrder
from fedforest.masking.homomorphic.decryption import Decryptor
from fedforest.masking.homomorphic.keys import DecryptionKey
from fedforest.masking.homomorphic.scheme import (
    RANDOM_WINDOWS,
    Encoded,
    Scheme,
    Sums,
    accumulate_bins,
    add_sums,
    draw_digits,
    subtract_sums,
)
from fedforest.masking.homomorphic.summands import Summands
from tests.reference.ristretto import BAD_ENCODINGS, NEUTRAL, ORDER, element, encode_twice

SECRET, KEY, OTHER_KEY = bytes(range(32)), b"k" * 32, b"o" * 32
MARKS = Summands(n_numbers=2, lowest=0, highest=1, most_rows=50)
CLASSES = Summands(n_numbers=7, lowest=0, highest=1, most_rows=50)  # packed by four, or more
NUMBERS = Summands(n_numbers=1, lowest=-(2**39), highest=2**39 - 1, most_rows=50)
LAYOUTS = st.sampled_from([MARKS, CLASSES, NUMBERS])


def make_scheme(summands: Summands) -> Scheme:
    return Scheme(summands, DecryptionKey(SECRET, summands.n_keys).public)


def make_decryptor(summands: Summands) -> Decryptor:
    return Decryptor(summands, DecryptionKey(SECRET, summands.n_keys))


def draw_numbers(summands: Summands, n_rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = (n_rows, summands.n_numbers)
    return rng.integers(summands.lowest, summands.highest + 1, shape)


def make_columns(bins: np.ndarray, n_bins: int) -> Columns:
    n_columns, n_rows = bins.shape
    return Columns(
        bins.astype(np.uint8).reshape(-1),
        np.uint64(n_rows),
        np.full(n_columns, n_bins, np.int16),
        np.zeros(n_columns, np.bool_),
        np.zeros((0, 0), np.uint8),
    )


def one_node(times: np.ndarray) -> RowOrder:
    entries = (times.astype(np.uint32) << np.uint32(20)) | np.arange(len(times), dtype=np.uint32)
    return RowOrder(entries, np.uint64(20), np.array([0]), np.array([len(times)]))


def known_scalar(digits: np.ndarray) -> int:
    return sum((2 * int(digit) - 63) * 64**k for k, digit in enumerate(digits))


def sum_all(scheme: Scheme, encoded: Encoded) -> Sums:
    """One ciphertext: the sum of all rows."""
    columns = make_columns(np.zeros((1, len(encoded))), 1)
    order = one_node(np.ones(len(encoded), int))
    cells = scheme.sum_rows(scheme.decode(encoded), columns, order, np.zeros((1, 1), np.int32), 1)
    return cells[0, 0, :1]


@settings(max_examples=20)
@given(LAYOUTS, st.integers(0, 2**32 - 1))
def test_a_ciphertext_is_elgamals_by_libsodium(summands: Summands, seed: int) -> None:
    """2 r G, and 2 r H + m / 2 G for each digit m: encoding doubles, and U is a quarter of G."""
    public = DecryptionKey(SECRET, summands.n_keys).public
    numbers = draw_numbers(summands, 2, seed)
    encoded = Scheme(summands, public).encrypt(numbers, KEY)
    scalars = [known_scalar(digits) for digits in draw_digits(KEY, 2)]
    for row, (r, plaintexts) in enumerate(zip(scalars, summands.split(numbers), strict=True)):
        twice_r = (2 * r % ORDER).to_bytes(32, "little")
        assert encoded[row, 0].tobytes() == element(2 * r)
        for component, (key, m) in enumerate(zip(public.points, plaintexts, strict=True)):
            mask = rbcl.crypto_scalarmult_ristretto255(twice_r, key)
            plaintext = element(int(m) * pow(2, -1, ORDER))
            expected = rbcl.crypto_core_ristretto255_add(mask, plaintext)
            assert encoded[row, 1 + component].tobytes() == expected


@settings(max_examples=15)
@given(LAYOUTS, st.integers(1, 25), st.integers(0, 2**32 - 1))
def test_sums_of_rows_per_bin_decrypt_to_the_sums_of_their_numbers(
    summands: Summands, n_rows: int, seed: int
) -> None:
    scheme, rng = make_scheme(summands), np.random.default_rng(seed)
    numbers, n_bins = draw_numbers(summands, n_rows, seed), 3
    bins = rng.choice([0, 1, 2, MISSING_BIN], (2, n_rows))
    times = rng.integers(0, 3, n_rows)
    most_rows = int(rng.choice([50, 2 * n_rows]))
    rows = scheme.decode(scheme.encrypt(numbers, KEY))
    candidates = np.array([[1, 0]], np.int32)
    cells = scheme.sum_rows(rows, make_columns(bins, n_bins), one_node(times), candidates, n_bins)
    encoded = scheme.rerandomise(cells.reshape(-1, *cells.shape[3:]), most_rows, OTHER_KEY)
    n_drawn = np.full(len(encoded), times.sum())
    decrypted = make_decryptor(summands).decrypt(encoded, n_drawn, most_rows)
    expected = [
        (numbers * times[:, None])[bins[column] == code].sum(axis=0)
        for column in (1, 0)
        for code in (0, 1, 2, MISSING_BIN)
    ]
    assert decrypted.tolist() == np.array(expected).tolist()


@settings(max_examples=15)
@given(LAYOUTS, st.integers(0, 2**32 - 1))
def test_running_sums_sums_and_differences_decrypt_to_those_of_the_numbers(
    summands: Summands, seed: int
) -> None:
    scheme = make_scheme(summands)
    numbers = draw_numbers(summands, 4, seed)  # a row per bin, and one whose value is missing
    columns = make_columns(np.array([[0, 1, 2, MISSING_BIN]]), 3)
    rows = scheme.decode(scheme.encrypt(numbers, KEY))
    candidates = np.zeros((1, 1), np.int32)
    cells = scheme.sum_rows(rows, columns, one_node(np.ones(4, int)), candidates, 3)
    [[sums]] = accumulate_bins(cells)
    right = subtract_sums(sums[[2] * 3], sums[:3])
    with_missing = add_sums(sums[2::-1], sums[[3] * 3])  # a view that is not contiguous
    together = np.concatenate([sums, right, with_missing])
    encoded = scheme.rerandomise(together, 4, OTHER_KEY)
    decrypted = make_decryptor(summands).decrypt(encoded, np.full(len(encoded), 4), 4)
    left = numbers[:3].cumsum(axis=0)
    expected = [*left, numbers[3], *(left[2] - left), *(left + numbers[3])[::-1]]
    assert decrypted.tolist() == np.array(expected).tolist()


def test_ciphertexts_of_equal_numbers_share_no_component() -> None:
    encoded = make_scheme(MARKS).encrypt(np.ones((40, 2), np.int64), KEY)
    components = {component.tobytes() for row in encoded for component in row}
    assert len(components) == 40 * 3


def test_ciphertexts_depend_on_nothing_but_numbers_keys_and_the_key_for_randomness() -> None:
    numbers = draw_numbers(MARKS, 5, 0)
    encoded = make_scheme(MARKS).encrypt(numbers, KEY)
    np.testing.assert_array_equal(encoded, make_scheme(MARKS).encrypt(numbers, KEY))
    other = make_scheme(MARKS).encrypt(numbers, OTHER_KEY)
    assert not (encoded == other).all(axis=2).any()


def test_bits_of_ciphertexts_are_those_of_random_points_whatever_is_encrypted() -> None:
    """Bits 1 to 253 of a random encoding are each one in half of all cases; 4,000 encodings are
    off by 0.045 or more in one of 506 with a probability of about 1 in 100,000; the key is fixed.
    """
    scheme = make_scheme(Summands(1, 0, 1, 50))
    for mark in (0, 1):
        encoded = scheme.encrypt(np.full((2000, 1), mark, np.int64), bytes([mark]) * 32)
        bits = np.unpackbits(encoded.reshape(-1, 32), axis=1, bitorder="little")[:, 1:254]
        assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.045


def test_random_digits_take_every_value_and_are_nowhere_repeated() -> None:
    digits = draw_digits(KEY, 500)
    assert digits.shape == (500, RANDOM_WINDOWS)
    assert set(digits.flat) == set(range(64))
    assert len({row.tobytes() for row in digits}) == 500


def test_who_encrypted_the_rows_can_link_a_sum_to_them_only_until_it_is_rerandomised() -> None:
    """A sum's first component is that of the sum of all r, which the label party knows."""
    scheme = make_scheme(MARKS)
    encoded = scheme.encrypt(draw_numbers(MARKS, 6, 1), KEY)
    scalars = [known_scalar(digits) for digits in draw_digits(KEY, 6)]
    # the rows were encoded, which doubles, and so is the sum
    guesses = {
        element(4 * sum(scalars[row] for row in rows)): rows
        for size in range(1, 7)
        for rows in combinations(range(6), size)
    }
    sums = sum_all(scheme, encoded[[0, 2, 5]])
    assert guesses[encode_twice(sums[:, 0])[0]] == (0, 2, 5)
    assert scheme.rerandomise(sums, 6, OTHER_KEY)[0, 0].tobytes() not in guesses


@pytest.mark.parametrize("bad", [NEUTRAL.hex(), *BAD_ENCODINGS])
@pytest.mark.parametrize("component", [0, 1])
def test_a_ciphertext_of_bytes_that_encode_no_point_is_refused(bad: str, component: int) -> None:
    scheme, spoiled = make_scheme(MARKS), np.frombuffer(bytes.fromhex(bad), np.uint8)
    rows = scheme.encrypt(draw_numbers(MARKS, 3, 0), KEY)
    sums = scheme.rerandomise(sum_all(scheme, rows), 3, OTHER_KEY)
    rows[1, component], sums[0, component] = spoiled, spoiled
    with pytest.raises(MaskingError, match=r"ciphertext (1 )?was spoiled"):
        scheme.decode(rows)
    with pytest.raises(MaskingError, match=r"ciphertext (0 )?was spoiled"):
        make_decryptor(MARKS).decrypt(sums, np.array([3]), 3)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((2, 2, 32), np.uint8), ((2, 3, 31), np.uint8), ((2, 96), np.uint8), ((2, 3, 32), np.int8)],
)
def test_arrays_that_hold_no_ciphertexts_are_refused(shape: tuple[int, ...], kind: type) -> None:
    with pytest.raises(MaskingError, match="arrays of 96 bytes"):
        make_scheme(MARKS).decode(np.ones(shape, kind))


def test_keys_rows_and_bins_that_do_not_fit_are_refused() -> None:
    public = DecryptionKey(SECRET, 2).public
    with pytest.raises(MaskingError, match="3 plaintexts need as many keys, not 2"):
        Scheme(Summands(3, 0, 1, 5), public)
    with pytest.raises(MaskingError, match="3 plaintexts need as many keys, not 2"):
        Decryptor(Summands(3, 0, 1, 5), DecryptionKey(SECRET, 2))
    scheme = make_scheme(MARKS)
    rows = scheme.decode(scheme.encrypt(draw_numbers(MARKS, 4, 0), KEY))
    order, candidates = one_node(np.ones(4, int)), np.zeros((1, 1), np.int32)
    with pytest.raises(MaskingError, match="a cell for each of 3 bins"):
        scheme.sum_rows(rows, make_columns(np.zeros((1, 4)), 3), order, candidates, 2)
    with pytest.raises(MaskingError, match="not of the same rows"):
        scheme.sum_rows(rows, make_columns(np.zeros((1, 5)), 2), order, candidates, 2)
    with pytest.raises(MaskingError, match="are not as many ciphertexts"):
        add_sums(np.zeros((2, 3, 20), np.uint64), np.zeros((1, 3, 20), np.uint64))
    with pytest.raises(MaskingError, match="sums are of 1 to 50 rows"):
        scheme.rerandomise(np.zeros((1, 3, 20), np.uint64), 51, KEY)
    with pytest.raises(MaskingError, match="32 bytes"):
        scheme.encrypt(draw_numbers(MARKS, 1, 0), b"short")
