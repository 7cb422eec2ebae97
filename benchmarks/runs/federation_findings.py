"""What `federation.json` says: every ratio, every target and whether it was reached.

The only place where targets are judged; the terminal, the figure and the page read it.
"""

from typing import Any

import numpy as np

from benchmarks.contestants import FEDERATED, SKLEARN
from fedforest.experiments.findings import (
    Finding,
    difference,
    digits,
    mean,
    megabytes,
    milliseconds,
    seconds,
    times,
    unjudged,
    verdict,
)

LIVE = "live federation"
LEAST_OVER_XGBOOST = 8.0
MOST_OVERHEAD = 0.35
MOST_OVER_ONE_PROCESS = 3.0
MOST_OVER_MODEL = 1.5
MOST_GROWTH = 1.05  # of memory, after the warm-up
MOST_NEW_FILES = 2  # connections that happen to be open at one look and not at another
PERCENTILES = (50, 99)


def find(result: dict[str, Any]) -> list[Finding]:
    """All findings of a federation run, in the order a reader wants them."""
    findings = [beside_sklearn(result), whereabouts(result)] if result["speed"] else []
    if result["xgboost"]:
        findings.append(beside_xgboost(result))
    if result["small"]:
        findings.append(small_data(result))
    if result["shaped"]:
        findings.append(slow_line(result))
    if result["serving"]:
        findings.append(serving(result))
    if result["soak"]:
        findings.append(soak(result))
    findings.append(settings(result))
    is_quick = result["settings"]["quick"]
    return [unjudged(finding) for finding in findings] if is_quick else findings


