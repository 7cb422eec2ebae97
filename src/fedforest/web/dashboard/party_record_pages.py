"""What left a party, by run; the state of its ledger; and its own view of models."""

import threading
from collections import OrderedDict
from typing import Any

from starlette.responses import JSONResponse, Response

from fedforest.errors import FederationError
from fedforest.reports.facts import SHORT_ID
from fedforest.reports.formats import format_bytes
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import fact_list, section
from fedforest.reports.trees import list_nodes, list_own_nodes
from fedforest.runtime.disclosure.ledger_check import Verdict, check_ledger
from fedforest.runtime.disclosure.ledger_summary import RunSummary, report_run, summarise
from fedforest.runtime.party.models import PartyModels
from fedforest.runtime.party.spending import tell_epsilon
from fedforest.tree.files.forests import decode_forest, decode_partial
from fedforest.web.dashboard.layout import badge, code_block, notice, show_page
from fedforest.web.dashboard.tree_pages import describe_nodes, viewer
from fedforest.web.dashboard.visits import Refused, Visit

_MOST_SHOWN = 200


def show_records(visit: Visit) -> Response:
    """Show all runs that took something from this party, the newest first."""
    found = summarise(visit.site.home)
    shown = found[::-1][:_MOST_SHOWN]
    rows = [_describe_run(run) for run in shown]
    headings = ["Run", "From", "To", "Messages", "Bytes", "Known attacks it gives something to"]
    told: Child = table(headings, rows)
    if not rows:
        told = element("p", "Nothing has left this party yet.")
    rest = len(found) - len(shown)
    return show_page(
        visit,
        "Runs",
        section(
            "What took part",
            told,
            f"{rest:,} earlier ones: fedforest audit summary" if rest else "",
        ),
        lead="By this party's own ledger, whatever the coordinator says.",
    )


def _describe_run(run: RunSummary) -> list[Child]:
    name: Child = "outside of runs"
    if run.run:
        name = element("a", run.run[:SHORT_ID], href=f"/records/{run.run}")
    n_messages = sum(flow.n_messages for flow in run.flows.values())
    attacks = "; ".join(attack.risk for attack in run.attacks())
    return [
        name,
        run.first[:19],
        run.last[:19],
        f"{n_messages:,}",
        format_bytes(run.n_bytes),
        attacks,
    ]


def show_record(visit: Visit) -> Response:
    """Show what one run took from this party, and the party's own view of its model."""
    told = report_run(visit.site.home, _run_of(visit))
    rows: list[list[Child]] = [
        [
            flow.message,
            f"{flow.n_messages:,}" + (f" ({flow.n_repeated} again)" if flow.n_repeated else ""),
            format_bytes(flow.n_bytes),
            flow.reveals,
        ]
        for flow in told.flows.values()
    ]
    attacks: list[list[Child]] = [
        [attack.risk, attack.who, attack.how, attack.against] for attack in told.attacks()
    ]
    parts: list[Child] = [
        section("What left", table(["Message", "Times", "Bytes", "What it reveals"], rows)),
        _describe_epsilon(visit, told.run),
    ]
    if attacks:
        headings = ["Risk", "Who could", "How", "What helps"]
        parts.append(section("What could be worked out", table(headings, attacks)))
    parts.append(_view_model(visit, told.run))
    return show_page(
        visit,
        f"Run {told.run[:SHORT_ID]}",
        parts,
        trail=[("/records", "Runs")],
        lead=f"{format_bytes(told.n_bytes)} left from {told.first[:19]} to {told.last[:19]}.",
    )


def _run_of(visit: Visit) -> str:
    run = visit.path("run")
    if len(run) != 32 or not set(run) <= set("0123456789abcdef"):
        raise Refused(404, "the id of a run has 32 digits")
    return run


