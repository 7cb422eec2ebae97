"""Federated Forest, Tables 3 and 4: one party alone, linear models, pooled, and federated.

First a grid search chooses the hyper-parameters of a data set's forests; then all methods are
trained many times on the same divisions; then the settings that the paper may have had are tried.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

from fedforest.experiments.data.catalogue import DATA_SETS
from fedforest.experiments.experiment import Cell, Experiment, Measured, Setting
from fedforest.experiments.vertical.methods import (
    METHODS,
    Division,
    divide,
    score_method,
    search_grid,
)
from fedforest.experiments.vertical.printed import TABLE_3 as PRINTED_3
from fedforest.experiments.vertical.printed import TABLE_4 as PRINTED_4
from fedforest.experiments.vertical.table_report import (
    SEARCH,
    chosen_point,
    draw_tables,
    report_tables,
)
from fedforest.experiments.vertical.trials import trials_of, try_setting

REPETITIONS = 40
N_TRIALS = 5
N_SEARCHED_TREES = 50
MOST_SEARCHED_COLUMNS = 5_000  # a third of more at every node takes an hour
_COSTLY = {"kddcup99_10pct": 5, "target_marketing": 5, "gene": 10}  # repetitions of a full run

Divide = Callable[[int], Division]


def _cells(names: tuple[str, ...], setting: Setting) -> Iterator[Cell]:
    for name in names:
        if DATA_SETS[name].n_columns <= MOST_SEARCHED_COLUMNS:
            yield Cell(SEARCH, name, "", 1, partial(_search, setting, name))
        division = lru_cache(1)(partial(_divide, setting, name))
        times = setting.times(_COSTLY.get(name, REPETITIONS))
        for method in METHODS:
            if (name, method) == ("target_marketing", "NonFF"):
                continue  # as in the paper: bank and shop may not pool their columns
            yield Cell(name, method, "", times, partial(_score, division, setting, (name, method)))
        n_trials = setting.times(min(N_TRIALS, _COSTLY.get(name, N_TRIALS)), 1)
        for method, trials in trials_of(name).items():
            for trial in _some(trials, setting):
                measure = partial(_try, division, setting, (method, trial))
                yield Cell(name, method, trial, n_trials, measure)


def _some(trials: tuple[str, ...], setting: Setting) -> tuple[str, ...]:
    return trials[:2] if setting.quick else trials


def _divide(setting: Setting, name: str, repetition: int) -> Division:
    return divide(setting.read(name), setting.seed, repetition)


def _search(setting: Setting, name: str, repetition: int) -> Measured:
    n_trees = setting.times(N_SEARCHED_TREES, 10)
    return search_grid(_divide(setting, name, repetition), n_trees, setting.n_jobs)


def _score(division: Divide, setting: Setting, which: tuple[str, str], repetition: int) -> Measured:
    name, method = which
    assert setting.record is not None
    point = chosen_point(setting.record, name)
    return {"score": score_method(method, division(repetition), point, setting.n_jobs)}


def _try(division: Divide, setting: Setting, what: tuple[str, str], repetition: int) -> Measured:
    return {"score": try_setting(division(repetition), *what, setting.n_jobs)}


def _experiment(number: int, title: str, printed: dict[str, Any], full_run: str) -> Experiment:
    names = tuple(printed)
    return Experiment(
        f"ff-table-{number}",
        title,
        f"Federated Forest, Table {number}",
        names,
        partial(_cells, names),
        partial(report_tables, names),
        partial(draw_tables, names),
        full_run,
    )


TABLE_3 = _experiment(3, "Classification with two parties", PRINTED_3, "3 hours")
TABLE_4 = _experiment(4, "Regression with two parties", PRINTED_4, "1 hour")
