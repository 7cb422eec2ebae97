"""A run file becomes an order, by the checks that the estimators have.

The parameters of a file are those of the estimator of its protocol and task, so there is one place
that says what they may be. What it says against one is told with the place of that parameter.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.estimators import (
    federated_horizontal,
    federated_vertical,
    horizontal_options,
    vertical_options,
)
from fedforest.estimators.horizontal import (
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
)
from fedforest.estimators.vertical import VerticalForestClassifier, VerticalForestRegressor
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.runtime.orders import TrainHorizontal, TrainVertical, Validation
from fedforest.runtime.run_files import Option, RunFile
from fedforest.runtime.toml_positions import Place

_ESTIMATORS: Mapping[tuple[str, str], Any] = {
    ("vertical", "classification"): VerticalForestClassifier,
    ("vertical", "regression"): VerticalForestRegressor,
    ("horizontal", "classification"): HorizontalExtraTreesClassifier,
    ("horizontal", "regression"): HorizontalExtraTreesRegressor,
}
# Parameters of estimators that a file says elsewhere, or that are not about the run.
_SAID_ELSEWHERE = {
    "random_state": "seed = ... at the top of the file",
    "parties": "a table [parties]",
    "label_party": "party = ... in [label]",
    "labels": "protection = ... in [label]",
    "aggregation": "a table [aggregation]",
    "privacy": "a table [privacy]",
    "participation": "share = ... in [participation]",
    "participation_scope": "scope = ... in [participation]",
    "min_participants": "min_participants = ... in [participation]",
}
_NOT_OF_A_RUN = {"n_jobs", "verbose", "transport", "warm_start", "prediction"}
_NOT_HORIZONTAL = {"voting"}  # a matter of prediction: the model is the same
_PLACES: Mapping[str, Place] = {
    "random_state": ("seed",),
    "labels": ("label", "protection"),
    "RandomizedResponse": ("label", "epsilon"),
    "label_party": ("label", "party"),
    "aggregation": ("aggregation",),
    "privacy": ("privacy",),
    "participation": ("participation", "share"),
    "participation_scope": ("participation", "scope"),
    "min_participants": ("participation", "min_participants"),
    "sample_weight": ("weight",),
    **dict.fromkeys(("Masked", "Ring", "Shamir"), ("aggregation",)),
    **dict.fromkeys(("LocalDP", "GlobalDP"), ("privacy",)),
}
_AGGREGATIONS = {kind.__name__: kind for kind in (Masked, Ring, Shamir)}
_PRIVACIES = {kind.__name__: kind for kind in (LocalDP, GlobalDP)}
_ONLY_VERTICAL: tuple[Place, ...] = (("align",), ("label", "party"), ("label", "protection"))
_ONLY_HORIZONTAL: tuple[Place, ...] = (("aggregation",), ("privacy",), ("participation",))

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
    try:
        order = (
            _order_vertical(file, estimator)
            if run.protocol == "vertical"
            else (_order_horizontal(file, estimator))
        )
    except ConfigurationError as error:
        raise file.places.mistake(_find_place(file, str(error)), str(error)) from None
    return msgspec.structs.replace(
        order, name=_check_name(file), validation=_read_validation(file), alone=run.alone
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
    """The estimator that would train it; nothing of it is checked yet."""
    run = file.run
    kind = _ESTIMATORS[run.protocol, run.task]
    parameters = _read_parameters(file, kind().get_params(deep=False).keys())
    parameters["random_state"] = run.seed
    if run.protocol == "vertical":
        is_noisy = run.label.protection == "RandomizedResponse"
        parameters["labels"] = RandomizedResponse(run.label.epsilon) if is_noisy else "encoded"  # type: ignore[arg-type] # checked before
        parameters["label_party"] = run.label.party
    else:
        plain = run.aggregation == "plain"
        parameters["aggregation"] = (
            "plain" if plain else _make_option(file, "aggregation", run.aggregation, _AGGREGATIONS)
        )
        if run.privacy is not None:
            parameters["privacy"] = _make_option(file, "privacy", run.privacy, _PRIVACIES)
        parameters["participation"] = run.participation.share
        parameters["participation_scope"] = run.participation.scope
        parameters["min_participants"] = run.participation.min_participants
    return kind(**parameters)


def _read_parameters(file: RunFile, known: Any) -> dict[str, Any]:
    given = dict(file.run.parameters)
    allowed = set(known) - _SAID_ELSEWHERE.keys() - _NOT_OF_A_RUN
    if file.run.protocol == "horizontal":
        allowed -= _NOT_HORIZONTAL
    for name in given.keys() - allowed:
        place = ("parameters", name)
        if name in _SAID_ELSEWHERE:
            text = f"{name!r} is no parameter here; write {_SAID_ELSEWHERE[name]}"
            raise file.places.mistake(place, text, at_key=True)
        raise file.places.unknown(place, allowed)
    if isinstance(given.get("class_weight"), list):
        given["class_weight"] = _read_class_weight(file, given["class_weight"])
    return given


def _read_class_weight(file: RunFile, pairs: list[Any]) -> dict[Any, Any]:
    """Pairs of class and weight: keys of a TOML table are text, but classes may be numbers."""
    for number, pair in enumerate(pairs):
        is_pair = isinstance(pair, list) and len(pair) == 2 and not isinstance(pair[0], list | dict)
        if not is_pair or not isinstance(pair[1], int | float):
            text = "class_weight has pairs of class and weight: [[0, 1.0], [1, 2.5]]"
            raise file.places.mistake(("parameters", "class_weight", number), text)
    return dict(pairs)


def _make_option(file: RunFile, table: str, option: Option, known: Mapping[str, Any]) -> Any:
    """One of our option classes, by its name and with its settings."""
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
    is_vertical = file.run.protocol == "vertical"
    for place in _ONLY_HORIZONTAL if is_vertical else _ONLY_VERTICAL:
        if file.has(*place):
            other = "horizontal" if is_vertical else "vertical"
            text = f"{'.'.join(map(str, place))} is for {other} training; this run is "
            raise file.places.mistake(place, text + file.run.protocol, at_key=True)


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


def _read_validation(file: RunFile) -> Validation | None:
    table = file.run.validation
    if table is None:
        return None
    if not 0.0 < table.share <= 0.5:
        text = f"share is {table.share!r}; it must be above 0 and up to 0.5 of the rows"
        raise file.places.mistake(("validation", "share"), text)
    return Validation(table.share)


def _find_place(file: RunFile, complaint: str) -> Place:
    """What a complaint is about: the first thing it names that the file has."""
    for word in re.findall(r"\w+", complaint):
        for place in (("parameters", word), _PLACES.get(word)):
            if place is not None and place in file.places.spans:
                return place
    return ()
