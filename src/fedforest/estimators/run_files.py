"""Turn a run file into a request to the coordinator, with the checks of the estimators.

The parameters of a file are those of the estimator of its protocol and task, so there is one place
that checks them. Its errors get the line and column of the parameter.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.estimators.horizontal import federation as federated_horizontal
from fedforest.estimators.horizontal import options as horizontal_options
from fedforest.estimators.horizontal.forests import (
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
)
from fedforest.estimators.inputs.declarations import (
    NOT_IN_RUN_FILES,
    Parameter,
    place_of,
    read_parameters,
)
from fedforest.estimators.vertical import federation as federated_vertical
from fedforest.estimators.vertical import options as vertical_options
from fedforest.estimators.vertical.forests import VerticalForestClassifier, VerticalForestRegressor
from fedforest.limits import read_memory
from fedforest.privacy.encrypted_labels import Encrypted
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.runtime.client.run_files import Option, RunFile
from fedforest.runtime.messages.orders import TrainHorizontal, TrainVertical, Validation
from fedforest.runtime.toml_positions import Place

_ESTIMATORS: Mapping[tuple[str, str], Any] = {
    ("vertical", "classification"): VerticalForestClassifier,
    ("vertical", "regression"): VerticalForestRegressor,
    ("horizontal", "classification"): HorizontalExtraTreesClassifier,
    ("horizontal", "regression"): HorizontalExtraTreesRegressor,
}
# What `fit` is called with, and where a file says it.
_ARGUMENTS = {
    "X": "[parties]",
    "parties": "[parties]",
    "y": "[label] column",
    "sample_weight": "weight",
}
_AGGREGATIONS = {kind.__name__: kind for kind in (Masked, Ring, Shamir)}
_PRIVACIES = {kind.__name__: kind for kind in (LocalDP, GlobalDP)}

AnyTraining = TrainVertical | TrainHorizontal


def order_run(file: RunFile) -> AnyTraining:
    """The order that a file describes; raises `ConfigurationError` with file, line and column."""
    run = file.run
    _check_protocol(file)
    _check_label(file)
    if run.alone and run.validation is None:
        text = "what each party reaches alone is scored on held-out rows; add a table [validation]"
        raise file.places.mistake(("alone",), text)
    estimator = _make_estimator(file)
    order_training = _order_vertical if run.protocol == "vertical" else _order_horizontal
    try:
        order = order_training(file, estimator)
    except ConfigurationError as error:
        place = _find_place(read_parameters(type(estimator)), error.key)
        raise file.places.mistake(place, str(error)) from None
    return msgspec.structs.replace(
        order,
        name=_check_name(file),
        validation=_read_validation(file),
        alone=run.alone,
        batch_bytes=_read_batch_bytes(file),
    )


def _order_vertical(file: RunFile, estimator: Any) -> TrainVertical:
    run = file.run
    options = vertical_options.read_options(estimator, run.task)
    given = (run.parties, run.label.column, run.weight)
    order = federated_vertical.order_training(estimator, options, given, None)
    return msgspec.structs.replace(order, align=run.align)


def _order_horizontal(file: RunFile, estimator: Any) -> TrainHorizontal:
    run = file.run
    options = horizontal_options.read_options(estimator, run.task)
    given = (run.parties, run.label.column, run.weight, None)
    return federated_horizontal.order_training(estimator, options, given)


def _make_estimator(file: RunFile) -> Any:
    """Return the estimator of the file's protocol and task; its parameters are not checked yet."""
    kind = _ESTIMATORS[file.run.protocol, file.run.task]
    known = read_parameters(kind)
    _check_keys(file, "participation", known)
    _check_keys(file, "parameters", known)
    given = {
        name: _read_parameter(file, entry)
        for name, entry in known.items()
        if entry.place and file.has(entry.place)
    }
    return kind(**given)


def _check_keys(file: RunFile, table: str, known: Mapping[str, Parameter]) -> None:
    """Refuse keys of a table that are no parameters, or that a file says elsewhere."""
    allowed = {entry.place[1] for entry in known.values() if entry.place[:1] == (table,)}
    run_keys = _run_keys(known)
    for key in getattr(file.run, table):
        if key in allowed:
            continue
        if key in run_keys:
            text = f"{key!r} is no parameter here; write {_say_where(run_keys[key])}"
            raise file.places.mistake((table, key), text, at_key=True)
        raise file.places.unknown((table, key), allowed)


def _run_keys(known: Mapping[str, Parameter]) -> dict[str, str]:
    """Map the parameters of an estimator and the arguments of its `fit` to keys of a run file."""
    own = {name: entry.run_key for name, entry in known.items() if entry.run_key}
    return _ARGUMENTS | own


def _say_where(run_key: str) -> str:
    """Say what to write into a file."""
    table, _, key = run_key.rpartition(" ")
    if key.startswith("["):
        return f"a table {key}"
    return f"{key} = ... in {table}" if table else f"{key} = ... at the top of the file"


