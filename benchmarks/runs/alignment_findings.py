"""What `alignment.json` says: time, processor time and memory of alignments, beside targets."""

from typing import Any

from fedforest.experiments.findings import (
    NOT_JUDGED,
    NOTHING,
    Finding,
    megabytes,
    seconds,
    verdict,
)

TARGETS = {
    100_000: 12.0,
    1_000_000: 120.0,
}  # seconds by the clock, of an intersection, on two cores
ANCHORS = {100_000: 2.1, 1_000_000: 19.8}  # processor seconds of spu's ECDH, as its figures say
N_CORES = 2
BUSY_LOAD = 0.3  # above it, others slow the clock down


def find(result: dict[str, Any]) -> list[Finding]:
    """One line per size and kind."""
    is_busy = result["environment"]["load_at_start"] > BUSY_LOAD
    return [
        Finding(
            "Two parties, half of their ids common, every role a process",
            [
                "ids each",
                "kind",
                "clock",
                "target",
                "verdict",
                "processor",
                "over 2 cores",
                "spu ECDH, processor",
                "peak of a party",
                "of the coordinator",
            ],
            [_row(task, is_busy=is_busy) for task in result["tasks"]],
            "Processor time is of all processes together; over 2 cores, what it comes to by the "
            "clock where nothing else runs. Peaks are of whole processes, with the interpreter and "
            "libraries; a party that has begun holds about "
            f"{megabytes(_base(result))}. An extension compares the ids that are new only. A "
            f"target counts as missed where the load was below {BUSY_LOAD} when it began: "
            "others slow the clock down.",
        )
    ]


def _row(task: dict[str, Any], *, is_busy: bool) -> list[str]:
    n_ids, kind, peaks = task["ids"], task["kind"], dict(task["peak_bytes"])
    target = TARGETS.get(n_ids) if kind == "psi" else None
    anchor = ANCHORS.get(n_ids) if kind == "psi" else None
    of_coordinator = peaks.pop("coordinator")
    return [
        f"{n_ids:,}",
        kind,
        seconds(task["seconds"]),
        seconds(target),
        NOTHING if target is None else _judge(task["seconds"], target, is_busy=is_busy),
        seconds(task["processor_seconds"]),
        seconds(task["processor_seconds"] / N_CORES),
        seconds(anchor),
        megabytes(max(peaks.values())),
        megabytes(of_coordinator),
    ]


def _judge(clock: float, target: float, *, is_busy: bool) -> str:
    return NOT_JUDGED if is_busy and clock > target else verdict(reached=clock <= target)


def _base(result: dict[str, Any]) -> float:
    before = [task["bytes_before"] for task in result["tasks"] if task["kind"] == "keyed-hash"]
    return float(min(n for each in before for name, n in each.items() if name != "coordinator"))
