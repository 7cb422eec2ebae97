"""The checkout of fedforest that this process imports, which PYTHONPATH chooses.

Scripts that compare two states of the code must run on both. They use public names, and for the
few internal ones `find_definition`, which looks a name up wherever the checkout defines it. A name
that was changed gets its new spelling beside the old one, in the script that asks for it.
"""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import fedforest

PACKAGE = Path(fedforest.__file__).resolve().parent
FOLDER = PACKAGE.parents[1]


def find_definition(*names: str) -> Any:
    """The function or class with the first of these names that some module of the package defines.

    Raises `LookupError` where no module defines one of them.
    """
    modules = sorted(PACKAGE.rglob("*.py"))
    for name in names:
        pattern = re.compile(rf"^(?:class|def) {name}\b", flags=re.MULTILINE)
        for path in modules:
            if pattern.search(path.read_text()):
                parts = path.relative_to(PACKAGE).with_suffix("").parts
                return getattr(import_module(".".join([PACKAGE.name, *parts])), name)
    raise LookupError(f"no module of {PACKAGE.name} defines {' or '.join(names)}")


def find_method(owner: Any, *names: str) -> str:
    """The first of these names that the object has; raises `LookupError` where it has none."""
    for name in names:
        if hasattr(owner, name):
            return name
    raise LookupError(f"{owner!r} has neither of {', '.join(names)}")


def import_own(module: str) -> Any:
    """A module of the checkout's own benchmarks, which knows the internal names beside it.

    `benchmarks` is a package without an `__init__.py`, so its modules are looked for in every
    folder of the path, here in the checkout first.
    """
    own = str(FOLDER)
    sys.path[:] = [own, *(path for path in sys.path if path != own)]
    return import_module(module)


def read_commit() -> str:
    """The commit of the checkout, with `+` where its sources differ from it."""
    if not (FOLDER / "pyproject.toml").is_file():
        return "unknown"  # an installed package: git would tell of some other project
    head = _git("rev-parse", "HEAD")
    return f"{head}+" if _git("status", "--porcelain", "--", "src") else head


def _git(*words: str) -> str:
    outcome = subprocess.run(
        ["git", *words], cwd=FOLDER, capture_output=True, text=True, check=True
    )
    return outcome.stdout.strip()
