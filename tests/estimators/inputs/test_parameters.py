"""The table of parameters: constructors, checks, run files and documents all follow it."""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import fedforest
from fedforest.errors import ConfigurationError
from fedforest.estimators.inputs.declarations import (
    Parameter,
    check_parameters,
    read_parameters,
)
from fedforest.kernels.criteria.registry import ClassCriterion, NumberCriterion
from fedforest.limits import Limit
from fedforest.runtime.client.run_files import Label, Run, ValidationTable
from fedforest.tree.growth.parameters import CRITERIA, ForestParameters

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "runs.md"
FORESTS = (
    fedforest.VerticalForestClassifier,
    fedforest.VerticalForestRegressor,
    fedforest.HorizontalExtraTreesClassifier,
    fedforest.HorizontalExtraTreesRegressor,
)
ESTIMATORS = (
    *FORESTS,
    fedforest.VerticalLogisticRegression,
    fedforest.VerticalLinearRegression,
)
WITH_TABLES = {"parties", "label_party"}  # checked when the tables are there
ENGINE_LIMITS = {part.name: part.metadata.get("limit") for part in fields(ForestParameters)}

of_every_estimator = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
of_every_forest = pytest.mark.parametrize("kind", FORESTS, ids=lambda kind: kind.__name__)


def limit_of(entry: Parameter) -> Limit | None:
    return entry.limit or ENGINE_LIMITS.get(entry.name)


@of_every_estimator
def test_the_constructor_has_the_parameters_of_the_table_and_only_stores_them(kind: Any) -> None:
    signature = inspect.signature(kind)
    expected = {name: entry.default for name, entry in read_parameters(kind).items()}
    assert {name: part.default for name, part in signature.parameters.items()} == expected
    kinds = [part.kind for part in signature.parameters.values()]
    assert kinds == [inspect.Parameter.POSITIONAL_OR_KEYWORD] + [inspect.Parameter.KEYWORD_ONLY] * (
        len(kinds) - 1
    )
    anything = {name: object() for name in expected}
    assert vars(kind(**anything)) == anything


@of_every_estimator
def test_every_parameter_has_a_limit_that_its_default_keeps(kind: Any) -> None:
    for name, entry in read_parameters(kind).items():
        limit = limit_of(entry)
        assert (limit is None) == (name in WITH_TABLES), name
        if limit is not None:
            limit.check(name, entry.default)
            with pytest.raises(ConfigurationError, match=f"^{name} is ") as caught:
                limit.check(name, object())
            assert caught.value.key == (name,)


@of_every_estimator
def test_the_documentation_tells_every_parameter_with_type_default_and_meaning(kind: Any) -> None:
    section = kind.__doc__.split("Parameters\n")[1].split("Attributes\n")[0]
    told = re.findall(r"^(\w+) : (.+), (?:optional|default=.+)$", section, flags=re.MULTILINE)
    assert [name for name, _ in told] == list(read_parameters(kind))
    assert all(entry.text.endswith(".") for entry in read_parameters(kind).values())
    assert max(map(len, section.splitlines())) <= 100
    assert kind.__doc__.index("Attributes\n") < kind.__doc__.index("Examples\n")


@of_every_forest
def test_the_engine_has_the_defaults_of_the_estimators(kind: Any) -> None:
    parameters = read_parameters(kind)
    tree = {part.name: part.default for part in fields(ForestParameters)}
    own = {"task", "max_bins"} if "max_bins" not in parameters else {"task"}
    assert tree.keys() - parameters.keys() == own
    differs = {name for name in tree.keys() - own if parameters[name].default != tree[name]}
    allowed = {"bootstrap"} if "Horizontal" in kind.__name__ else set()
    assert differs <= allowed | (
        {"criterion", "max_features"} if "Regressor" in kind.__name__ else set()
    )


def test_choices_that_type_checkers_know_are_those_that_are_checked() -> None:
    for task, kind in (("classification", ClassCriterion), ("regression", NumberCriterion)):
        assert CRITERIA[task].words == tuple(map(repr, get_args(kind)))


def test_only_the_named_parameters_are_checked() -> None:
    forest = fedforest.VerticalForestClassifier(n_estimators=-1, tol=-1.0, voting="hard")
    check_parameters(forest, "voting", "prediction")
    with pytest.raises(ConfigurationError, match=r"tol is -1\.0"):
        check_parameters(forest)


def show(value: object) -> str:
    return "none" if value is None else f"`{msgspec.json.encode(value).decode()}`"


def table_of_parameters() -> str:
    """The table of docs/how-to/runs.md: what `[parameters]` may hold."""
    entries: dict[str, dict[str, Parameter]] = {}
    for kind in FORESTS:
        for entry in read_parameters(kind).values():
            if entry.place[:1] == ("parameters",):
                entries.setdefault(entry.name, {})[kind.__name__] = entry
    lines = ["| Parameter | Of | Default | Must be |", "|---|---|---|---|"]
    for name, of in entries.items():
        lines.append(f"| `{name}` | {name_owners(of)} | {name_defaults(of)} | {say(of)} |")
    return "\n".join(lines)


def name_owners(of: dict[str, Parameter]) -> str:
    vertical, horizontal = (
        [name for name in of if name.startswith(word)] for word in ("Vertical", "Horizontal")
    )
    owners = ["vertical"] * bool(vertical) + ["horizontal"] * bool(horizontal)
    is_of_classes = all(name.endswith("Classifier") for name in of)
    return " and ".join(owners) + ", classes" * is_of_classes


def name_defaults(of: dict[str, Parameter]) -> str:
    return ", ".join(dict.fromkeys(show(entry.default) for entry in of.values()))


def say(of: dict[str, Parameter]) -> str:
    """What TOML may hold: it has no None."""
    limits = [limit_of(entry) for entry in of.values()]
    words = [word for limit in limits if limit is not None for word in limit.words]
    told = Limit(lambda _: True, tuple(word for word in dict.fromkeys(words) if word != "None"))
    return told.text.replace("True or False", "true or false").replace("'", '"')


def test_the_guide_of_run_files_tells_every_parameter_with_default_and_limit() -> None:
    expected = table_of_parameters()
    assert expected in GUIDE.read_text(), f"put this table into {GUIDE.name}:\n\n{expected}\n"


def test_the_guide_of_run_files_tells_every_other_key_and_where_it_stands() -> None:
    tables = {"label": Label, "validation": ValidationTable}
    keys = {("top", name) for name in Run.__struct_fields__} - {
        ("top", name) for name in ("label", "validation", "parameters", "participation")
    }
    keys |= {(f"[{table}]", n) for table, kind in tables.items() for n in kind.__struct_fields__}
    for kind in FORESTS:
        places = [entry.place for entry in read_parameters(kind).values()]
        keys |= {(f"[{p[0]}]", p[1]) for p in places if len(p) == 2 and p[0] != "parameters"}
    rows = re.findall(r"^\| (.+?) \| (.*?) \| .+ \| .+ \|$", GUIDE.read_text(), re.MULTILINE)
    told = {
        (where.strip("`") or "top", name.strip("[]"))
        for names, where in rows
        for name in re.findall(r"`([\w\[\]]+)`", names)
        if where in ("top", "", "`[label]`", "`[validation]`", "`[participation]`")
    }
    told |= {("top", name) for name in ("aggregation", "privacy")}  # their row tells both at once
    assert told == keys
