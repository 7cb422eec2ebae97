"""What `scale.json` says: every target and whether it was reached.

The only place where targets are judged; the terminal, the figure and the page read it.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from fedforest.experiments.findings import (
    NOT_JUDGED,
    NOTHING,
    Finding,
    megabytes,
    seconds,
    times,
    unjudged,
    verdict,
)
from fedforest.tree.growth.level_loop import BATCH_BYTES

GIGABYTE = 2**30
COLUMNS = 10  # of a party of the vertical runs
BASE_ROWS = 1_000_000  # that time per row is compared with
MOST_PER_ROW = 1.5
LEAST_OVER_SKLEARN = 3.0
MOST_MASKED = 1.5
MOST_OVER_LARGER = 1.3
PLAN_WITHIN = 0.3


def find(result: dict[str, Any]) -> list[Finding]:
    """All findings of a scale run, in the order a reader wants them."""
    makers: dict[str, Callable[[list[dict[str, Any]]], Finding]] = {
        "rows_vertical": rows_vertical,
        "rows_horizontal": rows_horizontal,
        "beyond_memory": beyond_memory,
        "wide": wide,
        "classes": partial(growth, "classes"),
        "trees": partial(growth, "trees"),
        "parties": parties,
        "slow_line": slow_line,
        "two_runs": two_runs,
        "plans": plans,
    }
    findings = [make(result[task]) for task, make in makers.items() if result[task]]
    return [unjudged(one) for one in findings] if result["settings"]["quick"] else findings


def rows_vertical(points: list[dict[str, Any]]) -> Finding:
    """Time and memory of two party processes, by rows."""
    rows, base = [], _per_row_base(points)
    for point in points:
        order_bytes = max(BATCH_BYTES, 8 * point["rows"])  # one tree at least
        budget = point["rows"] * COLUMNS + order_bytes + GIGABYTE
        peak = _most_of_parties(point["peak_bytes"])
        rows.append(
            [
                f"{point['rows']:,}",
                seconds(point["wall"]),
                *_per_row(point, base),
                megabytes(peak),
                megabytes(budget),
                verdict(reached=peak <= budget),
                megabytes(point["peak_bytes"]["coordinator"]),
            ]
        )
    header = [
        *("rows", "time", "per row beside 1,000,000", "at most 1.5×"),
        *("peak of a party", "budget", "within", "peak of the coordinator"),
    ]
    note = (
        "10 trees of depth 8, two classes, 10 + 10 float32 columns read from Parquet by two "
        'parties with `memory_limit = "2 GB"`, every role a process over TLS. Budget: bins of one '
        "byte, row orders (256 MiB, or one tree), and 1 GiB. Peaks are of whole processes."
    )
    return Finding("Vertical, by rows", header, rows, note)


def rows_horizontal(points: list[dict[str, Any]]) -> Finding:
    """Time and memory of ten party processes, by rows."""
    rows = [
        [
            f"{point['rows']:,}",
            seconds(point["wall"]),
            *_per_row(point, _per_row_base(points)),
            megabytes(_most_of_parties(point["peak_bytes"])),
            megabytes(point["peak_bytes"]["coordinator"]),
        ]
        for point in points
    ]
    header = [
        *("rows of all", "time", "per row beside 1,000,000", "at most 1.5×"),
        *("peak of a party", "peak of the coordinator"),
    ]
    note = "10 extra-trees of depth 8, two classes, 20 float32 columns, 10 parties, plain sums."
    return Finding("Horizontal, by rows", header, rows, note)


def beyond_memory(points: list[dict[str, Any]]) -> Finding:
    """The same training within a limit of memory and without."""
    votes = {point["votes"] for point in points}
    rows = [
        [
            point["limit"] or "no limit",
            f"{point['rows']:,}",
            seconds(point["wall"]),
            megabytes(_most_of_parties(point["peak_bytes"])),
            verdict(reached=len(votes) == 1),
        ]
        for point in points
    ]
    header = ["limit", "rows", "time", "peak of a party", "the same votes"]
    note = "Tables of 600 MB at each party, three times the limit."
    return Finding("A table larger than memory", header, rows, note)


def wide(points: list[dict[str, Any]]) -> Finding:
    """Few rows, many columns, beside scikit-learn."""
    best = {
        name: min(point["wall"] for point in points if point["contestant"] == name)
        for name in ("fedforest", "scikit-learn")
    }
    ratio = best["scikit-learn"] / best["fedforest"]
    row = [seconds(best["fedforest"]), seconds(best["scikit-learn"]), times(ratio)]
    header = ["two parties in process", "scikit-learn, joined", "faster", "at least 3×"]
    rows = [[*row, verdict(reached=ratio >= LEAST_OVER_SKLEARN)]]
    return Finding("801 rows × 20,531 columns, 100 trees", header, rows)


def growth(task: str, points: list[dict[str, Any]]) -> Finding:
    """Time by classes, or by trees."""
    first = points[0]
    rows = [
        [
            f"{point[task]:,}",
            seconds(point["wall"]),
            seconds(point["cpu"]),
            times(point["cpu"] / first["cpu"]),
            times(point[task] / first[task]),
        ]
        for point in points
    ]
    header = [task, "time", "processor time", "beside the first", f"{task} beside the first"]
    return Finding(f"Vertical, by {task}", header, rows)


def parties(points: list[dict[str, Any]]) -> Finding:
    """Processor time by parties, and what masks cost."""
    plain = {p["parties"]: p["cpu"] for p in points if p["kind"] == "horizontal, plain"}
    rows = []
    for point in points:
        is_masked = point["kind"] == "horizontal, masked"
        ratio = point["cpu"] / plain[point["parties"]] if is_masked else None
        is_judged = ratio is not None and point["parties"] == 50
        rows.append(
            [
                point["kind"],
                str(point["parties"]),
                seconds(point["wall"]),
                seconds(point["cpu"]),
                times(ratio),
                verdict(reached=ratio <= MOST_MASKED) if is_judged else NOT_JUDGED,  # type: ignore[operator] # judged: there is one
            ]
        )
    header = ["kind", "parties", "time", "processor time", "beside plain sums", "at most 1.5×"]
    note = "100 trees of depth 10 over 20,000 × 50, all roles in one process."
    return Finding("By parties", header, rows, note)


def slow_line(points: list[dict[str, Any]]) -> Finding:
    """A slow line beside the larger of compute and transfer, and the plan."""
    compute = min(point["wall"] for point in points if point["line"] == "none")
    shaped = [point for point in points if point["line"] == "slow"]
    best = min(shaped, key=lambda point: point["wall"])
    transfer = transfer_seconds(best)
    ratio = best["wall"] / max(compute, transfer)
    planned = (best["planned"] or {}).get("seconds")
    off = None if planned is None else planned / best["wall"] - 1.0
    row = [
        seconds(best["wall"]),
        seconds(compute),
        seconds(transfer),
        times(ratio),
        verdict(reached=ratio <= MOST_OVER_LARGER),
        seconds(planned),
        _percent(off) if off is not None else NOTHING,
        NOT_JUDGED if off is None else verdict(reached=abs(off) <= PLAN_WITHIN),
    ]
    header = [
        *("time", "without the line", "transfer", "beside the larger", "at most 1.3×"),
        *("planned", "off by", "within 30 %"),
    ]
    note = (
        "100 trees of depth 10 over 100,000 × 40 (two parties), 50 ms and 100 Mbit/s between each "
        "party and the coordinator. Transfer: the exchanges of one chain of levels, which no tree "
        "can do without, times 50 ms, and the bytes of the busier direction."
    )
    return Finding("A slow line", header, [row], note)


def transfer_seconds(point: Mapping[str, Any]) -> float:
    """Return the time that the line alone takes."""
    n_chain = (point["exchanges"] - ONCE) / SLOTS + ONCE + AROUND
    busiest = max([*point["bytes_to"].values(), *point["bytes_from"].values()])
    return float(n_chain * ROUND_TRIP + busiest / BYTES_PER_SECOND)


ONCE, AROUND, SLOTS = 4, 2, 4  # exchanges outside of batches, around a run; batches side by side
ROUND_TRIP, BYTES_PER_SECOND = 0.05, 100e6 / 8


def two_runs(points: list[dict[str, Any]]) -> Finding:
    """Two runs one after the other, and at once."""
    each = min(sum(point["each"]) for point in points)
    together = min(point["together"] for point in points)
    row = [seconds(each), seconds(together), verdict(reached=together < each)]
    header = ["one after the other", "at once", "less than the sum"]
    note = "Two pairs of parties, 1,000,000 × 20 each, 10 trees of depth 8; seven processes."
    return Finding("Two runs of different parties", header, [row], note)


def plans(points: list[dict[str, Any]]) -> Finding:
    """Planned and real processor time and bytes of six shapes."""
    rows = []
    for point in points:
        off = point["planned_seconds"] / point["cpu"] - 1.0
        rows.append(
            [
                point["name"],
                seconds(point["planned_seconds"]),
                seconds(point["cpu"]),
                _percent(off),
                verdict(reached=abs(off) <= PLAN_WITHIN),
                megabytes(point["planned_bytes_from"]),
                megabytes(point["bytes"]),
            ]
        )
    header = [
        *("shape", "planned", "took", "off by", "within 30 %"),
        *("bytes from parties, planned", "sent"),
    ]
    note = "In one process on one thread, with speeds measured just before; processor time."
    return Finding("Plans and what runs took", header, rows, note)


def _percent(share: float) -> str:
    return f"{100 * share:+.0f} %"


def _most_of_parties(by_role: Mapping[str, float]) -> float:
    return max(n for name, n in by_role.items() if name != "coordinator")


def _per_row_base(points: Iterable[dict[str, Any]]) -> float | None:
    return next((p["wall"] / p["rows"] for p in points if p["rows"] == BASE_ROWS), None)


def _per_row(point: dict[str, Any], base: float | None) -> list[str]:
    if base is None or point["rows"] < BASE_ROWS:
        return [NOTHING, NOT_JUDGED]
    ratio = point["wall"] / point["rows"] / base
    return [times(ratio), verdict(reached=ratio <= MOST_PER_ROW)]
