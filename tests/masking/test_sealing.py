"""Sealed texts open for their receiver, unchanged, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import MaskingError
from fedforest.masking import sealing
from fedforest.masking.key_agreement import derive_key
from fedforest.masking.sealing import TAG_BYTES, open_sealed, seal

KEY = bytes(range(32))
TEXTS = st.binary(max_size=60)


@given(TEXTS, TEXTS)
def test_what_was_sealed_opens_to_what_it_was(text: bytes, associated: bytes) -> None:
    sealed = seal(KEY, text, associated)
    assert open_sealed(KEY, sealed, associated) == text
    assert open_sealed(KEY, memoryview(sealed), associated) == text
    assert len(sealed) == len(text) + TAG_BYTES
    assert len(text) < 8 or text not in sealed


@given(TEXTS, TEXTS, st.data())
def test_a_changed_bit_anywhere_is_noticed(
    text: bytes, associated: bytes, data: st.DataObject
) -> None:
    sealed = bytearray(seal(KEY, text, associated))
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(MaskingError, match="changed on its way"):
        open_sealed(KEY, bytes(sealed), associated)


@given(TEXTS, TEXTS, TEXTS)
def test_a_text_does_not_open_under_another_name(text: bytes, one: bytes, other: bytes) -> None:
    sealed = seal(KEY, text, one)
    if one != other:
        with pytest.raises(MaskingError, match="sealed for another"):
            open_sealed(KEY, sealed, other)


@pytest.mark.parametrize("n_bytes", [0, 1, 15])
def test_less_than_a_seal_does_not_open(n_bytes: int) -> None:
    with pytest.raises(MaskingError, match="changed on its way"):
        open_sealed(KEY, bytes(n_bytes), b"")


def test_a_text_cut_short_or_continued_does_not_open() -> None:
    sealed = seal(KEY, b"a share of a sum", b"step 3")
    for wrong in (sealed[:-1], sealed[1:], sealed + b"\0"):
        with pytest.raises(MaskingError, match="changed on its way"):
            open_sealed(KEY, wrong, b"step 3")


def test_another_step_or_direction_does_not_open() -> None:
    key = derive_key(KEY, b"share", b"run", b"a", b"b", b"3")
    sealed = seal(key, b"a share of a sum", b"")
    for context in ([b"run", b"a", b"b", b"4"], [b"run", b"b", b"a", b"3"]):
        with pytest.raises(MaskingError, match="another party, step or run"):
            open_sealed(derive_key(KEY, b"share", *context), sealed, b"")


def test_a_key_used_twice_by_mistake_tells_no_more_than_equality() -> None:
    """Under a stream cipher the two sealed texts would differ in exactly the changed bytes."""
    one = seal(KEY, b"a share of a sum, 1", b"")
    other = seal(KEY, b"a share of a sum, 2", b"")
    n_equal = sum(a == b for a, b in zip(one[:-TAG_BYTES], other[:-TAG_BYTES], strict=True))
    assert n_equal <= 4  # of 19, five or more by chance: 10^-8; the texts are fixed
    assert seal(KEY, b"a share of a sum, 1", b"") == one


@pytest.mark.parametrize("n_bytes", [0, 16, 31, 33])
def test_a_key_of_another_length_is_refused(n_bytes: int) -> None:
    for attempt in (seal, open_sealed):
        with pytest.raises(MaskingError, match=f"32 bytes, not {n_bytes}") as caught:
            attempt(KEY[:1] * n_bytes, b"text", b"")
        assert "text" not in str(caught.value)


def test_a_text_too_long_for_the_cipher_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "LARGEST_TEXT", 5)
    assert seal(KEY, b"12345", b"")
    with pytest.raises(MaskingError, match="6 bytes cannot be sealed at once"):
        seal(KEY, b"123456", b"")
