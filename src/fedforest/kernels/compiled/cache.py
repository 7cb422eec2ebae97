"""Compiled kernels on the disk: how a kernel's machine code is named, found, read and kept.

When a kernel is called with types that it has not been called with in this process, numba asks the
kernel's `KernelCache` for machine code, and compiles if there is none. Code is looked for in

1. the package's folder `shipped`, which a wheel from `make wheel` fills with kernels compiled for
   `PORTABLE`, an instruction set that most processors of the last ten years have. It is left alone
   where numba compiles for less, and is absent in a source checkout;
2. the user's folder, where kernels compiled here, for this very processor, are kept:
   `FEDFOREST_CACHE`, or `fedforest/kernels` where the system keeps a user's caches.

A file's name is a hash of all that decides the machine code: the kernel's fingerprint, the types of
its arguments, the versions of Python, numba and llvmlite, numba's settings and the instruction set.
Never a path or a time, which installers change: a new environment finds the kernels of the old one.

Files hold pickled code, so reading one means running it. They are read from these two folders only,
and from the user's only if it belongs to the user and no one else may write to it. The digest in
front of each file finds damage; it is no protection against an attacker. numba's own settings are
read and never changed: they belong to the process, in which others may use numba, too.
"""

import hashlib
import os
import pickle
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from numba.core import config, sigutils
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from fedforest.kernels.compiled.fingerprint import fingerprint
from fedforest.kernels.compiled.progress import note_compilation, note_once

SHIPPED = Path(__file__).parent / "shipped"
_UNUSED_DAYS = 30
_HEADER = b"fedforest kernel 1\n"
_VERSIONS = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__)
_SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "USING_SVML")  # numba's
_TYPE_ANNOTATION = 6  # place of a long text in numba's reduced form; it names source paths


class Target(NamedTuple):
    """The processor and the versions that machine code is for."""

    system: str  # LLVM's triple
    processor: str
    features: str  # as LLVM takes them: "+avx2,-sse4a"

    def runs_code_for(self, other: "Target") -> bool:
        """Return whether code made for `other` uses no feature that this target lacks."""
        needed = {feature for feature in other.features.split(",") if feature.startswith("+")}
        return self.system == other.system and needed <= set(self.features.split(","))


# x86-64-v3, as processors since 2013 (Intel) and 2015 (AMD) have it
PORTABLE = Target(
    "x86_64-unknown-linux-gnu",
    "x86-64-v3",
    "+64bit,+cmov,+crc32,+cx8,+fxsr,+mmx,+sse,+sse2,+cx16,+sahf,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3,"
    "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave",
)


class KernelCache(_Cache):
    """The machine code of one kernel on the disk, by the types of its arguments."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    @property
    def cache_path(self) -> str:
        return str(user_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel for these types, or None, upon which numba compiles it."""
        target_context.refresh()
        path = self.find(sig)
        code = None if path is None else read_code(path)
        if code is None:
            note_compilation(self._kernel.__name__)
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(code))

    def find(self, sig: Any) -> Path | None:
        """Return the file that holds the kernel for these types, if there is one to be trusted."""
        target = host_target()
        if target.runs_code_for(PORTABLE):
            shipped = SHIPPED / self.file_name(sig, PORTABLE)
            if shipped.exists():
                return shipped
        folder = trusted_user_folder()
        if folder is None:
            return None
        own = folder / self.file_name(sig, target)
        return own if own.exists() else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was just compiled in the user's folder."""
        folder = trusted_user_folder()
        if folder is None or data.library.has_dynamic_globals:
            return
        parts = list(data._reduce())
        parts[_TYPE_ANNOTATION] = ""
        target = host_target()
        write_code(folder / self.file_name(sig, target), dumps(tuple(parts)))

    def file_name(self, sig: Any, target: Target) -> str:
        arguments, _ = sigutils.normalize_signature(sig)
        settings = str([getattr(config, name) for name in _SETTINGS])
        identity = (_fingerprint(self._kernel), str(arguments), _VERSIONS, settings, target)
        key = hashlib.sha256(repr(identity).encode()).hexdigest()[:40]
        return f"{self._kernel.__name__}-{key}"

    def enable(self) -> None:
        """Caching is always on."""

    def disable(self) -> None:
        """Caching is always on."""

    def flush(self) -> None:
        """Keep all files: a changed kernel has another file name."""


_fingerprint = cache(fingerprint)


def host_target() -> Target:
    """Return numba's target in this process: this processor, unless a setting names another."""
    return Target(*cpu_target.target_context.codegen().magic_tuple())


def user_folder() -> Path:
    """Return the folder of kernels compiled on this machine, which may not exist yet."""
    chosen = os.environ.get("FEDFOREST_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        caches = Path.home() / "Library" / "Caches"
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "fedforest" / "kernels"


def trusted_user_folder() -> Path | None:
    """Return the user's folder, created if missing; None, after a note, if unusable."""
    return _check_folder(user_folder())


@cache
def _check_folder(folder: Path) -> Path | None:
    """Whether to use a folder is decided once per process."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.stat()
        # creating a file is the only test that tells the truth about every file system
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        note_once(f"compiled kernels cannot be kept in {folder} ({error.strerror})")
        return None
    if hasattr(os, "getuid") and (facts.st_uid != os.getuid() or facts.st_mode & 0o022):
        note_once(f"compiled kernels are not kept in {folder}: others may write to it")
        return None
    return folder


def read_code(path: Path) -> bytes | None:
    """Return a file's code; None if it is gone, cut short, damaged or another kernel's."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    start = len(_HEADER) + hashlib.sha256().digest_size
    code = content[start:]
    return code if content[:start] == _HEADER + _digest(path.name, code) else None


def write_code(path: Path, code: bytes) -> None:
    """Put a file in place as a whole: other processes see all of it or nothing."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as file:
            file.write(_HEADER + _digest(path.name, code) + code)
        os.replace(file.name, path)
    except OSError as error:
        note_once(f"compiled kernels cannot be kept in {path.parent} ({error.strerror})")


def forget_unused(folder: Path) -> None:
    """Delete files that no process has used for a month: those of earlier versions."""
    oldest = time.time() - _UNUSED_DAYS * 24 * 60 * 60
    for path in folder.iterdir():
        with suppress(OSError):  # another process may have deleted it
            facts = path.stat()
            if max(facts.st_atime, facts.st_mtime) < oldest:
                path.unlink()


def _digest(name: str, code: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + code).digest()
