"""Ours beside XGBoost's federation: the same table for columns and for rows at two parties."""

from typing import Any

from fedforest.experiments.findings import Finding, mean, seconds, times, verdict


def compare(compared: dict[str, Any], name: str, least: float, note: str) -> Finding:
    """How many times faster ours is, judged by `least`; `name` is what ours is called."""
    ours, theirs = compared["ours"], compared["theirs"]
    ratio = min(theirs["wall"]) / min(ours["wall"])
    row = [
        compared["title"],
        times(ratio),
        times(least),
        verdict(reached=ratio >= least),
        *(seconds(min(costs["wall"])) for costs in (ours, theirs)),
        *(seconds(min(costs["cpu"])) for costs in (ours, theirs)),
        *(f"{mean(costs['score']):.4f}" for costs in (ours, theirs)),
    ]
    header = [
        *("task", "faster", "target", "verdict", name, "xgboost.federated"),
        *("processor time", "theirs", "accuracy", "theirs"),
    ]
    return Finding("Two parties beside XGBoost's federation", header, [row], note)