def _describe_epsilon(visit: Visit, run: str) -> Markup | None:
    facts: list[tuple[str, Child]] = []
    for data, state in tell_epsilon(visit.site.home, run).items():
        spent, left = state["spent"], state["left"]
        has_spent = "without noise" if spent is None else f"{spent:.4g} by all runs together"
        has_left = "no ceiling" if left is None else f"{left:.4g} left"
        facts.append((f"ε on labels of {data}", f"{has_spent}; {has_left}"))
    return section("Budget", fact_list(facts)) if facts else None


def _view_model(visit: Visit, run: str) -> Markup | None:
    models = PartyModels(visit.site.home / "models")
    if not models.has(run) or models.is_linear(run):
        return None
    try:
        names = models.column_names(run)
    except FederationError as error:
        return section("This party's view of the model", notice(str(error), kind="warn"))
    tree = visit.query("tree", "1")
    number = int(tree) if tree.isdecimal() and len(tree) < 7 else 1
    box = element("input", type="number", name="tree", id="tree", value=number, min=1, class_="few")
    choose = element(
        "form",
        element("label", "Tree ", for_="tree"),
        box,
        element("button", "Show", type="submit"),
        method="get",
        class_="actions",
    )
    told = (
        "Its own splits with their real columns and thresholds; those of others are theirs. "
        f"Its columns: {', '.join(names) or 'none'}."
    )
    return section(
        "This party's view of the model",
        element("p", told),
        choose,
        viewer(f"/records/{run}/trees/{max(1, number)}"),
    )


class _OwnForests:
    """The files of models that were opened lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def open(self, models: PartyModels, home: str, run: str) -> Any:
        """Return a partial forest, or a whole one, where it is not withdrawn."""
        models.check(run)
        with self._lock:
            if (home, run) not in self._kept:
                file = models.share(run)
                try:
                    self._kept[home, run] = decode_partial(file)
                except FederationError:
                    self._kept[home, run] = decode_forest(file)
                if len(self._kept) > 2:
                    self._kept.popitem(last=False)
            return self._kept[home, run]


_FORESTS = _OwnForests()


def send_own_tree(visit: Visit) -> Response:
    """Send a tree as this party knows it."""
    run, number = _run_of(visit), visit.path("tree")
    tree = int(number) - 1 if number.isdecimal() and len(number) < 7 else -1
    home = visit.site.home
    stored = _FORESTS.open(PartyModels(home / "models"), str(home), run)
    is_partial = hasattr(stored, "partial")
    shape = stored.partial.shape if is_partial else stored.forest.shape
    if not 0 <= tree < shape.n_trees:
        raise Refused(404, f"its trees are 1 to {shape.n_trees}")
    texts = list_own_nodes(stored, tree) if is_partial else list_nodes(stored, tree, {})
    return JSONResponse(describe_nodes(shape.children_of(tree).tolist(), texts))


def show_ledger(visit: Visit) -> Response:
    """Show whether the ledger is whole, and its end, for an auditor to keep."""
    verdict = check_ledger(visit.site.home)
    command = f"fedforest audit verify --home {visit.site.home} --expect {_end_of(verdict)}"
    return show_page(
        visit,
        "Ledger",
        section("Its state", _describe_verdict(verdict)),
        section(
            "For an auditor",
            element(
                "p",
                "Keep the end somewhere else; a later check against it finds whatever was changed "
                "in between:",
            ),
            element("div", code_block(command, "command"), class_="wrap"),
        ),
        lead="Every message that left this party is a record, chained to the one before.",
    )


def _end_of(verdict: Verdict) -> str:
    return f"{verdict.end.number}:{verdict.end.hash}"


def _describe_verdict(verdict: Verdict) -> list[Child]:
    state = badge("whole", "") if verdict.is_whole else badge("damaged", "bad")
    facts: list[tuple[str, Child]] = [
        ("State", state),
        ("Records", f"{verdict.n_records:,}"),
        ("End", element("code", _end_of(verdict))),
    ]
    parts: list[Child] = [fact_list(facts)]
    parts += [notice(line, kind="bad") for line in verdict.damage]
    parts += [notice(line) for line in verdict.notices]
    return parts
