"""The installation: Python, the package, the libraries of extras, compiled kernels."""

import platform
import sys
from collections import defaultdict
from collections.abc import Collection
from importlib import import_module
from importlib.util import find_spec

from fedforest.extras import PACKAGE_OF_LIBRARY
from fedforest.kernels.compiled.preparation import find_missing
from fedforest.release import __version__
from fedforest.runtime.doctor.findings import Diagnoses, good, problem, warning


def examine_environment(needed: Collection[str], *, calls_kernels: bool = True) -> Diagnoses:
    """Examine the installation; `needed` are the extras that the role cannot do without."""
    yield good("release", f"fedforest {__version__} with Python {platform.python_version()}")
    libraries = defaultdict(list)
    for library, package in PACKAGE_OF_LIBRARY.items():
        libraries[package.partition("[")[2].rstrip("]")].append(library)
    absent = {
        extra: missing
        for extra, names in libraries.items()
        if (missing := [name for name in names if not _is_usable(name, is_needed=extra in needed)])
    }
    for extra in sorted(set(needed) & absent.keys()):
        yield problem(
            "extra",
            f"the extra {extra!r} is missing: {', '.join(absent[extra])} cannot be imported",
            "this role needs it",
            f'pip install "fedforest[{extra}]" into {sys.prefix}',
        )
    present = ", ".join(sorted(libraries.keys() - absent.keys())) or "none"
    yield good("extra", f"extras that are installed: {present}")
    if calls_kernels:
        yield from _examine_kernels()


def _is_usable(library: str, *, is_needed: bool) -> bool:
    """Tell whether a library is there; one that is needed is imported, too."""
    try:
        if is_needed:
            import_module(library)
            return True
        return find_spec(library) is not None
    except (ImportError, ValueError):  # ValueError: it is in `sys.modules` and is no module
        return False


def _examine_kernels() -> Diagnoses:
    n_missing = len(find_missing())
    if n_missing == 0:
        yield good("kernels", "all kernels are compiled")
        return
    yield warning(
        "kernels",
        f"{n_missing} kernels are not compiled on this machine",
        "the first training waits for them, and so do all its parties",
        "fedforest warm-up",
    )
