"""The functions of a criterion, called by kernels that know its formula alone.

A formula is an empty tuple of a type of its own: kernels are compiled once for each type, with the
criterion's functions inside, and nothing is decided while they run.
"""

from collections.abc import Callable
from typing import Any

from numba.extending import overload

from fedforest.kernels.criteria.registry import ByMoments, scores_of
from fedforest.kernels.jit import EMBEDDED, INTO_CALLER, embedded


def by_formula(choose: Callable[[type], Any], options: Any = EMBEDDED) -> Any:
    """A function of (formula, ...) that is another kernel, of (...), for each type of formula."""

    def call(formula, *arguments):
        return choose(type(formula))(*arguments)

    @overload(call, jit_options=options)
    def compile_call(formula, *arguments):  # noqa: ARG001 - their types do not matter
        chosen = choose(formula.instance_class)

        def embed(formula, *arguments):  # noqa: ARG001 - it is known by its type
            return chosen(*arguments)

        return embed

    return call


@embedded
def _yes():
    return True


@embedded
def _no():
    return False


score_moments = by_formula(lambda formula: scores_of(formula).score)
make_table = by_formula(lambda formula: scores_of(formula).make_table, INTO_CALLER)
part = by_formula(lambda formula: scores_of(formula).part)
score_classes = by_formula(lambda formula: scores_of(formula).score)
heavy_part = by_formula(lambda formula: scores_of(formula).heavy_part)
score_heavy_classes = by_formula(lambda formula: scores_of(formula).heavy_score)
is_squares = by_formula(lambda formula: _yes if scores_of(formula).is_squares else _no)


def is_by_moments(formula: type) -> bool:
    """Return whether a formula scores sums of targets, not classes."""
    return isinstance(scores_of(formula), ByMoments)
