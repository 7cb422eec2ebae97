"""The result of a run on one page: scores beside those of parties alone, rows, cost, the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedforest.cli.leakage_page import explain, make_risk_table, summarise
from fedforest.cli.planning.plan_page import compare_with_plan
from fedforest.cli.terminal import Terminal, format_bytes, format_seconds, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.table import Table

    from fedforest.runtime.messages.results import Alignment, RunDetails, Scores, ValidationReport

SHORT_ID = 12  # digits of a run's id that tell it from others on one screen
_LOWER_IS_BETTER = ("log_loss", "rmse", "mae")
_MOST_CLASSES = 10  # of a confusion matrix that people can read
_UNSEEN = "(not in training)"


def show_details(terminal: Terminal, details: RunDetails, *, with_leakage: bool = False) -> None:
    """Print a run; who learned what in a few lines, or all of it."""
    if terminal.as_json:
        terminal.show_json(describe(details))
        return
    from rich.markup import escape

    for name, text in _facts(details):
        terminal.out.print(f"[bold]{name:<12}[/bold] {escape(text)}")
    if details.validation is not None:
        terminal.out.print(make_score_table(details.validation))
        confusion = make_confusion_table(details.validation.federated, details.classes)
        if confusion is not None:
            terminal.out.print(confusion)
    if details.leakage is not None:
        show_leakage(terminal, details.leakage, in_full=with_leakage)


def show_leakage(terminal: Terminal, leakage: Mapping[str, Any], *, in_full: bool) -> None:
    """Print who learned what: in full, or a few lines and the table of risks."""
    for line in (explain if in_full else summarise)(leakage):
        terminal.out.print(line, markup=False)
    if not in_full and leakage["attacks"]:
        terminal.out.print(make_risk_table(leakage))


def show_end(terminal: Terminal, details: RunDetails) -> None:
    """Print what a run came to that was watched; in JSON it is the last event."""
    if terminal.as_json:
        terminal.show_json({"event": "ended", **describe(details)})
    else:
        show_details(terminal, details)


def describe(details: RunDetails) -> dict[str, Any]:
    """Return a run in JSON's own types."""
    import msgspec

    content = {name: _name_fields(getattr(details, name)) for name in details.__struct_fields__[1:]}
    state: dict[str, Any] = msgspec.structs.asdict(details.state)
    return state | content


def _name_fields(value: Any) -> Any:
    """Structures travel without the names of their fields; readers of JSON want them."""
    import msgspec

    if isinstance(value, msgspec.Struct):
        return {name: _name_fields(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {name: _name_fields(part) for name, part in value.items()}
    return value


def _facts(details: RunDetails) -> Iterator[tuple[str, str]]:
    state, order = details.state, details.order
    yield "Run", f"{state.run}{f' ({state.name})' if state.name else ''}"
    yield "State", f"{state.state}{f': {state.doing}' if state.doing else ''}"
    yield "Order", _describe_order(state.protocol, order)
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


def _describe_order(protocol: str, order: dict[str, Any]) -> str:
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


def make_score_table(report: ValidationReport) -> Table:
    """Federated beside alone; the best figure of each score is bold."""
    from rich.markup import escape
    from rich.table import Table

    rows = {"federated": report.federated}
    rows |= {f"{party}'s rows, federated": score for party, score in report.by_party.items()}
    rows |= {f"{party} alone": score for party, score in report.alone.items()}
    names = list(dict.fromkeys(name for score in rows.values() for name in score.values))
    table = Table("model", "rows", *(escape(name.replace("_", " ")) for name in names))
    best = {name: _best(name, list(rows.values())) for name in names}
    for row, score in rows.items():
        cells = [_cell(score.values.get(name), best[name]) for name in names]
        table.add_row(escape(row), f"{score.n_rows:,}", *cells)
    return table


def _best(name: str, scores: list[Scores]) -> float:
    values = [score.values[name] for score in scores if name in score.values]
    return min(values) if name in _LOWER_IS_BETTER else max(values)


def _cell(value: float | None, best: float) -> str:
    if value is None:
        return "-"
    text = f"{value:.4f}" if abs(value) < 1000.0 else f"{value:.6g}"
    return f"[bold]{text}[/bold]" if value == best else text


def make_confusion_table(scores: Scores, classes: Sequence[Any] | None) -> Table | None:
    """Count rows by true and predicted class; return None where there are too many classes."""
    from rich.markup import escape
    from rich.table import Table

    if scores.confusion is None or len(scores.confusion) > _MOST_CLASSES:
        return None
    names = [escape(str(name)) for name in classes or ()]
    if len(names) > len(scores.confusion):
        return None  # the party that scored knows fewer classes than there are
    # training did not see the classes beyond these
    names += [_UNSEEN] * (len(scores.confusion) - len(names))
    table = Table("true class", *(f"predicted {name}" for name in names))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, row in zip(names, scores.confusion, strict=True):
        table.add_row(name, *(f"{count:,}" for count in row))
    return table