def _read_parameter(file: RunFile, entry: Parameter) -> Any:
    value = file.read(entry.place)
    if entry.name == "aggregation" and value != "plain":
        return _make_option(file, "aggregation", value, _AGGREGATIONS)
    if entry.name == "privacy":
        return _make_option(file, "privacy", value, _PRIVACIES)
    if entry.name == "labels" and value == "RandomizedResponse":
        return RandomizedResponse(file.run.label.epsilon)  # type: ignore[arg-type] # checked before
    if entry.name == "labels" and value == "Encrypted":
        return Encrypted()
    if entry.name == "class_weight" and isinstance(value, list):
        return _read_class_weight(file, value)
    return value


def _read_class_weight(file: RunFile, pairs: list[Any]) -> dict[Any, Any]:
    """Pairs of class and weight: keys of a TOML table are text, but classes may be numbers."""
    for number, pair in enumerate(pairs):
        is_pair = isinstance(pair, list) and len(pair) == 2 and not isinstance(pair[0], list | dict)
        if not is_pair or not isinstance(pair[1], int | float):
            text = "class_weight has pairs of class and weight: [[0, 1.0], [1, 2.5]]"
            raise file.places.mistake(("parameters", "class_weight", number), text)
    return dict(pairs)


def _make_option(file: RunFile, table: str, option: Option, known: Mapping[str, Any]) -> Any:
    """Return one of our option classes, by its name and with its settings."""
    settings: dict[str, Any] = {"name": option} if isinstance(option, str) else dict(option)
    name = settings.pop("name", None)
    if name not in known:
        place: Place = (table, "name") if (table, "name") in file.places.spans else (table,)
        names = ", ".join(map(repr, (*known, *(["plain"] if table == "aggregation" else []))))
        raise file.places.mistake(place, f"{table} needs a name; it is one of {names}")
    fields = known[name].__dataclass_fields__
    for setting in settings.keys() - fields.keys():
        raise file.places.unknown((table, setting), ("name", *fields))
    try:
        return known[name](**settings)
    except TypeError:
        missing = next(iter(fields.keys() - settings.keys()))
        raise file.places.mistake((table,), f"{name} needs the setting {missing!r}") from None


def _check_protocol(file: RunFile) -> None:
    """Refuse what the protocol of the file has no use for, instead of passing over it."""
    protocol, task = file.run.protocol, file.run.task
    other = "horizontal" if protocol == "vertical" else "vertical"
    own = {entry.place for entry in read_parameters(_ESTIMATORS[protocol, task]).values()}
    foreign = {entry.place for entry in read_parameters(_ESTIMATORS[other, task]).values()}
    if protocol == "horizontal":
        foreign.add(("align",))
    for place in sorted(foreign - own):
        if place and place[0] != "parameters" and file.has(place):
            text = f"{'.'.join(place)} is for {other} training; this run is {protocol}"
            raise file.places.mistake(place, text, at_key=True)


def _check_label(file: RunFile) -> None:
    label = file.run.label
    is_noisy = label.protection == "RandomizedResponse"
    if is_noisy and label.epsilon is None:
        text = "RandomizedResponse needs its epsilon beside it: epsilon = 2.0"
        raise file.places.mistake(("label", "protection"), text)
    if label.epsilon is not None and not is_noisy:
        text = 'epsilon is for protection = "RandomizedResponse"; labels are not noisy without it'
        raise file.places.mistake(("label", "epsilon"), text, at_key=True)


def _check_name(file: RunFile) -> str:
    name = file.run.name
    if not re.fullmatch(r"[\w .-]{0,64}", name):
        text = "a name has up to 64 letters, digits, spaces, dots, dashes and underscores"
        raise file.places.mistake(("name",), text)
    return name


def _read_batch_bytes(file: RunFile) -> int | None:
    """Return the room for row orders: a quarter, beside bins, labels and pieces of the table."""
    try:
        memory = read_memory(file.run.memory_limit)
    except ConfigurationError as error:
        raise file.places.mistake(("memory_limit",), str(error)) from None
    return None if memory is None else memory // 4


def _read_validation(file: RunFile) -> Validation | None:
    table = file.run.validation
    if table is None:
        return None
    if not 0.0 < table.share <= 0.5:
        text = f"share is {table.share!r}; it must be above 0 and up to 0.5 of the rows"
        raise file.places.mistake(("validation", "share"), text)
    return Validation(table.share)


def _find_place(known: Mapping[str, Parameter], key: tuple[str, ...]) -> Place:
    """Find the place in a run file of what an error is about."""
    if not key:
        return ()
    name, *setting = key
    place = place_of(_run_keys(known).get(name, NOT_IN_RUN_FILES))
    return (*place[:1], *setting) if setting else place  # settings stand beside what they are of
