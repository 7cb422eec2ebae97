"""Noise keys: the same for the same answer, another one for anything else."""

import pytest

from fedforest.errors import PrivacyError
from fedforest.privacy.noise_keys import derive_noise_key

SECRET = bytes(range(32))


def test_the_same_answer_to_the_same_question_has_the_same_key() -> None:
    key = derive_noise_key(SECRET, b"run", b"question", b"answer")
    assert derive_noise_key(SECRET, b"run", b"question", b"answer") == key
    assert len(key) == 32


def test_anything_else_has_another_key() -> None:
    contexts = [
        (b"run", b"question", b"answer"),
        (b"run", b"question", b"other answer"),
        (b"run", b"questionanswer"),
        (b"runquestion", b"answer"),
        (b"run", b"question", b"answer", b""),
        (),
    ]
    keys = {derive_noise_key(secret, *c) for secret in (SECRET, bytes(32)) for c in contexts}
    assert len(keys) == 2 * len(contexts)


def test_a_secret_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(PrivacyError, match="32 bytes"):
        derive_noise_key(b"short", b"run")
