"""Predictions of chosen rows of a vertical model: a form, and answers in a table.

Rows are named as over HTTP (`POST /v1/models/{model}/predictions`) and asked for by the same
batches. Ids stand beside answers where the viewer named them: nobody else's are here.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from anyio import from_thread
from starlette.responses import Response

from fedforest.errors import AccessRefused, FederationError, PolicyRefusal
from fedforest.reports.facts import SHORT_ID
from fedforest.reports.formats import format_number, format_time
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import section
from fedforest.runtime.messages.orders import (
    Align,
    ListAlignments,
    PredictVertical,
    ShowRun,
    StandingName,
)
from fedforest.runtime.messages.results import (
    AlignmentList,
    Predictions,
    RunDetails,
    StandingState,
)
from fedforest.web.api.batching import place_found
from fedforest.web.api.problems import Problem
from fedforest.web.dashboard.layout import as_lines, labelled, notice, select, show_page
from fedforest.web.dashboard.visits import Refused, Visit

MOST_ROWS = 1_000  # of one form; applications ask for more at a time
_LONGEST = 40_000  # characters, which a form holds also if each is written as three
_MOST_CLASSES = 12  # whose probabilities have a column
_LARGEST_ROW = 2**31
_REFUSED = {AccessRefused: 403, PolicyRefusal: 403}


class TypedRows(NamedTuple):
    """What was typed into the form."""

    kind: str = ""  # "ids" or "rows"
    text: str = ""
    alignment: str = ""  # empty: as in the training
    id_party: str = ""

    @classmethod
    def of(cls, visit: Visit) -> "TypedRows":
        """Read the form of a visit."""
        typed = visit.form.get
        text = typed("named", "").replace("\r\n", "\n").replace("\r", "\n")[:_LONGEST]
        by = typed("alignment", "")[:64], typed("id_party", "")[:64]
        return cls("rows" if typed("kind") == "rows" else "ids", text, *by)

    def names(self) -> list[str]:
        """Return the ids, one for each line, or the numbers of the rows; raises `Refused`."""
        lines = [line for line in self.text.split("\n") if line.strip()]
        found = lines if self.kind == "ids" else self.text.replace(",", " ").split()
        if not found:
            raise Refused(422, "name a row at least")
        if len(found) > MOST_ROWS:
            raise Refused(
                422,
                f"a form asks for at most {MOST_ROWS:,} rows; fedforest predict and the HTTP API "
                "take more",
            )
        return found

    def order(self, model: str) -> PredictVertical:
        """Return the request to the coordinator; raises `Refused`."""
        names = self.names()
        rows = _read_numbers(names) if self.kind == "rows" else None
        return PredictVertical(
            data={},
            model=model,
            rows=rows,
            ids=_split_columns(names) if rows is None else None,
            id_party=self.id_party,
            hard_votes=None,
            align=StandingName(self.alignment) if self.alignment else False,
        )


def _read_numbers(names: Sequence[str]) -> list[int]:
    if not all(name.isascii() and name.isdecimal() and len(name) < 11 for name in names):
        raise Refused(422, "rows are named by whole numbers from 0 on, with spaces between them")
    rows = [int(name) for name in names]
    if max(rows) >= _LARGEST_ROW:
        raise Refused(422, "no data set has that many rows")
    return rows


def _split_columns(names: Sequence[str]) -> list[list[str]]:
    """Return ids column by column; tabs divide the columns of a line."""
    rows = [[part.strip() for part in name.split("\t")] for name in names]
    if len({len(row) for row in rows}) > 1:
        raise Refused(422, "some ids have more columns than others; a tab divides two columns")
    return [list(column) for column in zip(*rows, strict=True)]


def offer_predictions(visit: Visit, details: RunDetails) -> Markup | None:
    """Return the form where this viewer may predict with the model of a run."""
    state = details.state
    if state.protocol != "vertical" or state.state != "finished":
        return None
    if "predict" not in visit.session.scopes or visit.site.role_of(visit.user) == "viewer":
        return None
    return section("Predict rows", _form(visit, details, TypedRows()))


def show_form(visit: Visit) -> Response:
    """Show the form by itself."""
    return _show(visit, _find(visit), TypedRows())


def predict(visit: Visit) -> Response:
    """Ask parties for the predictions of the rows that were named, and show them."""
    details, asked = _find(visit), TypedRows.of(visit)
    try:
        order = asked.order(details.state.run)
        told = from_thread.run(visit.site.batches.predict, visit.user, order)
    except Refused as refused:
        return _show(visit, details, asked, refusal=refused.text, status=refused.status)
    except Problem as busy:
        return _show(visit, details, asked, refusal=busy.detail, status=busy.status_code)
    except FederationError as error:
        status = _REFUSED.get(type(error), 422)
        return _show(visit, details, asked, refusal=str(error), status=status)
    return _show(visit, details, asked, _show_answers(asked, told))


def _find(visit: Visit) -> RunDetails:
    order = ShowRun(run=visit.path("run"))
    details: RunDetails = visit.site.door(visit).ask(order, RunDetails)
    if details.state.protocol != "vertical" or details.state.state != "finished":
        raise Refused(404, "this run has no model whose parties predict rows together")
    return details


def _show(  # noqa: PLR0913 - what the page has
    visit: Visit,
    details: RunDetails,
    asked: TypedRows,
    answers: Markup | None = None,
    *,
    refusal: str = "",
    status: int = 200,
) -> Response:
    run, name = details.state.run, details.state.name or details.state.run[:SHORT_ID]
    told = notice(refusal, kind="bad") if refusal else None
    form = section("Which rows", _form(visit, details, asked))
    trail = [("/runs", "Runs"), (f"/runs/{run}", name)]
    title = f"Predictions by {name}"
    return show_page(visit, title, told, answers, form, status=status, trail=trail)


def _form(visit: Visit, details: RunDetails, asked: TypedRows) -> Markup:
    if details.order.get("encrypts_labels"):
        return element(
            "p",
            "Labels of this model are encrypted: its votes are sealed for whoever asks, and this "
            "page, which the coordinator writes, could read none. Use fedforest predict.",
        )
    parties = list(details.order["data"])
    standing = _find_alignments(visit, parties)
    in_training = msgspec.convert(details.order.get("align", False), Align)
    kind = asked.kind or ("rows" if not in_training else "ids")
    box = element(
        "textarea",
        as_lines(asked.text),
        name="named",
        id="named",
        rows=4,
        required=True,
        spellcheck="false",
        maxlength=_LONGEST,
    )
    kinds = [("ids", "ids"), ("rows", "row numbers")]
    finders = [("", "the alignment's first party"), *((party, party) for party in parties)]
    hint = "Ids: one on a line, its columns divided by tabs. Row numbers: from 0 on, in any layout."
    choices = _list_alignments(standing, in_training)
    fields = [
        labelled("Named by", select("kind", kinds, kind), for_="kind"),
        labelled("Alignment", select("alignment", choices, asked.alignment), for_="alignment"),
        labelled("Ids are found by", select("id_party", finders, asked.id_party), for_="id_party"),
    ]
    return element(
        "form",
        element("input", type="hidden", name="by", value=visit.session.form_token),
        labelled("Rows", box, hint, for_="named"),
        element("div", fields, class_="fields"),
        element("button", "Predict", type="submit", class_="main-button"),
        " ",
        element(
            "small",
            "Each row counts in your daily quota at every party. The coordinator sees what is "
            "predicted, and the ids that you name.",
        ),
        method="post",
        action=f"/runs/{details.state.run}/predict",
    )


def _find_alignments(visit: Visit, parties: Sequence[str]) -> list[StandingState]:
    """Return the standing alignments that all parties of a model are part of."""
    told = visit.site.door(visit).ask_if_allowed(ListAlignments(), AlignmentList)
    known = [] if told is None else told.alignments
    return [each for each in known if set(parties) <= set(each.data)]


def _list_alignments(
    standing: Sequence[StandingState], in_training: Align
) -> list[tuple[str, str]]:
    if isinstance(in_training, StandingName):
        first = f"that of the training: {in_training.standing}"
    else:
        first = "none was kept: choose one" if in_training else "none: numbers of the data sets"
    named = [
        (each.name, f"{each.name}: {each.n_common:,} rows, until {format_time(each.expires)[:10]}")
        for each in standing
    ]
    return [("", first), *named]


def _show_answers(asked: TypedRows, told: Predictions) -> Markup:
    names, votes, classes = asked.names(), told.read(), told.classes
    shown = [name.replace("\t", " · ") for name in names]
    if classes is None:
        values = [format_number(value) for value in votes[:, 0].tolist()]
        found, headings = [[value] for value in values], ["Prediction"]
    else:
        best = votes.argmax(axis=1).tolist() if len(votes) else []
        n_shown = len(classes) if len(classes) <= _MOST_CLASSES else 0
        found = [
            [str(classes[number]), *(f"{vote:.1%}" for vote in row[:n_shown])]
            for number, row in zip(best, votes.tolist(), strict=True)
        ]
        headings = ["Prediction", *(str(name) for name in classes[:n_shown])]
    placed: list[Any] = place_found(found, told, len(names))
    missing: list[Child] = ["not at all parties", *([""] * (len(headings) - 1))]
    rows: list[list[Child]] = [
        [name, *(missing if answer is None else answer)]
        for name, answer in zip(shown, placed, strict=True)
    ]
    n_found = sum(answer is not None for answer in placed)
    first = "Id" if asked.kind == "ids" else "Row"
    title = f"{n_found:,} of {len(rows):,} rows predicted"
    return section(title, table([first, *headings], rows))
