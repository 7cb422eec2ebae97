"""Texts cannot become markup, whatever they hold."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from fedforest.printable import printable
from fedforest.reports.markup import Child, element, join, table

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;\u202e"


class Reader(HTMLParser):
    """What a browser finds: elements with attributes, and text."""

    def __init__(self, markup: object) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(str(markup))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text() | st.just(HOSTILE))
def test_a_text_is_text_and_an_attribute_is_an_attribute(text: str) -> None:
    read = Reader(element("p", text, title=text))
    ((tag, attributes),) = read.found
    assert (tag, list(attributes)) == ("p", ["title"])
    assert attributes["title"] == printable(text)
    assert read.text == printable(text)


def test_tables_escape_headings_rows_and_captions() -> None:
    read = Reader(table([HOSTILE, "b"], [[HOSTILE, HOSTILE]], caption=HOSTILE))
    assert {tag for tag, _ in read.found} <= {
        *("div", "table", "caption", "thead", "tbody", "tr", "th", "td")
    }
    assert read.text.count("<script>") == 4


def test_attributes_that_are_off_are_left_out_and_children_nest() -> None:
    inner: Child = [element("b", "x"), ["y", None]]
    assert str(element("input", disabled=True, name=None, class_="a", required=False)) == (
        '<input disabled class="a">'
    )
    assert str(element("p", inner)) == "<p><b>x</b>y</p>"
    assert str(join([])) == ""


def test_zero_is_a_value_and_false_is_none() -> None:
    assert str(element("p", tabindex=0, hidden=False)) == '<p tabindex="0"></p>'
