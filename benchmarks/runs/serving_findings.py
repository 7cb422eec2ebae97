"""What `serving.json` says: time of an answer, rates and latencies, beside targets."""

from typing import Any

from fedforest.experiments.findings import Finding, verdict

MOST_MICROSECONDS = 30.0  # of one row inside the server
LEAST_PER_CORE = 5_000.0  # requests of one row a second


def find(result: dict[str, Any]) -> list[Finding]:
    """One line per model, and one per number of callers."""
    trees, columns = result["settings"]["trees"], result["settings"]["columns"]
    return [
        Finding(
            f"One row inside the server: {trees} trees, {columns} columns",
            ["model", "answer", "target", "verdict", "predict_proba", "row of a batch"],
            [
                [
                    each["model"],
                    f"{each['answer']:.1f} µs",
                    f"{MOST_MICROSECONDS:.0f} µs",
                    verdict(reached=each["answer"] <= MOST_MICROSECONDS),
                    f"{each['estimator']:.0f} µs",
                    f"{each['batch_row']:.1f} µs",
                ]
                for each in result["answers"]
            ],
            "Processor time, from parsed rows to predictions and probabilities; the fitted "
            "estimator answers the same row beside it.",
        ),
        Finding(
            "Requests to `fedforest serve`, a process of one event loop",
            [
                "callers",
                "rows each",
                "requests/s by the clock",
                "requests/s of a server core",
                "target",
                "verdict",
                "p50",
                "p99",
                "rows/s of a server core",
            ],
            [_row(each) for each in result["requests"]],
            "By the clock, callers compete with the server for two cores; a server core is the "
            "server's own processor time, HTTP and JSON included.",
        ),
    ]


def _row(each: dict[str, Any]) -> list[str]:
    is_single = each["rows"] == 1
    rate = each["per_server_core"]
    return [
        str(each["callers"]),
        f"{each['rows']:,}",
        f"{each['per_second']:,.0f}",
        f"{rate:,.0f}",
        f"{LEAST_PER_CORE:,.0f}" if is_single else "-",
        verdict(reached=rate >= LEAST_PER_CORE) if is_single else "-",
        f"{each['p50_ms']:.2f} ms",
        f"{each['p99_ms']:.2f} ms",
        f"{rate * each['rows']:,.0f}",
    ]
