"""The leakage report of a run as text: a few lines, or everything in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedforest.reports.formats import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def summarise(leakage: Mapping[str, Any]) -> Iterator[str]:
    """Summarise what each role received, the smallest groups of rows, and the noise on labels."""
    for who, entries in _by_role(leakage).items():
        n_messages = sum(entry["count"] for entry in entries)
        n_bytes = sum(entry["bytes"] for entry in entries)
        if n_bytes:  # the user receives the result and no message of a party
            yield f"{who} received {n_messages} messages, {format_bytes(n_bytes)}"
    figures = leakage["figures"]
    if "smallest_leaf_allowed" in figures:
        yield _describe_groups(figures)
    if "label_epsilon_spent" in figures:
        epsilon = figures["label_epsilon_spent"]
        yield "labels had no noise" if epsilon is None else f"epsilon spent on labels {epsilon:g}"


def _describe_groups(figures: Mapping[str, Any]) -> str:
    allowed, told, found = (
        figures[name]
        for name in ("smallest_leaf_allowed", "smallest_side_told", "smallest_group_of_rows")
    )
    leaf = f"smallest leaf allowed: {allowed} {'row' if allowed == 1 else 'rows'}"
    side = "a single row" if told == 1 else f"{told} rows"
    seen = "" if found is None else f"; the smallest child of a split had {found}"
    return f"{leaf}; sides of cuts told of may hold {side}{seen}"


def explain(leakage: Mapping[str, Any]) -> Iterator[str]:
    """Everything: what each kind of message told whom, what follows, and the attacks."""
    for who, entries in _by_role(leakage).items():
        yield f"What messages told {who}:"
        for entry in entries:
            what = f"{entry['message']} from {entry['from']} x {entry['count']}"
            yield f"  {what}, {format_bytes(entry['bytes'])}: {entry['reveals']}"
    who = ""
    for entry in leakage["follows"]:
        if entry["who"] != who:
            who = entry["who"]
            yield f"{who}:"
        yield f"  - {entry['what']}"
    for attack in leakage["attacks"]:
        yield f"Known attack, {attack['name']} ({attack['who']}): {attack['how']}."
        yield f"  Against it: {attack['against']}."


def _by_role(leakage: Mapping[str, Any]) -> dict[str, list[Any]]:
    roles: dict[str, list[Any]] = {}
    for entry in leakage["learned"]:
        roles.setdefault(entry["who"], []).append(entry)
    return roles
