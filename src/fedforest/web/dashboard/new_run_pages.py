"""New run: a form that writes a run.toml, checked and planned while it is written."""

from collections.abc import Mapping, Sequence
from typing import Literal

from starlette.responses import RedirectResponse, Response

from fedforest.errors import AccessRefused, FederationError
from fedforest.estimators.live_plans import plan_live
from fedforest.estimators.run_files import order_run
from fedforest.reports.formats import format_bytes, format_seconds
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import details as shown_on_demand
from fedforest.runtime.client.run_files import read_run_text
from fedforest.runtime.messages.orders import AnyRun, ListRuns, RunFilter, ShowStatus
from fedforest.runtime.messages.results import RunList
from fedforest.runtime.messages.status import FederationStatus
from fedforest.runtime.planning.plans import RunPlan, can_plan
from fedforest.runtime.trainings.registry import check_run
from fedforest.web.dashboard.layout import (
    as_lines,
    code_block,
    labelled,
    notice,
    select,
    show_page,
    show_part,
)
from fedforest.web.dashboard.privacy_pages import find_run
from fedforest.web.dashboard.run_form import AS_FILE, DEFAULTS, PARTY, read_order, write_run_file
from fedforest.web.dashboard.visits import Visit

_N_EARLIER = 8  # runs whose data sets are offered
_LONGEST = 60_000  # of a file


def show_form(visit: Visit) -> Response:
    """Show the form, empty or filled as an earlier run."""
    door = visit.site.door(visit)
    fields = dict(DEFAULTS)
    like = visit.query("like")
    if len(like) == 32:
        details = find_run(door, like)
        if details is not None and "label" in details.order:
            fields = read_order(details.order, details.state.protocol)
    return _show(visit, fields, as_file=visit.query("as") == "file")


def check_form(visit: Visit) -> Response:
    """Say what the form describes, what is wrong with it, and what the run would take."""
    text = write_run_file(visit.form)[:_LONGEST]
    return show_part(_describe(visit, text, is_file=AS_FILE in visit.form))


def begin_run(visit: Visit) -> Response:
    """Order the run that the form describes."""
    text = write_run_file(visit.form)[:_LONGEST]
    file = None
    try:
        file = read_run_text(text)
        run = visit.site.door(visit).begin(order_run(file))
    except AccessRefused:
        raise
    except FederationError as error:
        told = str(error if file is None else file.point_at(error))
        as_file = AS_FILE in visit.form
        return _show(visit, dict(visit.form), as_file=as_file, trouble=told)
    return RedirectResponse(f"/runs/{run}", 303)


def _show(visit: Visit, fields: Mapping[str, str], *, as_file: bool, trouble: str = "") -> Response:
    door = visit.site.door(visit)
    status = door.ask(ShowStatus(), FederationStatus)
    inner = _edit_file(fields) if as_file else _edit_fields(visit, fields, status)
    form = element(
        "form",
        element("input", type="hidden", name="by", value=visit.session.form_token),
        inner,
        element(
            "div",
            element("button", "Start the run", type="submit", class_="main-button"),
            class_="actions",
        ),
        method="post",
        action="/runs/new",
        id="new-run",
        data_check="/runs/new/check",
        data_target="checked",
        autocomplete="off",
    )
    text = write_run_file(fields)
    beside = element(
        "div",
        element("div", _describe(visit, text, is_file=as_file, plans=False), id="checked"),
        class_="sticky",
        aria_live="polite",
    )
    other = (
        element("a", "Fill in a form instead", href="/runs/new")
        if as_file
        else element("a", "Write run.toml by hand instead", href="/runs/new?as=file")
    )
    return show_page(
        visit,
        "New run",
        notice(trouble, kind="bad") if trouble else None,
        element("p", other),
        element(
            "div", element("section", form), element("section", beside), class_="two wide-left"
        ),
        status=422 if trouble else 200,
    )


def _describe(visit: Visit, text: str, *, is_file: bool, plans: bool = True) -> list[Child]:
    told: list[Child] = []
    try:
        order = order_run(read_run_text(text))
        check_run(order)  # as the coordinator will
    except FederationError as error:
        told.append(notice(str(error), kind="warn"))
    else:
        told.append(notice("The file is valid; parties have their say when the run begins."))
        if plans:
            told += _plan(visit, order)
    if not is_file:
        told += [element("h2", "run.toml"), code_block(text, "run.toml")]
    return told


