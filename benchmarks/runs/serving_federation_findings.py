"""What `serving_federation.json` says: latency of single rows by id and rates of batches."""

from typing import Any

from fedforest.experiments.findings import Finding, verdict

MOST_P50_MS, MOST_P99_MS = 15.0, 60.0  # of one caller
LEAST_ROWS_PER_SECOND = 100_000.0  # in batches of 1,000 and more


def find(result: dict[str, Any]) -> list[Finding]:
    """One line per number of callers, and one per kind of batch."""
    settings = result["settings"]
    what = (
        f"{settings['parties']} parties, {settings['trees']} trees of depth {settings['depth']}, "
        f"{settings['columns']} columns"
    )
    return [
        Finding(
            f"One row by its id over HTTPS: {what}",
            ["callers", "requests/s", "p50", "target", "p99", "target", "verdict", "processor"],
            [_single(each) for each in result["single"]],
            "Callers of one user share exchanges. Targets are for one caller: with more, callers "
            "compete with coordinator and parties for the same cores. Processor: of all three "
            "processes for one request, quotas, policies, ledger and TLS included.",
        ),
        Finding(
            f"Batches of rows by their ids over HTTPS: {what}",
            ["callers", "rows each", "rows/s", "target", "verdict", "p50", "processor of a row"],
            [_batch(each) for each in result["batches"]],
            "By the clock, with all processes and callers on one machine.",
        ),
    ]


def _spent_ms(each: dict[str, Any]) -> float:
    return float(sum(each["processor_ms_per_request"].values()))


def _single(each: dict[str, Any]) -> list[str]:
    is_one = each["callers"] == 1
    reached = each["p50_ms"] <= MOST_P50_MS and each["p99_ms"] <= MOST_P99_MS
    return [
        str(each["callers"]),
        f"{each['rows_per_second']:,.0f}",
        f"{each['p50_ms']:.1f} ms",
        f"{MOST_P50_MS:.0f} ms" if is_one else "-",
        f"{each['p99_ms']:.1f} ms",
        f"{MOST_P99_MS:.0f} ms" if is_one else "-",
        verdict(reached=reached) if is_one else "-",
        f"{_spent_ms(each):.1f} ms",
    ]


def _batch(each: dict[str, Any]) -> list[str]:
    return [
        str(each["callers"]),
        f"{each['rows']:,}",
        f"{each['rows_per_second']:,.0f}",
        f"{LEAST_ROWS_PER_SECOND:,.0f}",
        verdict(reached=each["rows_per_second"] >= LEAST_ROWS_PER_SECOND),
        f"{each['p50_ms']:.0f} ms",
        f"{1e3 * _spent_ms(each) / each['rows']:.0f} µs",
    ]
