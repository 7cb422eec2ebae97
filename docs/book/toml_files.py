"""The keys of every TOML file, from the types that read it.

The meaning of a key is the comment beside its field, or the text of the estimators' parameter.
"""

import inspect
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, get_args, get_origin

import msgspec

import fedforest
from docs.book.tables import code, to_table
from fedforest.estimators.inputs.declarations import Parameter, read_parameters
from fedforest.runtime.client import run_files
from fedforest.runtime.membership import homes
from fedforest.runtime.party import policy
from fedforest.runtime.party.catalogue import entries

HEADER = ("Key", "Type", "Default", "Meaning")
FORESTS = (
    fedforest.VerticalForestClassifier,
    fedforest.VerticalForestRegressor,
    fedforest.HorizontalExtraTreesClassifier,
    fedforest.HorizontalExtraTreesRegressor,
)


def describe_run_file() -> str:
    """Describe `run.toml`: the file's own keys, then the parameters of estimators."""
    parts = [_keys(run_files.Run, skipped={"label", "validation", "parameters", "participation"})]
    parts += ["**`[label]`**", _keys(run_files.Label)]
    parts += ["**`[validation]`**", _keys(run_files.ValidationTable)]
    by_place: dict[tuple[str, ...], dict[str, Parameter]] = {}
    for kind in FORESTS:
        for entry in read_parameters(kind).values():
            if entry.place[:1] in (("parameters",), ("participation",)):
                by_place.setdefault(entry.place, {})[kind.__name__] = entry
    for table in ("participation", "parameters"):
        rows = [_parameter(place[-1], of) for place, of in by_place.items() if place[0] == table]
        parts += [f"**`[{table}]`**", to_table(("Key", "Of", "Default", "Meaning"), rows)]
    return "\n\n".join(parts)


def describe_policy() -> str:
    """Describe `policy.toml`: the rules of `[default]` and `[data.NAME]`."""
    return _keys(policy.DataSetRules)


def describe_coordinator() -> str:
    """Describe `coordinator.toml`."""
    return _keys(homes.CoordinatorSettings)


def describe_party() -> str:
    """Describe `party.toml`."""
    return _keys(homes.PartySettings)


def describe_profile() -> str:
    """Describe `profile.toml` of a user."""
    return _keys(homes.ProfileSettings)


def describe_entry() -> str:
    """Describe an entry of a party's catalogue."""
    return _keys(entries.Entry)


def _parameter(name: str, of: Mapping[str, Parameter]) -> tuple[str, str, str, str]:
    systems = [
        word for word in ("vertical", "horizontal") if any(k.lower().startswith(word) for k in of)
    ]
    if all(kind.endswith("Classifier") for kind in of):
        systems.append("classes")
    defaults = dict.fromkeys(_show(entry.default) for entry in of.values())
    texts = dict.fromkeys(entry.text for entry in of.values())
    return code(name), ", ".join(systems), ", ".join(defaults), next(iter(texts))


def _keys(kind: Any, skipped: Collection[str] = ()) -> str:
    """Return a table of the fields of a structure, and of the tables inside it."""
    comments = read_comments(kind)
    told = [field for field in msgspec.structs.fields(kind) if field.name not in skipped]
    parts = [
        to_table(
            HEADER,
            [
                (code(f.name), name_type(f.type), _default(f), comments.get(f.name, ""))
                for f in told
            ],
        )
    ]
    for field in told:
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            parts += [f"**`[{field.name}]`**", _keys(field.type)]
    return "\n\n".join(parts)


def read_comments(kind: Any) -> dict[str, str]:
    """Return the comment beside each field of a structure, or on the lines above it."""
    found: dict[str, str] = {}
    for inherited in kind.__mro__:
        if inherited.__module__.startswith("fedforest"):
            found = _comments_in(inspect.getsource(inherited)) | found
    return found


def _comments_in(source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    above: list[str] = []
    for line in source.splitlines():
        field = re.match(r"    (\w+): [^#]+?(?:  # (.+))?$", line)
        if line.strip().startswith("# "):
            above.append(line.strip()[2:])
        elif field is not None:
            found[field[1]] = _say_without(field[2] or " ".join(above))
            above = []
    return found


def _say_without(comment: str) -> str:
    """Return a comment in the words of TOML, which has no None."""
    return comment.replace("None:", "without it:")


def name_type(kind: Any) -> str:
    """Return a type as a writer of TOML knows it."""
    if isinstance(kind, type):
        names = {
            bool: "true or false",
            int: "whole number",
            float: "number",
            str: "text",
            dict: "table",
        }
        return names.get(kind, "table")
    if get_origin(kind) is not None and hasattr(kind, "__metadata__"):  # Annotated
        limits = [_limit(meta) for meta in kind.__metadata__]
        return " ".join([name_type(get_args(kind)[0]), *limits]).strip()
    origin, arguments = (
        get_origin(kind),
        [part for part in get_args(kind) if part is not type(None)],
    )
    if str(origin).endswith("Literal"):
        return " or ".join(_show_code(word) for word in arguments)
    if origin in (tuple, list):
        return f"list of {name_type(arguments[0])}"
    if origin is dict:
        return f"table of {name_type(arguments[1])}"
    return " or ".join(dict.fromkeys(map(name_type, arguments))) or "anything"


def _limit(meta: Any) -> str:
    words = {"ge": "from", "gt": "above", "le": "to", "lt": "below"}
    told = [
        f"{word} {getattr(meta, key)}"
        for key, word in words.items()
        if getattr(meta, key, None) is not None
    ]
    return " ".join(told)


def _default(field: Any) -> str:
    if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return _show(value)


def _show(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isinf(value)):
        return "none"
    if isinstance(value, msgspec.Struct):
        return "as by default"
    return _show_code(value)


def _show_code(value: Any) -> str:
    return code(msgspec.json.encode(value).decode())
