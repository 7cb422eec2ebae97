"""Whether kernels were compiled before: whoever starts a process is told if the first run waits."""

from pathlib import Path

from fedforest.kernels.compilation import cache_path

_SIGNS = ("partition", "cut_sums")  # modules without which no training goes, by columns or by rows


def are_compiled() -> bool:
    """Whether an earlier process of this installation has compiled kernels of trainings."""
    path = cache_path()
    if path is None:
        return True  # nothing is compiled at all
    return all(any(Path(path).glob(f"{module}.*.nbi")) for module in _SIGNS)
