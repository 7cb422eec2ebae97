"""How long a unit of work takes on this machine, and the file that remembers it.

`estimators/planning.py` measures speeds by small trainings. Without that, the speeds below hold:
those of one core of the machine that the benchmarks ran on.
"""

import os
from collections.abc import Mapping
from typing import Self

import msgspec

from fedforest.kernels.compiled.cache import trusted_user_folder, user_folder
from fedforest.runtime.recovery.run_store import write_file

FILE_NAME = "speeds.json"


class Speeds(msgspec.Struct, frozen=True):
    """Seconds of one core for each unit of work; `exchange` for each party and exchange."""

    table_cell: float
    visited_cell: float
    moved_row: float
    visited_node: float
    exchange: float
    is_measured: bool = False

    @classmethod
    def measured(cls, seconds: Mapping[str, float]) -> Self:
        """Make speeds that were measured on this machine; those that are not named are 0."""
        return cls(**{**dict.fromkeys(UNITS, 0.0), **seconds}, is_measured=True)


STANDARD = {
    "vertical two classes": Speeds(7.7e-9, 4e-10, 2.3e-9, 4.3e-7, 1.0e-4),
    "vertical classes": Speeds(7.5e-9, 4e-10, 3.5e-9, 1.1e-6, 1.3e-4),
    "vertical numbers": Speeds(9.0e-9, 1.1e-9, 4.8e-9, 3.7e-7, 1.3e-4),
    "horizontal two classes": Speeds(6.4e-9, 1.5e-9, 4.3e-9, 2.7e-8, 1.9e-4),
    "horizontal classes": Speeds(5.4e-9, 1.3e-9, 3.3e-9, 8.3e-8, 1.8e-4),
    "horizontal numbers": Speeds(5.2e-9, 9.3e-10, 4.1e-9, 2.1e-8, 1.5e-4),
}


UNITS = ("table_cell", "visited_cell", "moved_row", "visited_node", "exchange")


class _File(msgspec.Struct, frozen=True):
    """All measured speeds, by protocol and kind of labels."""

    machine: str
    speeds: dict[str, Speeds]


def name_kind(protocol: str, n_classes: int) -> str:
    """Return the name that measured speeds have: of a protocol, for labels of one kind."""
    labels = "numbers" if n_classes == 0 else "two classes" if n_classes == 2 else "classes"
    return f"{protocol} {labels}"


def load_speeds(kind: str) -> Speeds:
    """Return the measured speeds of this machine, or the standard ones."""
    return _load().get(kind) or STANDARD[kind]


def keep_speeds(kind: str, speeds: Speeds) -> None:
    """Remember measured speeds in the user's cache, where it can be written."""
    folder = trusted_user_folder()
    if folder is None:
        return
    file = _File(_describe_machine(), {**_load(), kind: speeds})
    write_file(folder / FILE_NAME, msgspec.json.encode(file))


def _load() -> dict[str, Speeds]:
    try:
        data = (user_folder() / FILE_NAME).read_bytes()
        file = msgspec.json.decode(data, type=_File)
    except (OSError, msgspec.DecodeError):
        return {}  # never measured here, or by another version
    return file.speeds if file.machine == _describe_machine() else {}


def _describe_machine() -> str:
    system = os.uname() if hasattr(os, "uname") else None
    return f"{os.cpu_count()} {'' if system is None else system.machine + ' ' + system.nodename}"
