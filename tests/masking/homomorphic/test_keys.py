"""Keys follow from a secret, and a peer's key is read only if it could be an honest party's."""

import pytest

from fedforest.errors import MaskingError
from fedforest.masking.homomorphic.group import multiply_base
from fedforest.masking.homomorphic.keys import DecryptionKey, EncryptionKey
from tests.reference.ristretto import BAD_ENCODINGS, NEUTRAL, element

SECRET = bytes(range(32))


def test_the_same_secret_gives_the_same_keys_and_no_two_keys_are_equal() -> None:
    key, again = DecryptionKey(SECRET, 3), DecryptionKey(SECRET, 3)
    assert key.public.points == again.public.points
    assert len({*key.public.points, *DecryptionKey(bytes(32), 3).public.points}) == 6
    assert key.public.points == tuple(map(multiply_base, key.scalars))


def test_fewer_keys_of_a_secret_are_the_first_of_many() -> None:
    assert DecryptionKey(SECRET, 1).public.points == DecryptionKey(SECRET, 3).public.points[:1]


def test_a_public_key_is_read_back_as_it_was_sent() -> None:
    public = DecryptionKey(SECRET, 2).public
    assert EncryptionKey.decode(public.encode(), 2).points == public.points


def test_a_secret_key_does_not_show_itself() -> None:
    key = DecryptionKey(SECRET, 1)
    assert key.scalars[0].hex() not in repr(key)
    assert repr(key) == "<DecryptionKey of 1 plaintexts>"


HIGH = bytes([*element(5)[:-1], element(5)[-1] | 0x80])


@pytest.mark.parametrize(
    "encoded",
    [b"", element(5), element(5) * 3, element(5) + NEUTRAL, element(5) + HIGH]
    + [element(5) + bytes.fromhex(bad) for bad in BAD_ENCODINGS],
)
def test_a_peers_key_of_another_length_or_of_bytes_that_are_no_key_is_refused(
    encoded: bytes,
) -> None:
    with pytest.raises(MaskingError, match="a public key for sums must be one point"):
        EncryptionKey.decode(encoded, 2)


def test_a_secret_that_is_too_short_makes_no_keys() -> None:
    with pytest.raises(MaskingError, match="32 secret bytes"):
        DecryptionKey(bytes(31), 1)
