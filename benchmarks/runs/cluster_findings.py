"""What `cluster.json` says: the price of shards, and whether forests are the same."""

from typing import Any

from fedforest.experiments.findings import (
    NOT_JUDGED,
    NOTHING,
    Finding,
    megabytes,
    seconds,
    unjudged,
    verdict,
)

MOST_OVERHEAD = 1.5  # times the local path, on two cores
BUSY_LOAD = 0.3  # above it processor time is judged


def find(result: dict[str, Any]) -> list[Finding]:
    """One line per number of shards, and one on equal bytes."""
    local = result["tasks"][0]
    is_busy = result["environment"]["load_at_start"] > BUSY_LOAD
    settings = result["settings"]
    found = [
        Finding(
            f"{settings['rows']:,} rows, two parties in one process, {settings['trees']} trees of "
            f"depth {settings['depth']}, two classes, read from Parquet; the parties' process has "
            f"{settings['threads']} threads",
            [
                "shards of each party",
                "clock",
                "processor",
                "clock / local",
                "processor / local",
                "verdict",
                "same bytes",
                "peak of the parties' process",
                "of a worker",
            ],
            [_line(run, local, is_busy=is_busy) for run in result["tasks"]],
        )
    ]
    kinds = [[kind, "yes" if all(same) else "NO"] for kind, same in result["equal"].items()]
    found.append(Finding("All kinds of labels", ["label", "same bytes as local"], kinds))
    if result["xgboost"] is not None:
        other = result["xgboost"]
        rows = [[str(other["workers"]), seconds(other["seconds"])]]
        title = "For orientation: XGBoost on Dask, pooled columns, a random forest of that size"
        found.append(Finding(title, ["workers", "clock"], rows))
    return [unjudged(each) for each in found] if settings["quick"] else found


def _line(run: dict[str, Any], local: dict[str, Any], *, is_busy: bool) -> list[str]:
    clock = run["seconds"] / local["seconds"]
    processor = run["processor_seconds"] / local["processor_seconds"]
    judged = processor if is_busy else clock
    is_local = run is local
    return [
        "local" if is_local else str(run["shards"]),
        seconds(run["seconds"]),
        seconds(run["processor_seconds"]),
        f"{clock:.2f}",
        f"{processor:.2f}",
        NOT_JUDGED if is_local else verdict(reached=judged <= MOST_OVERHEAD),
        "yes" if run["digest"] == local["digest"] else "NO",
        megabytes(run["peak_bytes"]),
        megabytes(max(run["worker_peak_bytes"])) if run["worker_peak_bytes"] else NOTHING,
    ]
