"""What `encrypted.json` says: forests with encrypted labels, single operations, and growth."""

from typing import Any

from fedforest.experiments.findings import (
    NOTHING,
    Finding,
    digits,
    megabytes,
    seconds,
    times,
    verdict,
)

TREE_TARGETS = {
    "two classes": 0.5,
    "two classes, 100,000 rows": 3.0,
    "ten classes": 2.0,
    "numbers": 2.0,
}  # seconds by the clock, on two cores
RATE_TARGETS = {"additions": 4e6, "encryptions": 1e5, "rerandomisations": 1e5}  # per core
# Seconds per tree at 5,000 rows and 40 columns, of 2 parties and depth 6; measured once, on a
# machine like this: SecretFlow 1.14 SGB with OU-2048, FATE 2.2 SecureBoost and FedTree 1.0.5 with
# Paillier.
PEERS = {"SecretFlow": 18.0, "FATE": 39.0, "FedTree": 48.0}
QUANTITIES = {"rows": "rows", "columns": "columns", "bins": "bins", "classes": "classes"}


def find(result: dict[str, Any]) -> list[Finding]:
    """Tables of trees, of operations, of levels and of growth."""
    found = [_trees(result), _operations(result["operations"]), _levels(result)]
    return found + ([_growth(result["growth"])] if result["growth"] else [])


def per_tree(task: dict[str, Any], how: str = "encrypted", key: str = "seconds") -> float:
    """Seconds of one tree of a forest, binning and encryption included."""
    return float(task[how][key] / task["trees"])


def _trees(result: dict[str, Any]) -> Finding:
    rows = []
    for name, task in result["tasks"].items():
        clock, processor = per_tree(task), per_tree(task, key="processor_seconds")
        target = TREE_TARGETS[name]
        rows.append(
            [
                name,
                f"{task['rows']:,} x {task['columns']}",
                seconds(processor),
                seconds(target),
                verdict(reached=min(processor, clock) <= target),
                seconds(clock),
                seconds(per_tree(task, "encoded", "processor_seconds")),
                "yes" if task["is_same"] else "NO",
            ]
        )
    peers = ", ".join(f"{name} {digits(value)} s" for name, value in PEERS.items())
    return Finding(
        "One tree with encrypted labels, two parties in one process, depth 6, 32 bins",
        [
            "task",
            "table",
            "processor",
            "target",
            "verdict",
            "clock",
            "encoded, processor",
            "same predictions",
        ],
        rows,
        f"Mean over 20 trees, with binning and encryption. A tree of peers at 5,000 x 40 takes: "
        f"{peers}, by figures measured once on a quiet machine of 2 cores. The clock is that of a "
        "machine with the load that stands above. No role waits for anything but the processor, so "
        "where nothing else runs the clock shows less than the processor time of all threads.",
    )


def _operations(measured: dict[str, Any]) -> Finding:
    own, rivals = measured["per second"], measured.get("rivals, per second", {})
    names = ["additions", "encryptions", "rerandomisations", "decodings", "decryptions"]
    rows = []
    for name in names:
        target = RATE_TARGETS.get(name)
        rows.append(
            [
                name,
                digits(own[name]),
                NOTHING if target is None else digits(target),
                NOTHING if target is None else verdict(reached=own[name] >= target),
                *(digits(rival[name]) if name in rival else NOTHING for rival in rivals.values()),
            ]
        )
    facts = measured["environment"]
    return Finding(
        "Operations per second of one core, ciphertexts of two classes",
        ["operation", "fedforest", "target", "verdict", *rivals],
        rows,
        f"Processor time, `benchmarks/micro/homomorphic.py` at commit `{facts['commit']}`, "
        f"{facts['date']}; rivals side by side with it, each in its own form of ciphertext.",
    )


def _levels(result: dict[str, Any]) -> Finding:
    tasks = result["tasks"]
    most = max(len(task["encrypted"]["bytes_by_level"]) for task in tasks.values())
    rows = []
    for name, task in tasks.items():
        levels = task["encrypted"]["bytes_by_level"]
        told = [megabytes(level / task["trees"]) for level in levels]
        encoded = sum(task["encoded"]["bytes_by_level"]) / task["trees"]
        whole = sum(levels) / task["trees"]
        padded = told + [NOTHING] * (most - len(told))
        rows.append([name, *padded, megabytes(whole), times(whole / encoded)])
    header = ["task", *(f"level {level}" for level in range(most)), "one tree", "times encoded"]
    return Finding(
        "Bytes per level and tree, to and from all parties",
        header,
        rows,
        "Ciphertexts of labels, once for a forest, are not in it: 64 bytes for each row of two "
        "classes, 32 more for every further class or digit of a number, for each other party.",
    )


def _growth(growth: dict[str, Any]) -> Finding:
    rows = [
        [
            f"{point[quantity]:,} {QUANTITIES[quantity]}",
            seconds(per_tree(point, key="processor_seconds")),
            megabytes(sum(point["encrypted"]["bytes_by_level"]) / point["trees"]),
        ]
        for quantity, points in growth.items()
        for point in points
    ]
    return Finding(
        "Growth, one quantity at a time",
        ["from 5,000 rows, 40 columns, 32 bins, 2 classes", "processor, one tree", "bytes"],
        rows,
        "Sums grow with rows; re-randomising and decrypting with the different cuts of a node, and "
        "so with columns (their square root), bins, and with classes where counts do not fit one "
        "plaintext.",
    )
