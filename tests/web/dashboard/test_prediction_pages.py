"""Predictions from a page: the same votes as over HTTP, for whom may have them and nobody else."""

from collections.abc import Iterator
from html import unescape

import pytest

from fedforest.runtime.messages.orders import PredictVertical, StandingName
from fedforest.runtime.messages.results import Predictions
from tests.runtime.partly_shared import common_people
from tests.runtime.ruled_federations import demand
from tests.web.dashboard.sites import CoordinatorPages, send_form
from tests.web.federation.api_federations import MODEL, PEOPLE, api_federation

PAGE = f"/runs/{MODEL}/predict"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorPages]:
    folder = tmp_path_factory.mktemp("predicting")
    with api_federation(folder) as federation:
        yield CoordinatorPages(federation.local, folder)


def people(n: int) -> list[str]:
    return [f"person {person}" for person in sorted(common_people())[:n]]


def expected_of(served: CoordinatorPages, ids: list[str]) -> list[str]:
    """What the page has to say of ids, in their order."""
    order = PredictVertical(data=PEOPLE, model=MODEL, align=StandingName("people"), ids=[ids])
    told = served.federation.ask(order, Predictions, user="ada")
    assert isinstance(told, Predictions)
    assert told.classes is not None
    return [
        f'<th scope="row">{name}</th><td>{told.classes[row.argmax()]}</td><td>{row[0]:.1%}</td>'
        for name, row in zip(ids, told.read(), strict=True)
    ]


def test_rows_named_by_ids_are_predicted_as_over_http(served: CoordinatorPages) -> None:
    ids = people(3)[::-1]
    browser = served.log_in("ada")
    assert "Predict rows" in browser.get(f"/runs/{MODEL}").text
    typed = "\r\n".join([*ids, "nobody we know", ""])
    page = send_form(browser, PAGE, kind="ids", named=typed)
    assert page.status_code == 200, page.text
    places = [page.text.index(expected) for expected in expected_of(served, ids)]
    assert places == sorted(places), "answers are in the order of the request"
    assert '<th scope="row">nobody we know</th><td>not at all parties</td>' in page.text
    assert "3 of 4 rows predicted" in page.text


def test_row_numbers_are_of_the_alignment_that_is_chosen(served: CoordinatorPages) -> None:
    browser = served.log_in("ada")
    assert '<option value="people">people: ' in browser.get(PAGE).text
    page = send_form(browser, PAGE, kind="rows", named="2, 0\n2", alignment="people")
    assert "3 of 3 rows predicted" in page.text
    again = send_form(browser, PAGE, kind="rows", named="2 0 2")
    both = [each.text.partition("<table>")[2].partition("</table>")[0] for each in (page, again)]
    assert both[0] == both[1]
    assert both[0].count('<th scope="row">2</th>') == 2


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"kind": "rows", "named": "x"}, "whole numbers"),
        ({"kind": "rows", "named": "-1"}, "whole numbers"),
        ({"kind": "rows", "named": "²"}, "whole numbers"),
        ({"kind": "rows", "named": "4294967296"}, "no data set has"),
        ({"kind": "rows", "named": "99999"}, "numbered from 0 on"),
        ({"kind": "rows", "named": " \n"}, "name a row"),
        ({"kind": "ids", "named": ""}, "name a row"),
        ({"kind": "ids", "named": "a\tb\nc"}, "more columns than others"),
        ({"kind": "ids", "named": "a\tb"}, "an id of the data set"),
        ({"kind": "rows", "named": "1 " * 1001}, "at most 1,000 rows"),
        ({"kind": "rows", "named": "0", "alignment": "other"}, "no standing alignment"),
        ({"kind": "ids", "named": "x", "id_party": "nobody"}, "none of the parties"),
    ],
)
def test_mistakes_are_told_beside_what_was_typed(
    served: CoordinatorPages, fields: dict[str, str], text: str
) -> None:
    page = send_form(served.log_in("ada"), PAGE, **fields)
    assert page.status_code == 422, page.text
    assert text in unescape(page.text)
    assert '<textarea name="named"' in page.text
    assert fields["named"].strip().partition("\n")[0].partition("\t")[0] in page.text


def test_a_refusal_of_a_party_names_it_and_its_rule(served: CoordinatorPages) -> None:
    try:
        demand(served.federation, 'prediction_rows_per_day = 0\nstanding_serving = "ids"', "shop")
        page = send_form(served.log_in("ada"), PAGE, kind="rows", named="0")
        assert page.status_code == 403
        assert "'shop'" in unescape(page.text)
        assert "rows a day" in page.text
        assert "rows predicted" not in page.text
    finally:
        demand(served.federation, 'standing_serving = "ids"', "shop")


def test_ids_with_markup_are_texts(served: CoordinatorPages) -> None:
    page = send_form(served.log_in("ada"), PAGE, kind="ids", named="<script>alert(1)</script>")
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert page.text.count("&lt;script&gt;alert(1)") == 2  # in the table and in the form


def test_those_who_may_not_predict_see_no_form_and_get_no_answer(served: CoordinatorPages) -> None:
    viewer = served.log_in("vera")  # whom the run is shared with
    assert "Predict rows" not in viewer.get(f"/runs/{MODEL}").text
    for browser in (viewer, served.log_in("ada", "read", "order")):
        page = send_form(browser, PAGE, kind="rows", named="0")
        assert page.status_code == 403, page.text
        assert "rows predicted" not in page.text
    stranger = served.log_in("ben")
    assert send_form(stranger, PAGE, kind="rows", named="0").status_code == 403
    assert stranger.get(PAGE).status_code == 403
    by_a_link = served.log_in("ada").post(PAGE, data={"kind": "rows", "named": "0"})
    assert by_a_link.status_code == 403, "forms of other sites carry no word of the session"


def test_an_owner_shares_a_run_and_ends_that_by_its_page(served: CoordinatorPages) -> None:
    browser, share = served.log_in("ada"), f"/runs/{MODEL}/share"
    page = browser.get(f"/runs/{MODEL}").text
    assert "Share no more with vera" in page
    assert "Share no more with olga" not in page
    assert f'action="{share}"' in page
    assert "Share no more with olga" in send_form(browser, share, user="olga").text
    left = send_form(browser, share, user="olga", ends="1").text
    assert "Share no more with olga" not in left
    assert f'action="{share}"' not in served.log_in("vera").get(f"/runs/{MODEL}").text
    assert f'action="{share}"' not in served.log_in("ada", "read").get(f"/runs/{MODEL}").text
