"""Every error with its cause and cure: classes of `errors.py`, texts of `error_texts.py`."""

import inspect
import string

from docs.book.tables import code, to_table
from fedforest import errors
from fedforest.error_texts import CURE_OF_CLASS, FIELDS, PUBLIC_TEXT_OF_CLASS, STATED, TEXTS, Sight


def error_classes() -> dict[str, type[Exception]]:
    """Return the public classes of errors by name, in the order of their file."""
    return {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind)
        and issubclass(kind, errors.FederationError)
        and name != "FederationError"
    }


def describe_classes() -> str:
    """Describe the classes of errors: what happened, what to do, what a peer is told."""
    rows = [
        (code(name), _sentence(kind), CURE_OF_CLASS[name], PUBLIC_TEXT_OF_CLASS[name])
        for name, kind in error_classes().items()
    ]
    return to_table(("Class", "What happened", "What to do", "What a peer is told"), rows)


def describe_texts() -> str:
    """Describe the errors that have a code, area by area, with the advice they give."""
    areas: dict[str, list[tuple[str, str, str]]] = {}
    for name, text in TEXTS.items():
        if name != STATED:
            row = (code(name), _fill(text.says), _fill(text.advice) or "–")
            areas.setdefault(name.partition(".")[0], []).append(row)
    parts = [
        f"### {area}\n\n" + to_table(("Code", "What it says", "What to do"), rows)
        for area, rows in areas.items()
    ]
    return "\n\n".join(parts)


def _sentence(kind: type[Exception]) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def _fill(text: str) -> str:
    """Show fields in angle brackets; those that peers never see are marked."""
    parts = []
    for literal, name, _, _ in string.Formatter().parse(text):
        parts.append(literal.replace("<", "&lt;"))
        if name:
            parts.append(f"*{name}*" + "°" * (FIELDS[name].sight is Sight.OWN))
    return "".join(parts)