def _plan(visit: Visit, order: AnyRun) -> list[Child]:
    if not can_plan(order):
        return [element("p", "There is no plan of runs with encrypted labels.", class_="quiet")]
    try:
        planned = plan_live(visit.site.door(visit).ask, order)
    except FederationError as error:
        return [element("p", f"No plan yet: {error}", class_="quiet")]
    figures = [
        (format_seconds(planned.seconds), "it may take"),
        (f"{planned.n_exchanges:,}", "exchanges"),
        (format_bytes(planned.n_bytes), "of all parties, both ways"),
        (f"{planned.n_nodes:,}", "nodes"),
    ]
    tiles = [
        element("li", element("b", figure), element("span", label)) for figure, label in figures
    ]
    return [
        element("h2", "Plan"),
        element("ul", tiles, class_="tiles"),
        shown_on_demand("By role", _tabulate_plan(planned)),
    ]


def _tabulate_plan(planned: RunPlan) -> Markup:
    rows = [
        [
            role or "coordinator",
            format_seconds(seconds),
            format_bytes(planned.memory_bytes[role]),
            format_bytes(planned.bytes_from[role]) if role in planned.bytes_from else "",
        ]
        for role, seconds in planned.processor_seconds.items()
    ]
    return table(["Role", "Computes", "Memory", "Sends"], rows)


def _edit_file(fields: Mapping[str, str]) -> Markup:
    box = element(
        "textarea",
        as_lines(write_run_file(fields)),
        name=AS_FILE,
        id=AS_FILE,
        rows=26,
        wrap="off",
        spellcheck="false",
        maxlength=_LONGEST,
    )
    return labelled("run.toml", box, "As docs/how-to/runs.md describes it.", for_=AS_FILE)


def _edit_fields(visit: Visit, fields: Mapping[str, str], status: FederationStatus) -> list[Markup]:
    parties = [party.name for party in status.parties]
    away = {party.name for party in status.parties if not party.connected}
    return [
        _ask_what(fields),
        _ask_parties(visit, fields, parties, away),
        _ask_label(fields, parties),
        _ask_protection(fields),
        _ask_forest(fields),
    ]


def _group(title: str, *fields: Child) -> Markup:
    return element(
        "fieldset",
        element("legend", title),
        element("div", fields, class_="fields"),
    )


def _box(
    fields: Mapping[str, str],
    name: str,
    label: str,
    hint: str = "",
    kind: Literal["text", "whole", "number"] = "text",
) -> Markup:
    modes = {"text": None, "whole": "numeric", "number": "decimal"}
    value, mode = fields.get(name, ""), modes[kind]
    box = element("input", name=name, id=name, value=value, inputmode=mode, maxlength=1000)
    return labelled(label, box, hint, for_=name)


def _choice(
    fields: Mapping[str, str],
    name: str,
    label: str,
    options: Sequence[tuple[str, str]],
    hint: str = "",
) -> Markup:
    return labelled(label, select(name, options, fields.get(name, "")), hint, for_=name)


def _tick(fields: Mapping[str, str], name: str, label: str) -> Markup:
    box = element("input", type="checkbox", name=name, checked=bool(fields.get(name)))
    return element("p", element("label", box, label))


def _only_if(when: str, *children: Child) -> Markup:
    return element("div", children, data_when=when)


def _ask_what(fields: Mapping[str, str]) -> Markup:
    kinds = [
        ("vertical", "other columns"),
        ("horizontal", "other rows"),
    ]
    tasks = [("classification", "a class"), ("regression", "a number")]
    return _group(
        "What is learned",
        _box(fields, "name", "Name", "Commands may call the run by it."),
        _choice(
            fields, "protocol", "Parties have", kinds, "Of the same rows, or of the same columns."
        ),
        _choice(fields, "task", "The label is", tasks),
    )


