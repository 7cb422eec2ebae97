"""Large arrays of a party in files that the operating system reads and writes as memory is short.

The files have no name: they vanish with the arrays, also when the process is killed.
"""

import math
import mmap
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedforest.errors import StorageError

_ARRAYS_IN_LIMIT = 2  # a larger array lives in a file


@dataclass(frozen=True, slots=True)
class MappedMemory:
    """Gives arrays that are large beside the limit a file in this folder, and others memory."""

    folder: Path
    memory_limit: int | None  # bytes; None: everything is in memory

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array whose contents are still to be written."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if self.memory_limit is None or n_bytes <= self.memory_limit // _ARRAYS_IN_LIMIT:
            return np.empty(shape, dtype)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                os.posix_fallocate(file.fileno(), 0, n_bytes)  # else a full disk kills the process
                mapped = mmap.mmap(file.fileno(), n_bytes)
        except OSError as error:
            raise StorageError(
                f"{self.folder} has no room for {n_bytes:,} bytes of a training that does not fit "
                f"memory_limit ({error.strerror}); free disk space, or raise the limit"
            ) from None
        return np.frombuffer(mapped, dtype).reshape(shape)
