"""The `fedforest` command with reproducible run secrets, so that two federations can be compared.

It also ends when the tests that started it end, whatever ended them.

The secret of a run is drawn with the length below and nothing else is: ids stay unique. It must be
replaced before the package is imported, because services take it as a default argument.
"""

import ctypes
import secrets
import signal
import sys
from hashlib import shake_256
from pathlib import Path

SECRET_BYTES = 32
_ON_DEATH_OF_PARENT = 1  # PR_SET_PDEATHSIG


def secret_of(role: str) -> bytes:
    """What the role of this name draws as the secret of every run."""
    return shake_256(f"secret of {role}".encode()).digest(SECRET_BYTES)


def replace_run_secrets(role: str) -> None:
    """From now on this process draws run secrets that depend on its role's name alone."""
    genuine = secrets.token_bytes

    def draw(nbytes: int | None = None) -> bytes:
        return secret_of(role) if nbytes == SECRET_BYTES else genuine(nbytes)

    secrets.token_bytes = draw


def end_with_parent() -> None:
    """Have the system kill this process when the one that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ON_DEATH_OF_PARENT, signal.SIGKILL)


def main() -> None:
    """Run the command of this process's arguments."""
    end_with_parent()
    replace_run_secrets(Path(sys.argv[sys.argv.index("--home") + 1]).name)
    from fedforest.cli.main import app_entry  # noqa: PLC0415 - see above
    from fedforest.runtime.coordinator import jobs  # noqa: PLC0415 - see above

    jobs.PACE_SECONDS = 0.0  # whoever disturbs a run hears of every exchange while it is at hand
    app_entry()


if __name__ == "__main__":
    main()
