"""Tables in Markdown, for pages that are generated."""

from collections.abc import Iterable, Sequence


def to_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table; bars inside a cell are escaped, line breaks become blanks."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def code(text: object) -> str:
    """Write something as code."""
    return f"`{text}`"