def _ask_parties(
    visit: Visit, fields: Mapping[str, str], parties: Sequence[str], away: set[str]
) -> Markup:
    known = _known_data_sets(visit)
    asked: list[Child] = []
    for number, party in enumerate(parties):
        name = f"{PARTY}{party}"
        offered = f"offered-{number}"
        box = element(
            "input", name=name, id=name, value=fields.get(name, ""), list=offered, maxlength=200
        )
        options = [element("option", "", value=data) for data in known.get(party, ())]
        hint = "not connected now" if party in away else ""
        listed = element("datalist", options, id=offered)
        asked.append([labelled(party, box, hint, for_=name), listed])
    return element(
        "fieldset",
        element("legend", "Data set of each party"),
        element(
            "p", "Empty: the party takes no part. Parties tell the names of theirs.", class_="quiet"
        ),
        element("div", asked, class_="fields"),
    )


def _known_data_sets(visit: Visit) -> dict[str, list[str]]:
    """Return the data sets that the latest runs of this user used, by party."""
    door = visit.site.door(visit)
    known: dict[str, list[str]] = {}
    latest = ListRuns(RunFilter(latest=_N_EARLIER))
    for state in door.ask(latest, RunList).runs:
        found = find_run(door, state.run)
        for party, data in ({} if found is None else found.order["data"]).items():
            if data not in known.setdefault(party, []):
                known[party].append(data)
    return known


def _ask_label(fields: Mapping[str, str], parties: Sequence[str]) -> Markup:
    first = [("", "the first one above")]
    owners = first + [(party, party) for party in parties]
    ways = [
        ("keyed-hash", "by hashed ids"),
        ("psi", "by ids, privately (PSI)"),
        ("", "by their order"),
    ]
    return _group(
        "Label and rows",
        _box(fields, "label", "Column of the label"),
        _only_if("protocol=vertical", _choice(fields, "label_party", "Party that has it", owners)),
        _only_if("protocol=vertical", _choice(fields, "align", "Rows are matched", ways)),
    )


def _ask_protection(fields: Mapping[str, str]) -> Markup:
    protections = [
        ("encoded", "as codes of classes"),
        ("RandomizedResponse", "with noise (label differential privacy)"),
        ("Encrypted", "encrypted"),
    ]
    sums = [
        ("Masked", "masked"),
        ("Ring", "round a ring"),
        ("Shamir", "secret-shared"),
        ("plain", "in the open"),
    ]
    noises = [("", "none"), ("LocalDP", "of each party"), ("GlobalDP", "of the sum")]
    return _group(
        "Protection",
        _only_if("protocol=vertical", _choice(fields, "protection", "Labels travel", protections)),
        _only_if(
            "protocol=vertical",
            _only_if(
                "protection=RandomizedResponse",
                _box(fields, "label_epsilon", "ε of the labels", kind="number"),
            ),
        ),
        _only_if("protocol=horizontal", _choice(fields, "aggregation", "Sums are", sums)),
        _only_if(
            "protocol=horizontal",
            _only_if(
                "aggregation=Shamir",
                _box(fields, "threshold", "Shares that open a sum", kind="whole"),
            ),
        ),
        _only_if("protocol=horizontal", _choice(fields, "privacy", "Noise on labels", noises)),
        _only_if(
            "protocol=horizontal",
            _only_if(
                "privacy=LocalDP|GlobalDP", _box(fields, "privacy_epsilon", "ε", kind="number")
            ),
        ),
    )


def _ask_forest(fields: Mapping[str, str]) -> Markup:
    more = element(
        "textarea",
        as_lines(fields.get("more", "")),
        name="more",
        id="more",
        rows=3,
        spellcheck="false",
    )
    return element(
        "fieldset",
        element("legend", "Forest"),
        element(
            "div",
            _box(fields, "trees", "Trees", kind="whole"),
            _box(
                fields, "max_depth", "Deepest level", "Empty: as deep as rows allow.", kind="whole"
            ),
            _box(fields, "min_samples_leaf", "Fewest rows in a leaf", kind="whole"),
            _box(fields, "validation", "Rows held out, in %", "Empty: no scores.", kind="whole"),
            _box(fields, "seed", "Seed", "Empty: drawn.", kind="whole"),
            class_="fields",
        ),
        _tick(fields, "alone", "Also train what each party reaches alone"),
        _only_if("protocol=vertical", _tick(fields, "oob", "Out-of-bag score while it grows")),
        shown_on_demand(
            "Further parameters",
            labelled("Lines of [parameters]", more, 'Such as max_features = "sqrt".', for_="more"),
        ),
    )
