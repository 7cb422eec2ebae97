"""Keys for noise, derived so that no two answers share their randomness unless they are the same.

Two different answers under the same noise would give away their difference. The same question
answered twice under different noise would let noise average out. Both are avoided by making the
answer itself part of what the key is derived from: asked again, a party says the same again.
"""

from hashlib import blake2b

from fedforest.kernels.chacha import KEY_BYTES, read_key


def derive_noise_key(secret: bytes, *context: bytes) -> bytes:
    """A key for one answer, e.g. (run, question, plain statistics) as context."""
    read_key(secret)  # refuses what is no key
    message = b"".join(len(part).to_bytes(8, "little") + part for part in context)
    return blake2b(message, digest_size=KEY_BYTES, key=secret, person=b"noise key").digest()
