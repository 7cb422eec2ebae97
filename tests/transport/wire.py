"""Everything that travels, field by field, as text: what `PROTOCOL_VERSION` counts.

`wire.txt` pins it. `python -m tests.transport.wire` (`make wire`) writes that file anew, if the
changelog says under Breaking that what is not yet released speaks this version.
"""

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

import fedforest
from fedforest.protocol.asking import Request
from fedforest.runtime.membership.invitations import Invitation
from fedforest.transport.frames import PROTOCOL_VERSION

PINNED = Path(__file__).with_name("wire.txt")
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
ADVICE = (
    "A peer of another release cannot read this. Raise PROTOCOL_VERSION in transport/frames.py to "
    "{version}, unless the present number is not released yet; say `the protocol's version is` and "
    "the number in CHANGELOG.md under Unreleased, Breaking; and run `make wire`."
)
_ROOMS = ("fedforest.protocol", "fedforest.transport", "fedforest.runtime.messages")

Listing = dict[str, list[str]]  # fields by the name of a type


def list_wire() -> Listing:
    """The fields of every type that is encoded for a peer, of whatever role."""
    for module in pkgutil.walk_packages(fedforest.__path__, "fedforest."):
        if module.name.startswith(_ROOMS):
            importlib.import_module(module.name)
    listing: Listing = {}
    waiting = [Invitation, *_sent_structs(msgspec.Struct)]
    listed: dict[str, type] = {}
    while waiting:
        kind = waiting.pop()
        name = f"{kind.__module__.split('.')[-2]}.{kind.__qualname__}"  # the room, and the type
        if name not in listing:
            listing[name] = [*_describe_kind(kind, waiting)]
        assert listed.setdefault(name, kind) is kind, f"there are two of {name}"
    return dict(sorted(listing.items()))


def _sent_structs(base: type) -> Iterator[type]:
    kind: Any
    for kind in base.__subclasses__():
        yield from _sent_structs(kind)
        is_base = kind.__subclasses__() and not msgspec.structs.fields(kind)
        is_generic = bool(getattr(kind, "__parameters__", ()))
        if kind.__module__.startswith(_ROOMS) and not is_base and not is_generic:
            yield kind


def _describe_kind(kind: type, waiting: list[type]) -> Iterator[str]:
    """A line for each field, and one for what else decides about the bytes."""
    if issubclass(kind, Enum):
        yield from (f"{member.name} = {member.value!r}" for member in kind)
        return
    info: Any = inspect.type_info(kind)
    if isinstance(info, inspect.StructType):
        shape = "an array" if info.array_like else "a map"
        tag = "" if info.tag is None else f", tagged {info.tag!r}"
        extra = ", nothing else" if info.forbid_unknown_fields else ""
        reply = f", answered by {kind.reply.__name__}" if issubclass(kind, Request) else ""
        yield f"({shape}{tag}{extra}{reply})"
    for field in info.fields:
        default = "" if field.required else f" = {field.default!r}"
        if field.default_factory is not msgspec.NODEFAULT:
            default = " = made"
        yield f"{field.encode_name}: {_describe(field.type, waiting)}{default}"


def _describe(info: Any, waiting: list[type]) -> str:
    if isinstance(info, tuple):
        return ", ".join(_describe(each, waiting) for each in info)
    if not isinstance(info, inspect.Type):
        return repr(info)
    kind = getattr(info, "cls", None)
    if kind is not None:
        if kind.__module__.startswith("fedforest."):
            waiting.append(kind)
        return str(kind.__name__)
    given = {name: getattr(info, name) for name in info.__struct_fields__}
    settings = [
        f"{name}={_describe(value, waiting)}" for name, value in given.items() if value is not None
    ]
    return f"{type(info).__name__.removesuffix('Type')}({', '.join(settings)})"


def to_text(version: int, listing: Listing) -> str:
    types = (f"{name}\n" + "".join(f"  {line}\n" for line in listing[name]) for name in listing)
    return "\n".join([f"the protocol's version is {version}\n", *types])


def from_text(text: str) -> tuple[int, Listing]:
    first, *blocks = text.split("\n\n")
    lines = [block.strip().splitlines() for block in blocks]
    return int(first.split()[-1]), {head: [x.strip() for x in rest] for head, *rest in lines}


def find_changes(before: Listing, now: Listing) -> list[str]:
    """In words, type by type."""
    changes = [f"{name} is new" for name in now if name not in before]
    changes += [f"{name} is gone" for name in before if name not in now]
    for name in now.keys() & before.keys():
        lost = [line for line in before[name] if line not in now[name]]
        new = [line for line in now[name] if line not in before[name]]
        if lost or new:
            changes.append(f"{name}: {'; '.join(lost) or 'nothing'} -> {'; '.join(new) or 'gone'}")
        elif before[name] != now[name]:
            changes.append(f"{name}: the order of its fields")
    return sorted(changes)


def is_announced(changelog: str, version: int) -> bool:
    """Whether what is not yet released is said to break with peers of earlier versions."""
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    text = unreleased.group(1) if unreleased else ""
    breaking = re.findall(r"^### Breaking\n(.*?)(?=^### |\Z)", text, re.M | re.S)
    said = " ".join(" ".join(breaking).split())
    return re.search(rf"the protocol's version is {version}\b", said, re.I) is not None


def main() -> None:
    version, pinned = from_text(PINNED.read_text())
    listing = list_wire()
    changes = find_changes(pinned, listing)
    if (changes or version != PROTOCOL_VERSION) and not is_announced(
        CHANGELOG.read_text(), PROTOCOL_VERSION
    ):
        sys.exit("\n".join([*changes, ADVICE.format(version=max(version + 1, PROTOCOL_VERSION))]))
    PINNED.write_text(to_text(PROTOCOL_VERSION, listing))
    sys.stdout.write("\n".join(changes or ["nothing changed"]) + "\n")


if __name__ == "__main__":
    main()
