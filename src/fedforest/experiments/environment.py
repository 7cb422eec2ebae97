"""The facts about machine and versions that stand beside every published number.

They name neither the host nor a path, and do not depend on the measurement.
"""

import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

LIBRARIES = (
    *("numpy", "numba", "scikit-learn", "scikit-learn-intelex"),
    *("pandas", "xgboost", "lightgbm"),
)
BYTES_PER_GIB = 1024**3
_CHECKOUT = Path(__file__).resolve().parents[3]  # in an installed package: some other folder


def describe_environment() -> dict[str, Any]:
    """Describe machine, versions and commit, to judge or repeat the numbers."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / BYTES_PER_GIB, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_at_start": round(os.getloadavg()[0], 2),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": _commit(),
        "versions": {"python": platform.python_version(), **_versions()},
    }


def tell_environment(facts: dict[str, Any]) -> tuple[str, str]:
    """Return the machine, and the versions, each as a sentence without its full stop."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    machine = (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['system']}; "
        f"load {facts['load_at_start']} when it began"
    )
    return machine, versions


def _cpu_model() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str:
    """Short commit, with `+` when the measured sources differ from it."""
    is_checkout = (_CHECKOUT / "pyproject.toml").is_file()  # else git may know another project
    head = _git("rev-parse", "--short=12", "HEAD") if is_checkout else None
    if head is None:
        return "unknown"
    return f"{head}+" if _git("status", "--porcelain", "--", "src") else head


def _git(*words: str) -> str | None:
    try:
        outcome = subprocess.run(
            ["git", *words], cwd=_CHECKOUT, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return outcome.stdout.strip() if outcome.returncode == 0 else None
