"""Quantities and moments, as people read them."""

import time


def format_bytes(n_bytes: int) -> str:
    """In the unit that leaves few digits."""
    size = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000.0:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000.0
    return f"{size:.1f} TB"


def format_seconds(seconds: float) -> str:
    """Return a duration for people."""
    if seconds < 10.0:
        return f"{seconds:.1f} s"
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    minutes = seconds / 60.0
    return f"{minutes:.0f} min" if minutes < 120.0 else f"{minutes / 60.0:.1f} h"


def format_time(at: float | None) -> str:
    """Return a moment in the time of this place."""
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def format_score(value: float) -> str:
    """Return a score with four digits behind the point, or six in all where it is large."""
    return f"{value:.4f}" if abs(value) < 1000.0 else f"{value:.6g}"


def format_number(value: float) -> str:
    """Return a threshold or a mean with few digits."""
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.4g}"
