"""`make wheel`: compile all listed calls for `PORTABLE`, into a folder that a wheel then holds.

The children get numba's target from its environment variables: in this process, as in every process
that uses kernels, numba's settings stay as they are.
"""

import shutil
import sys
from pathlib import Path

import numba

from fedforest.kernels.compiled.cache import (
    PORTABLE,
    host_target,
    read_code,
    user_folder,
    write_code,
)
from fedforest.kernels.compiled.preparation import compile_calls
from fedforest.kernels.compiled.signatures import listed_calls

_SOURCES = Path(__file__).parents[3]


def ship(folder: Path) -> int:
    """Fill a folder with the compiled kernels; return how many, 0 where none can be made."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if not host_target().runs_code_for(PORTABLE):
        return 0  # an arm64 machine, say: its wheel compiles when it is used
    files = compile_calls(
        dict(enumerate(listed_calls())),
        NUMBA_CPU_NAME=PORTABLE.processor,
        NUMBA_CPU_FEATURES=PORTABLE.features,
    )
    if len(files) < len(listed_calls()):
        raise SystemExit(
            f"only {len(files)} of {len(listed_calls())} calls compile: make signatures"
        )
    for file in files:  # only these: kernels that no Python calls are part of those that do
        code = read_code(user_folder() / file)
        if code is None:
            raise SystemExit(f"{user_folder() / file} was deleted or damaged while it was copied")
        write_code(folder / file, _without_paths(code))
    return len(files)


def _without_paths(code: bytes) -> bytes:
    """Overwrite the folders of this machine: numba keeps the file's name beside each `raise`.

    The length stays, because the code is a pickle and machine code that count bytes.
    """
    for source in (_SOURCES, Path(numba.__file__).parents[1]):
        folder = str(source).encode()
        code = code.replace(folder, b"." * len(folder))
    return code


if __name__ == "__main__":
    if sys.argv[1] == "--forget":
        shutil.rmtree(user_folder(), ignore_errors=True)
    else:
        ship(Path(sys.argv[1]))