def beside_sklearn(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["speed"]:
        ours, theirs = task["ours"], task["theirs"]
        ratio = min(theirs["wall"]) / min(ours["wall"])
        rows.append(
            [
                task["title"],
                times(ratio),
                times(task["target"]),
                verdict(reached=ratio >= task["target"]),
                *(seconds(min(costs["wall"])) for costs in (ours, theirs)),
                f"{mean(ours['score']):.4f}",
                difference(ours["score"], theirs["score"]),
                str(len(ours["wall"])),
            ]
        )
    header = [
        *("task", "faster", "target", "verdict", LIVE, SKLEARN, "accuracy"),
        *("less scikit-learn's", "repeats"),
    ]
    note = (
        "Coordinator and two parties, three processes over mutual TLS, beside scikit-learn's "
        "forest with all columns in one process. From the user's order to its result, journals on "
        "disk and binning included, reading the tables' files not. Best of the repeats, in turns."
    )
    return Finding("A live federation beside scikit-learn", header, rows, note)


def divide(phases: dict[str, float]) -> dict[str, float]:
    """Seconds of a training by what they were spent on; they add up to its wall time."""
    kernels = phases["handling"] + phases["thinking"]
    rest = phases["wall"] - kernels - phases["network"]
    journal = min(phases["journal"], max(0.0, rest))
    return {
        "kernels": kernels,
        "network": phases["network"],
        "journals": journal,
        "everything else": rest - journal,
    }


def overhead(phases: dict[str, float], network: str = "network") -> float:
    """The share of a training that is neither kernel nor network, or an `idle` one."""
    parts = divide({**phases, "network": phases[network]})
    return (parts["journals"] + parts["everything else"]) / phases["wall"]


def whereabouts(result: dict[str, Any]) -> Finding:
    rows = []
    for task in result["speed"]:
        share = overhead(task["phases"])
        rows.append(
            [
                task["title"],
                f"{share:.0%}",
                f"{MOST_OVERHEAD:.0%}",
                verdict(reached=share < MOST_OVERHEAD),
                f"{overhead(task['phases'], 'idle'):.0%}",
                *map(milliseconds, divide(task["phases"]).values()),
                milliseconds(task["phases"]["wall"]),
                str(task["exchanges"]),
            ]
        )
    header = [
        *("task", "neither kernel nor network", "target, below", "verdict", "over an idle network"),
        *("kernels", "network", "journals", "everything else", "in all", "exchanges"),
    ]
    note = (
        "The best training of each task. Kernels: what protocols do with messages, at the "
        "coordinator and, in each exchange, at the party that takes longest. Network: as many "
        "equally long messages between as many processes over gRPC and mutual TLS, without any of "
        "our code; before a party answers it computes for as long as it did in the training, which "
        "is taken off, because what wakes after work is slower than what never sleeps. Over an "
        "idle network: the same share if messages were sent in a tight loop instead. Journals: "
        "both sides wait for their disks, which here is one disk. Everything else: encoding, "
        "copying, framing, scheduling, logs, reading columns, storing the model."
    )
    return Finding("Where the time goes", header, rows, note)


def beside_xgboost(result: dict[str, Any]) -> Finding:
    compared = result["xgboost"]
    ours, theirs = compared["ours"], compared["theirs"]
    ratio = min(theirs["wall"]) / min(ours["wall"])
    row = [
        compared["title"],
        times(ratio),
        times(LEAST_OVER_XGBOOST),
        verdict(reached=ratio >= LEAST_OVER_XGBOOST),
        *(seconds(min(costs["wall"])) for costs in (ours, theirs)),
    ]
    header = ["task", "faster", "target", "verdict", LIVE, "xgboost.federated"]
    note = (
        "XGBoost's vertical federation of two parties as three processes, plaintext and without "
        "TLS or journals; ours with both. Best of the repeats."
    )
    return Finding("Beside XGBoost's federation", header, [row], note)


def small_data(result: dict[str, Any]) -> Finding:
    small = result["small"]
    live, alone = (min(small["wall"][name]) for name in (LIVE, FEDERATED))
    row = [
        small["title"],
        f"{live / alone:.2f}×",
        f"{MOST_OVER_ONE_PROCESS}×",
        verdict(reached=live <= MOST_OVER_ONE_PROCESS * alone),
        *map(seconds, (live, alone)),
        str(len(small["wall"][LIVE])),
    ]
    header = ["task", "over one process", "target, at most", "verdict", LIVE, FEDERATED, "repeats"]
    note = "Small data, where messages weigh most. Best of the repeats, in turns."
    return Finding("Beside the same training in one process", header, [row], note)


def expected_seconds(shaped: dict[str, Any]) -> float:
    """Exchanges times round trip, bytes over bandwidth, and the seconds on loopback."""
    line = shaped["line"]
    travel = shaped["exchanges"] * line["round_trip_seconds"]
    return float(
        travel + shaped["bytes"] / line["bytes_per_second"] + min(shaped["wall"]["loopback"])
    )


def slow_line(result: dict[str, Any]) -> Finding:
    rows = []
    for shaped in result["shaped"]:
        wall, expected = min(shaped["wall"]["line"]), expected_seconds(shaped)
        rows.append(
            [
                shaped["title"],
                f"{wall / expected:.2f}×",
                f"{MOST_OVER_MODEL}×",
                verdict(reached=wall <= MOST_OVER_MODEL * expected),
                *map(seconds, (wall, expected, min(shaped["wall"]["loopback"]))),
                str(shaped["exchanges"]),
                megabytes(shaped["bytes"]),
            ]
        )
    header = [
        *("task", "over expected", "target, at most", "verdict", "slow line", "expected"),
        *("loopback", "exchanges", "bytes"),
    ]
    line = result["shaped"][0]["line"]
    note = (
        f"Every party behind {line['round_trip_seconds'] * 1000:.0f} ms of round trip and "
        f"{line['bytes_per_second'] * 8 / 1e6:.0f} Mbit/s each way, by a proxy. Expected: "
        "exchanges times round trip, the bytes of each exchange's busiest party over the "
        "bandwidth, and the same training on loopback."
    )
    return Finding("On a slow line", header, rows, note)


def serving(result: dict[str, Any]) -> Finding:
    rows = [
        [
            f"{measured['callers']} at once" if measured["callers"] > 1 else "one",
            f"{measured['rows']:,}",
            digits(measured["rows"] * len(measured["seconds"]) / measured["wall"]),
            *(milliseconds(np.percentile(measured["seconds"], q)) for q in PERCENTILES),
            f"{len(measured['seconds'])}",
        ]
        for measured in result["serving"]
    ]
    header = ["callers", "rows of a call", "rows per second", "p50", "p99", "calls"]
    note = (
        "Predictions of a forest of 20 trees of depth 10, as a user waits for them; rows are named "
        "by their numbers in the parties' data sets."
    )
    return Finding("Vertical prediction", header, rows, note)


def soak(result: dict[str, Any]) -> Finding:
    first, last = result["soak"][0], result["soak"][-1]
    rows = []
    for role in first["files"]:
        memory = [look["resident_bytes"][role] for look in (first, last)]
        files = [look["files"][role] for look in (first, last)]
        is_flat = memory[1] <= MOST_GROWTH * memory[0] and files[1] <= files[0] + MOST_NEW_FILES
        rows.append([role, *map(megabytes, memory), *map(str, files), verdict(reached=is_flat)])
    header = [
        *("process", f"memory after {first['runs']} runs", f"after {last['runs']}"),
        *(f"open files after {first['runs']} runs", f"after {last['runs']}", "flat"),
    ]
    note = (
        f"Trainings one after the other in the same processes; flat: at most {MOST_GROWTH - 1:.0%} "
        f"more memory and {MOST_NEW_FILES} more files."
    )
    return Finding("Many trainings", header, rows, note)


def settings(result: dict[str, Any]) -> Finding:
    used = result["settings"]
    rows = [[name, note] for name, note in result["contestants"].items()]
    rows.append(
        [
            LIVE,
            f"a coordinator with {used['threads']} threads and two parties with "
            f"{used['threads_per_party']} each, every one a process of its own; each party has "
            "half of the columns in a Parquet file",
        ]
    )
    rows += [[name, f"not run: {reason}"] for name, reason in result["skipped"].items()]
    note = f"Others: {used['threads']} threads. All processes on one machine, over loopback."
    return Finding("Who took part, and how", ["who", "setting"], rows, note)
