"""A child of `preparation`: compile the calls whose numbers the pipe holds, until it is empty."""

import os
from contextlib import suppress

from fedforest.kernels.compiled.preparation import RECORD_BYTES, compile_call
from fedforest.kernels.compiled.progress import silence
from fedforest.kernels.compiled.signatures import listed_calls

with silence(), suppress(BrokenPipeError):  # which says that the parent is gone
    while record := os.read(0, RECORD_BYTES):
        number = int(record)
        file = compile_call(listed_calls()[number])
        os.write(1, f"{number} {file}\n".encode())
