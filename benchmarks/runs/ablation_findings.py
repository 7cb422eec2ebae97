"""What `ablations.json` says: the worth of every fast path on every table."""

from typing import Any

from fedforest.experiments.findings import NOTHING, Finding

LEAST_WORTH = 0.05
AGAIN = "as it is, again"


def find(result: dict[str, Any]) -> list[Finding]:
    """One line per path, one column per task that takes it."""
    tasks = result["tasks"]
    homes = {name: home for task in tasks for name, home in task["homes"].items()}
    findings = []
    for work in dict.fromkeys(task["name"].split(", ")[0] for task in tasks):
        own = [task for task in tasks if task["name"].startswith(work)]
        names = [name for name in homes if any(name in task["ratios"] for task in own)]
        rows = [_row(f"{name} (`{homes[name]}`)", name, own) for name in names]
        findings.append(
            Finding(
                f"Fast paths of {work}",
                ["path", *(f"{_table(task)}, {task['milliseconds']:.0f} ms" for task in own)],
                [*rows, _row("noise: nothing switched off", AGAIN, own)],
                f"What the task takes more, CPU / wall, where the path is switched off "
                f"({result['settings']['trees']} trees, CPU of the best repeat in the heading). A "
                f"path below {LEAST_WORTH:.0%} everywhere goes or says on its line why it stays.",
            )
        )
    return findings


def _table(task: dict[str, Any]) -> str:
    return str(task["name"].split(", ")[1])


def _row(label: str, name: str, tasks: list[dict[str, Any]]) -> list[str]:
    return [label, *(_cell(task["ratios"].get(name)) for task in tasks)]


def _cell(ratios: dict[str, float] | None) -> str:
    if ratios is None:
        return NOTHING
    return f"{ratios['cpu'] - 1:+.1%} / {ratios['wall'] - 1:+.1%}"
