"""Bloom codes: equal weights, full rank, the same everywhere, and a size that works."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.errors import ConfigurationError
from fedforest.privacy.bloom_codes import (
    MAX_BITS,
    choose_code,
    find_words,
    largest_distance,
    mean_variance,
    membership,
)

# size, hashes and classes of codes that exist
SHAPES = st.integers(1, 24).flatmap(
    lambda bits: st.tuples(
        st.just(bits), st.integers(1, max(1, bits - 1)), st.integers(1, bits if bits > 1 else 1)
    )
)


@given(SHAPES)
@settings(max_examples=60)
def test_every_class_sets_exactly_as_many_bits_as_there_are_hashes(
    shape: tuple[int, int, int],
) -> None:
    bits, hashes, n_classes = shape
    words = find_words(n_classes, hashes, bits)
    assert words is not None
    assert [word.bit_count() for word in words] == [hashes] * n_classes
    assert max(words) < 2**bits


@given(SHAPES)
@settings(max_examples=60)
def test_codes_have_full_rank(shape: tuple[int, int, int]) -> None:
    bits, hashes, n_classes = shape
    words = find_words(n_classes, hashes, bits)
    assert words is not None
    assert np.linalg.matrix_rank(membership(words, bits)) == n_classes


def test_codes_never_change() -> None:
    # permanent responses, and what other parties and coordinators decode, depend on these words
    assert choose_code(2, 1, None) == (2, (1, 2))
    assert choose_code(10, 2, 16) == (
        16,
        (32800, 2176, 320, 9, 16386, 8704, 1536, 4100, 80, 4224),
    )


@pytest.mark.parametrize("n_classes", [1, 2, 3, 10, 26, 64])
def test_one_hash_gives_every_class_a_bit_of_its_own(n_classes: int) -> None:
    bits, words = choose_code(n_classes, 1, None)
    assert bits == n_classes
    assert sorted(words) == [1 << k for k in range(n_classes)]


@pytest.mark.parametrize(("n_classes", "hashes"), [(2, 2), (3, 2), (10, 2), (10, 4), (26, 3)])
def test_the_chosen_size_makes_counts_as_certain_as_bits_of_their_own(
    n_classes: int, hashes: int
) -> None:
    bits, words = choose_code(n_classes, hashes, None)
    assert mean_variance(membership(words, bits)) <= 1.0 + 1e-9
    smaller = find_words(n_classes, hashes, bits - 1)
    assert smaller is None or mean_variance(membership(smaller, bits - 1)) > 1.0


@pytest.mark.parametrize(
    ("n_classes", "hashes", "bits", "smallest"),
    [(26, 1, 25, 26), (3, 1, 1, 3), (2, 4, 4, 5), (10, 3, 3, 10), (2, 1, 1, 2)],
)
def test_too_few_bits_are_refused_and_the_smallest_size_that_works_is_named(
    n_classes: int, hashes: int, bits: int, smallest: int
) -> None:
    with pytest.raises(ConfigurationError, match=f"smallest size that works is bits={smallest};"):
        choose_code(n_classes, hashes, bits)
    assert choose_code(n_classes, hashes, smallest)[0] == smallest


@pytest.mark.parametrize(("n_classes", "hashes"), [(65, 1), (1000, 2), (2, 64)])
@pytest.mark.parametrize("bits", [None, 64])
def test_more_classes_than_bits_can_tell_apart_are_refused(
    n_classes: int, hashes: int, bits: int | None
) -> None:
    with pytest.raises(ConfigurationError, match=f"tells {n_classes} classes"):
        choose_code(n_classes, hashes, bits)


@pytest.mark.parametrize(("hashes", "advice"), [(1, "apart. Merge"), (2, "Use fewer hashes, or")])
def test_advice_against_too_many_classes_can_be_followed(hashes: int, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(advice)):
        choose_code(MAX_BITS + 1, hashes, None)


def test_no_classes_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no classes"):
        choose_code(0, 1, None)


@given(st.lists(st.integers(0, 2**MAX_BITS - 1), min_size=1, max_size=6))
def test_the_largest_distance_counts_the_bits_that_differ(words: list[int]) -> None:
    texts = [f"{word:064b}" for word in words]
    distances = [
        sum(a != b for a, b in zip(one, other, strict=True)) for one in texts for other in texts
    ]
    assert largest_distance(tuple(words)) == max(distances)
