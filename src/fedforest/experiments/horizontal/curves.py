"""Cells that compare methods along a curve: every method on the same deal of rows at each point."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

from fedforest.experiments.experiment import Cell, Measured, Setting
from fedforest.experiments.horizontal.deals import Deal, Dealing, deal_rows
from fedforest.experiments.horizontal.methods import Method

Curve = Mapping[str, Mapping[str, Method]]  # methods by name, by point


class Series(NamedTuple):
    """Cells under the name of a group, on a data set that is dealt in one way."""

    group: str
    data: str
    dealing: Dealing


def cells_of(setting: Setting, series: Series, curve: Curve, repetitions: int) -> Iterator[Cell]:
    """Measure a curve on a data set; all methods and points get the same rows in a repetition."""
    group, name, dealing = series
    deal = lru_cache(1)(partial(_deal, setting, name, dealing))
    for point, methods in curve.items():
        for method, train in methods.items():
            measure = partial(_measure, deal, train)
            yield Cell(group, method, point, repetitions, measure)


def first_parties(n_parties: int, method: Method) -> Method:
    """Train on the rows of the first parties only."""
    return lambda deal: method(deal.keep(n_parties))


def dealt_anew(n_parties: int, method: Method) -> Method:
    """Train on all rows, dealt among this many parties."""
    return lambda deal: method(deal.among(n_parties))


def _deal(setting: Setting, name: str, dealing: Dealing, repetition: int) -> Deal:
    return deal_rows(setting.read(name), dealing, setting.seed, repetition)


def _measure(deal: Callable[[int], Any], train: Method, repetition: int) -> Measured:
    return train(deal(repetition))
