"""The calls that trainings and predictions make: which kernels, with which types of arguments.

`signatures.json`, beside this file, lists them with the kinds of work that make them and the time
that compiling took when they were recorded (`make signatures`): what is prepared together, and
in which order. A call that is not listed is compiled when it happens.
"""

import json
import re
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from numba import types

FILE = Path(__file__).with_name("signatures.json")
_ARRAY = re.compile(r"(readonly )?array\((\w+), (\d)d, ([CFA])\)")


class Call(NamedTuple):
    """A kernel and the types of the arguments it is called with."""

    module: str
    kernel: str
    arguments: str  # JSON
    kinds: tuple[str, ...] = ()
    seconds: float = 0.0

    def find_kernel(self) -> Any:
        """Return the kernel; None if the list is older than the code."""
        try:
            self.types()
            return getattr(import_module(self.module), self.kernel)
        except (ModuleNotFoundError, AttributeError):
            return None

    def types(self) -> tuple[Any, ...]:
        return tuple(_to_type(form) for form in json.loads(self.arguments))


@lru_cache(maxsize=1)
def listed_calls() -> tuple[Call, ...]:
    """Return all listed calls, the longest to compile first."""
    calls = []
    for module, kernels in json.loads(FILE.read_text()).items():
        for kernel, arguments, kinds, seconds in kernels:
            calls.append(Call(module, kernel, json.dumps(arguments), tuple(kinds), seconds))
    return tuple(sorted(calls, key=lambda call: -call.seconds))


def write_calls(calls: list[Call]) -> None:
    """Replace the list."""
    by_module: dict[str, list[str]] = {}
    for call in sorted(calls):
        line = [call.kernel, json.loads(call.arguments), call.kinds, round(call.seconds, 1)]
        by_module.setdefault(call.module, []).append(json.dumps(line))
    parts = [
        f"{json.dumps(module)}: [\n" + ",\n".join(lines) + "\n]"
        for module, lines in by_module.items()
    ]
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def describe_arguments(arguments: tuple[Any, ...]) -> str:
    """Types of arguments as JSON that `Call.types` reads."""
    return json.dumps([_to_form(kind) for kind in arguments])


def _to_form(kind: Any) -> Any:
    """Arrays and numbers by numba's names; a tuple as a list, its class (or null) in front."""
    if isinstance(kind, types.BaseTuple):
        items: Any = kind
        named = getattr(kind, "instance_class", tuple)
        where = None if named is tuple else f"{named.__module__}:{named.__qualname__}"
        return [where, *(_to_form(item) for item in items)]
    return str(kind)


def _to_type(form: Any) -> Any:
    if isinstance(form, list):
        items = [_to_type(item) for item in form[1:]]
        if form[0] is None:
            return types.BaseTuple.from_types(items)
        module, name = form[0].split(":")
        return types.BaseTuple.from_types(items, getattr(import_module(module), name))
    array = _ARRAY.fullmatch(form)
    if array is None:
        return types.boolean if form == "bool" else getattr(types, form)
    readonly, element, n_dimensions = array.group(1, 2, 3)
    layout: Any = array.group(4)
    return types.Array(_to_type(element), int(n_dimensions), layout, readonly=bool(readonly))
