"""What is told about a run, once for the terminal, for pages and for files: facts, scores, classes.

Texts are plain: who shows them escapes what its form needs escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from fedforest.reports.formats import format_bytes, format_score, format_seconds, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fedforest.runtime.messages.results import Alignment, RunDetails, Scores, ValidationReport

SHORT_ID = 12  # digits of a run's id that tell it from others on one screen
_LOWER_IS_BETTER = ("log_loss", "rmse", "mae")
_MOST_CLASSES = 10  # of a confusion matrix that people can read
_UNSEEN = "(not in training)"


class ScoreCell(NamedTuple):
    """A score as text, and whether it is the best of its kind."""

    text: str
    is_best: bool = False


class ScoreTable(NamedTuple):
    """Scores by model: the federated one beside those of parties alone."""

    names: list[str]
    rows: list[tuple[str, int, list[ScoreCell]]]  # model, rows it was scored on, scores


class ConfusionTable(NamedTuple):
    """Rows by true class (down) and predicted class (across)."""

    classes: list[str]
    counts: list[list[int]]


def describe(details: RunDetails) -> dict[str, Any]:
    """Return a run in JSON's own types."""
    content = {name: _name_fields(getattr(details, name)) for name in details.__struct_fields__[1:]}
    state: dict[str, Any] = msgspec.structs.asdict(details.state)
    return state | content


def _name_fields(value: Any) -> Any:
    """Structures travel without the names of their fields; readers of JSON want them."""
    if isinstance(value, msgspec.Struct):
        return {name: _name_fields(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {name: _name_fields(part) for name, part in value.items()}
    return value


def list_facts(details: RunDetails) -> Iterator[tuple[str, str]]:
    """Yield (name, text): the request, its times, traffic, rows and model."""
    state, order = details.state, details.order
    yield "Run", f"{state.run}{f' ({state.name})' if state.name else ''}"
    yield "State", f"{state.state}{f': {state.doing}' if state.doing else ''}"
    yield "Order", describe_order(state.protocol, order)
    yield "Ordered", f"{format_time(state.created)} by {state.user.rpartition('/')[2]}"
    if details.shared_with:
        yield "Shared with", ", ".join(details.shared_with)
    if details.started is not None and state.ended is not None:
        yield "Ended", f"{format_time(state.ended)}, {_duration(details)} after it began"
    if state.n_exchanges:
        yield "Exchanges", f"{state.n_exchanges}, {format_bytes(state.n_bytes)} in all"
        yield "Sent", _list_traffic(details.bytes_from)
        yield "Received", _list_traffic(details.bytes_to)
    if details.plan is not None:
        yield "Planned", compare_with_plan(details)
    if details.alignment is not None:
        yield "Rows", describe_alignment(details.alignment)
    elif details.n_rows is not None:
        yield "Rows", f"{details.n_rows:,}"
    if details.model is not None:
        yield "Model", f"{details.model}{_where_it_is(state.protocol)}"


def compare_with_plan(details: RunDetails) -> str:
    """Say what a run was planned to take, beside what it took so far, party by party."""
    planned = details.plan or {}
    texts = []
    if details.started is not None and details.state.ended is not None:
        took = details.state.ended - details.started
        texts.append(f"{format_seconds(planned['seconds'])} (took {format_seconds(took)})")
    else:
        texts.append(format_seconds(planned["seconds"]))
    for party, n_bytes in planned["bytes_from"].items():
        sent = details.bytes_from.get(party, 0)
        texts.append(f"{party} sends {format_bytes(n_bytes)} (sent {format_bytes(sent)})")
    if details.peak_memory_bytes is not None:
        memory, peak = planned["memory_bytes"][""], details.peak_memory_bytes
        texts.append(
            f"coordinator's memory {format_bytes(memory)} (its peak {format_bytes(peak)}, with all "
            "that it did before)"
        )
    return "; ".join(texts)


def describe_order(protocol: str, order: dict[str, Any]) -> str:
    """Describe what a run was asked to train."""
    parties = ", ".join(f"{party} ({data})" for party, data in order["data"].items())
    if "label" not in order:
        return f"{protocol} of {parties}"
    owner = f" of {order['label_party']}" if "label_party" in order else ""
    about = f"over {parties}; label {order['label']!r}{owner}"
    if "parameters" not in order:
        task = "regression" if order["is_regression"] else "classification"
        return f"{protocol} {task} {about}"
    task, trees = order["parameters"]["task"], order["parameters"]["n_estimators"]
    return f"{protocol} {task}, {trees} trees {about}"


def _duration(details: RunDetails) -> str:
    assert details.started is not None
    assert details.state.ended is not None
    return format_seconds(details.state.ended - details.started)


def _list_traffic(bytes_by_party: dict[str, int]) -> str:
    return ", ".join(f"{party} {format_bytes(n)}" for party, n in bytes_by_party.items())


def describe_alignment(alignment: Alignment) -> str:
    """Describe how many rows all parties have."""
    of_all = ", ".join(f"{party} {n:,}" for party, n in alignment.n_rows.items())
    twice = {party: n for party, n in alignment.n_duplicates.items() if n}
    left_out = ", ".join(f"{party} {n:,}" for party, n in twice.items())
    note = f"; ids that stand twice are left out: {left_out}" if twice else ""
    kept = ""
    if alignment.standing and alignment.expires is not None:
        kept = f"; standing alignment {alignment.standing}, until {format_time(alignment.expires)}"
    return f"{alignment.n_common:,} that all parties have, of {of_all}{note}{kept}"


def _where_it_is(protocol: str) -> str:
    if protocol == "vertical":
        return ": each party holds its own splits, the coordinator the rest"
    if protocol == "linear":
        return ": each party holds its own coefficients, the coordinator the intercept"
    return ": every party and the coordinator hold all of it"


def tabulate_scores(report: ValidationReport) -> ScoreTable:
    """Return the federated scores beside those of each party alone."""
    scores = {"federated": report.federated}
    scores |= {f"{party}'s rows, federated": score for party, score in report.by_party.items()}
    scores |= {f"{party} alone": score for party, score in report.alone.items()}
    names = list(dict.fromkeys(name for score in scores.values() for name in score.values))
    best = {name: _best(name, list(scores.values())) for name in names}
    rows = [
        (model, score.n_rows, [_cell(score.values.get(name), best[name]) for name in names])
        for model, score in scores.items()
    ]
    return ScoreTable([name.replace("_", " ") for name in names], rows)


def _best(name: str, scores: list[Scores]) -> float:
    values = [score.values[name] for score in scores if name in score.values]
    return min(values) if name in _LOWER_IS_BETTER else max(values)


def _cell(value: float | None, best: float) -> ScoreCell:
    return ScoreCell("-") if value is None else ScoreCell(format_score(value), value == best)


def tabulate_confusion(scores: Scores, classes: Sequence[Any] | None) -> ConfusionTable | None:
    """Count rows by true and predicted class; return None where there are too many classes."""
    if scores.confusion is None or len(scores.confusion) > _MOST_CLASSES:
        return None
    names = [str(name) for name in classes or ()]
    if len(names) > len(scores.confusion):
        return None  # the party that scored knows fewer classes than there are
    # training did not see the classes beyond these
    names += [_UNSEEN] * (len(scores.confusion) - len(names))
    return ConfusionTable(names, scores.confusion)
