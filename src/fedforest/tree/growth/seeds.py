"""Seeds derived by a keyed hash: one reveals nothing about the root or about other seeds."""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


def derive_seed(root: int, purpose: str, index: int = 0) -> int:
    """Derive a 64-bit seed for one purpose, e.g. the row sample of tree `index`."""
    message = f"{purpose}/{index}".encode()
    key = root.to_bytes(32, "little")
    return int.from_bytes(blake2b(message, key=key, digest_size=8).digest(), "little")


def derive_seeds(root: int, purpose: str, first: int, last: int) -> NDArray[np.uint64]:
    """Derive one seed for each index in first..last."""
    return np.array([derive_seed(root, purpose, i) for i in range(first, last)], np.uint64)
