"""The declaration of an estimator's parameter, and what follows from it.

`parameter(...)` is a field of a dataclass: its annotation is the type that users and type checkers
see, its default the constructor's. From the field come the check in `fit`, the place in a run file,
what a model file keeps, and the "Parameters" section of the estimator's documentation.
"""

import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from fedforest.limits import Limit, one_of

NOT_IN_RUN_FILES = ""
_WIDTH = 96  # of lines of documentation, without the indent of a docstring

Estimator = TypeVar("Estimator", bound=type)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of one estimator."""

    name: str
    kind: Any  # the annotation
    default: Any
    text: str
    limit: Limit | None  # None: checked where more is known, as by `ForestParameters`
    run_key: str  # in a run file: `[table] key`, `[table]`, or `key` at its top
    is_stored: bool  # whether model files keep it

    @property
    def place(self) -> tuple[str, ...]:
        """The keys that lead to it in a run file; empty where a run file does not say it."""
        return place_of(self.run_key)

    def describe(self) -> str:
        """Its entry in a "Parameters" section, as numpydoc wants it."""
        kind = _name_kind(self.kind)
        ending = "optional" if self.default is None else f"default={_quote(self.default)}"
        text = textwrap.fill(self.text, _WIDTH - 4)
        return f"{self.name} : {kind}, {ending}\n{textwrap.indent(text, '    ')}"


def parameter(
    default: Any,
    text: str,
    limit: Limit | None = None,
    *,
    run_key: str | None = None,
    stored: bool = True,
) -> Any:
    """Return a parameter as a field of a dataclass; the words of a `Literal` are its limit.

    A run file says it under its own name in `[parameters]` unless `run_key` is given.
    """
    about = {"text": text, "limit": limit, "run_key": run_key, "stored": stored}
    return field(default=default, metadata=about)


def stored_parameters(estimator: Any) -> set[str]:
    """Return the names of the parameters that model files of a class of estimators keep."""
    return {entry.name for entry in read_parameters(estimator).values() if entry.is_stored}


def read_parameters(estimator: Any) -> Mapping[str, Parameter]:
    """Return the parameters of a class of estimators by name, in the order of its constructor."""
    return _read_parameters(estimator)


@cache
def _read_parameters(estimator: Any) -> Mapping[str, Parameter]:
    declared = sorted(fields(estimator), key=lambda part: bool(part.kw_only))
    return {
        part.name: Parameter(
            part.name,
            part.type,
            part.default,
            part.metadata["text"],
            part.metadata["limit"] or _choices(part.type),
            run_key if run_key is not None else f"[parameters] {part.name}",
            part.metadata["stored"],
        )
        for part, run_key in ((part, part.metadata["run_key"]) for part in declared)
    }


def check_parameters(estimator: Any, *names: str) -> None:
    """Check all parameters of an estimator that have a limit of their own, or only those named."""
    known = read_parameters(type(estimator))
    for name in names or known:
        limit = known[name].limit if name in known else None
        if limit is not None:
            limit.check(name, getattr(estimator, name))


def document_parameters(estimator: Estimator) -> Estimator:
    """Write the "Parameters" section of a class's documentation, before its attributes."""
    if estimator.__doc__ is not None:  # python -OO leaves it out
        entries = "\n".join(entry.describe() for entry in read_parameters(estimator).values())
        told = inspect.cleandoc(estimator.__doc__)  # as Python 3.13 stores it anyway
        before, after = told.split("Attributes\n", 1)
        estimator.__doc__ = f"{before}Parameters\n----------\n{entries}\n\nAttributes\n{after}\n"
    return estimator


def place_of(run_key: str) -> tuple[str, ...]:
    """Return the keys of `[table] key`."""
    return tuple(run_key.replace("[", "").replace("]", "").split())


def _choices(kind: Any) -> Limit | None:
    return one_of(kind) if get_origin(kind) is Literal else None


def _name_kind(kind: Any) -> str:
    """Return a type in the words of numpydoc; "optional" says that it may be None."""
    is_union = get_origin(kind) in (Union, UnionType)
    parts = [part for part in (get_args(kind) if is_union else (kind,)) if part is not NoneType]
    *others, last = [_name_part(part) for part in parts]
    return f"{', '.join(others)} or {last}" if others else last


def _name_part(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "{" + ", ".join(map(_quote, get_args(kind))) + "}"
    name: str = (get_origin(kind) or kind).__name__
    return name.lower() if name == "Mapping" else name


def _quote(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
