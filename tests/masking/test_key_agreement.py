"""Agreed secrets and derived keys, against the standards they follow."""

import hmac
import re
from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import MaskingError
from fedforest.masking.key_agreement import (
    IdentityKey,
    derive_key,
    draw_bytes,
    encode_name,
    encode_number,
    fingerprint,
)

# RFC 7748, section 6.1
ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
SHARED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")

FIELD_PRIME = 2**255 - 19
# every point whose order divides 8, as u-coordinate
LOW_ORDER = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    FIELD_PRIME - 1,
)
CONTEXTS = st.lists(st.binary(max_size=12), min_size=1, max_size=4).filter(lambda c: c[0] != b"")


def from_bytes(private: bytes) -> IdentityKey:
    return IdentityKey.from_randomness(lambda n_bytes: private[:n_bytes])


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """RFC 5869 for outputs of one block, by the letter."""
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def test_public_keys_are_those_of_the_standard() -> None:
    assert from_bytes(ALICE).public == ALICE_PUBLIC
    assert from_bytes(BOB).public == BOB_PUBLIC


def test_two_parties_agree_on_a_secret_that_a_third_does_not_get() -> None:
    alice, bob, eve = from_bytes(ALICE), from_bytes(BOB), from_bytes(bytes(range(32)))
    secret = alice.pair_secret(bob.public)
    assert secret == bob.pair_secret(alice.public)
    assert len(secret) == 32
    assert secret not in {eve.pair_secret(alice.public), eve.pair_secret(bob.public)}


def test_a_pair_secret_is_derived_from_the_standards_secret_and_both_public_keys() -> None:
    expected = derive_key(SHARED, b"pair secret", *sorted((ALICE_PUBLIC, BOB_PUBLIC)))
    assert from_bytes(ALICE).pair_secret(BOB_PUBLIC) == expected
    assert expected != SHARED


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_point_of_low_order_is_refused(point: int) -> None:
    """With it, whoever sent it would know the secret, whatever our own key."""
    with pytest.raises(MaskingError, match="low order"):
        from_bytes(ALICE).pair_secret(point.to_bytes(32, "little"))


@pytest.mark.parametrize(
    "number", [FIELD_PRIME, FIELD_PRIME + 1, FIELD_PRIME + 9, 2**255 - 1, 2**255, 2**255 + 9]
)
def test_a_second_form_of_a_point_is_refused(number: int) -> None:
    with pytest.raises(MaskingError, match="one valid form"):
        from_bytes(ALICE).pair_secret(number.to_bytes(32, "little"))


@pytest.mark.parametrize("n_bytes", [0, 31, 33, 64])
def test_a_public_key_of_another_length_is_refused(n_bytes: int) -> None:
    with pytest.raises(MaskingError, match=f"32 bytes, not {n_bytes}"):
        from_bytes(ALICE).pair_secret(bytes([9]) * n_bytes)
    with pytest.raises(MaskingError, match=f"32 bytes, not {n_bytes}"):
        fingerprint(bytes([9]) * n_bytes)


def test_the_own_public_key_is_refused_as_a_peers() -> None:
    with pytest.raises(MaskingError, match="own"):
        from_bytes(ALICE).pair_secret(ALICE_PUBLIC)


def test_a_source_of_entropy_that_gives_too_little_is_refused() -> None:
    with pytest.raises(MaskingError, match="31 bytes instead of 32"):
        IdentityKey.from_randomness(lambda n_bytes: bytes(n_bytes - 1))
    with pytest.raises(MaskingError, match="5 bytes instead of 4"):
        draw_bytes(lambda n_bytes: bytes(n_bytes + 1), 4)


def test_a_fingerprint_is_eight_readable_groups_of_160_bits() -> None:
    text = fingerprint(ALICE_PUBLIC)
    assert re.fullmatch(r"([a-z2-7]{4}-){7}[a-z2-7]{4}", text)
    assert text == fingerprint(from_bytes(ALICE).public) != fingerprint(BOB_PUBLIC)


@given(st.integers(0, 253))
def test_another_bit_in_a_key_gives_another_fingerprint_altogether(bit: int) -> None:
    changed = int.from_bytes(ALICE_PUBLIC, "little") ^ 1 << bit
    one, other = fingerprint(ALICE_PUBLIC), fingerprint(changed.to_bytes(32, "little"))
    assert sum(a != b for a, b in zip(one, other, strict=True)) >= 16


@given(st.binary(min_size=32, max_size=48), CONTEXTS)
def test_a_derived_key_is_that_of_the_standard(secret: bytes, context: list[bytes]) -> None:
    info = b"".join(len(part).to_bytes(8, "big") + part for part in context)
    assert derive_key(secret, *context) == hkdf(secret, b"fedforest masking 1", info)


@given(CONTEXTS, CONTEXTS)
def test_different_contexts_give_different_keys(one: list[bytes], other: list[bytes]) -> None:
    secret = sha256(b"secret").digest()
    assert (derive_key(secret, *one) == derive_key(secret, *other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([b"ab", b"c"], [b"a", b"bc"]),
        ([b"ab", b"c"], [b"abc"]),
        ([b"ab"], [b"ab", b""]),
        ([b"ab", b"", b"c"], [b"ab", b"c", b""]),
        ([b"a", b"b"], [b"a" + (1).to_bytes(8, "big") + b"b"]),
    ],
)
def test_bytes_cannot_move_from_one_context_to_the_next(
    one: list[bytes], other: list[bytes]
) -> None:
    secret = sha256(b"secret").digest()
    assert derive_key(secret, *one) != derive_key(secret, *other)


def test_a_key_for_nothing_or_from_too_little_is_refused() -> None:
    secret = sha256(b"secret").digest()
    with pytest.raises(MaskingError, match="for something"):
        derive_key(secret)
    with pytest.raises(MaskingError, match="for something"):
        derive_key(secret, b"", b"step")
    with pytest.raises(MaskingError, match="32 secret bytes, not 31"):
        derive_key(secret[1:], b"mask")


def test_names_and_numbers_that_cannot_be_bound_are_refused() -> None:
    assert encode_number(258) == b"\0\0\0\0\0\0\x01\x02"
    for number in (-1, 2**64):
        with pytest.raises(MaskingError, match="2\\^64"):
            encode_number(number)
    assert encode_name("Zürich") == "Zürich".encode()
    with pytest.raises(MaskingError, match="not text"):
        encode_name("\ud800")


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: from_bytes(ALICE).pair_secret(bytes(32)),
        lambda: from_bytes(ALICE).pair_secret(ALICE_PUBLIC),
        lambda: from_bytes(ALICE).pair_secret(b"\xff" * 32),
        lambda: from_bytes(ALICE).pair_secret(BOB[:31]),
        lambda: IdentityKey.from_randomness(lambda _: ALICE[:31]),
        lambda: derive_key(ALICE[:31], b"mask"),
    ],
)
def test_no_error_shows_a_key(mistake: Callable[[], object]) -> None:
    with pytest.raises(MaskingError) as caught:
        mistake()
    shown = f"{caught.value!r} {caught.value.__cause__!r}"
    for key in (ALICE, BOB, ALICE_PUBLIC):
        assert key.hex()[:8] not in shown
        assert repr(key[:4])[2:-1] not in shown
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_key_shows_its_fingerprint_and_not_itself() -> None:
    shown = f"{from_bytes(ALICE)!r} {from_bytes(ALICE)}"
    assert fingerprint(ALICE_PUBLIC) in shown
    assert ALICE.hex()[:8] not in shown
