"""What every message of every protocol reveals, as its type declares it."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import fedforest.protocol
from docs.book.tables import code, to_table
from fedforest.protocol.asking import Request

_NAMES = {
    "vertical": "Vertical training",
    "vertical.prediction": "Vertical prediction",
    "horizontal": "Horizontal training",
    "aggregation": "Sums over parties",
    "linear": "Linear models",
    "alignment": "Alignment of rows",
    "scoring": "Scores",
}


def protocol_messages() -> dict[str, list[Any]]:
    """Return the requests of every protocol by the name of its package."""
    found = {}
    for info in pkgutil.walk_packages(fedforest.protocol.__path__, "fedforest.protocol."):
        if info.name.endswith(".messages"):
            module = importlib.import_module(info.name)
            name = info.name.removeprefix("fedforest.protocol.").removesuffix(".messages")
            found[name] = list(_requests(module))
    return found


def _requests(module: Any) -> Iterator[Any]:
    for kind in vars(module).values():
        is_own = getattr(kind, "__module__", "") == module.__name__
        if (
            is_own
            and isinstance(kind, type)
            and issubclass(kind, Request)
            and "reply" in vars(kind)
        ):
            yield kind


def describe_messages() -> str:
    """Describe the messages of all protocols."""
    parts = []
    for name, requests in sorted(protocol_messages().items()):
        rows = [
            (code(kind.__name__), kind.reveals, code(kind.reply.__name__), kind.reply.reveals)
            for kind in requests
        ]
        header = ("Request", "tells the party", "Reply", "tells the coordinator")
        parts.append(f"## {_NAMES.get(name, name)}\n\n{to_table(header, rows)}")
    return "\n\n".join(parts)
