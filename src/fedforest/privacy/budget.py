"""A party's privacy ledger: the epsilon that its runs spent on labels, and a ceiling for their sum.

It is asked before a reply is sent. It lives in memory; `as_dict` and `from_dict` serve storage.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedforest.errors import BudgetExhausted, ConfigurationError, DataError, PrivacyError
from fedforest.limits import is_finite
from fedforest.privacy.composition import PrivacySpending


@dataclass(frozen=True, slots=True)
class Spend:
    """One run's line of the ledger. Infinite epsilons are None, as plain data has no infinity."""

    run: str
    memory: str
    composed: float | None
    cap: float | None

    @classmethod
    def of(cls, run: str, spending: PrivacySpending) -> "Spend":
        """Return the line of a run that spends this."""
        memory = spending.memory if math.isfinite(spending.epsilon_cap) else ""
        return cls(run, memory, _finite(spending.epsilon_composed), _finite(spending.epsilon_cap))


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def add_up(spends: Iterable[Spend]) -> float:
    """Epsilon of all runs together.

    Runs that were answered from the same permanent responses tell no more, together, than those
    responses: they share one cap. All others add up.
    """
    by_memory: dict[tuple[str, str], list[Spend]] = {}
    for spend in spends:
        owner = spend.memory or spend.run
        by_memory.setdefault(("memory" if spend.memory else "run", owner), []).append(spend)
    return math.fsum(_add_up_shared(shared) for shared in by_memory.values())


def _add_up_shared(spends: list[Spend]) -> float:
    composed = [math.inf if spend.composed is None else spend.composed for spend in spends]
    caps = [math.inf if spend.cap is None else spend.cap for spend in spends]
    # composed may be infinite, which fsum does not mind; the largest cap, should they ever differ
    return min(math.fsum(composed), max(caps))


class BudgetLedger:
    """The privacy that runs have spent so far, below a ceiling.

    Parameters
    ----------
    ceiling : float
        Largest epsilon that all runs together may spend on the label of a row; infinity for none.
    """

    def __init__(self, ceiling: float) -> None:
        if not (ceiling == math.inf or (is_finite(ceiling) and ceiling >= 0)):
            raise ConfigurationError(
                f"BudgetLedger(ceiling={ceiling!r}): the ceiling must be a number of at least zero."
            )
        self.ceiling = float(ceiling)
        self._spends: dict[str, Spend] = {}

    @property
    def spent(self) -> float:
        """Epsilon of all runs so far."""
        return add_up(self._spends.values())

    @property
    def remaining(self) -> float:
        """Return what is left below the ceiling."""
        return math.inf if self.ceiling == math.inf else self.ceiling - self.spent

    @property
    def spends(self) -> tuple[Spend, ...]:
        """One line per run, in the order they were reserved."""
        return tuple(self._spends.values())

    def reserve(self, run: str, spending: PrivacySpending) -> None:
        """Charge a run before it sends anything, or refuse it.

        A run that is already charged with the same is going on after an interruption: free.
        """
        spend = Spend.of(run, spending)
        if run in self._spends:
            if self._spends[run] != spend:
                raise PrivacyError(
                    f"Run {run!r} is already charged with another spending. Give a run with other "
                    "settings another name."
                )
            return
        after = add_up([*self._spends.values(), spend])
        if after > self.ceiling:
            raise BudgetExhausted(
                f"Run {run!r} would bring the epsilon spent on labels from {self.spent:.6g} to "
                f"{after:.6g}, above this party's ceiling of {self.ceiling:.6g}; nothing was sent. "
                "Ask for less (fewer trees, levels or candidates, or more noise), or raise the "
                "ceiling."
            )
        self._spends[run] = spend

    def settle(self, run: str, spending: PrivacySpending) -> None:
        """Replace a reservation by what the run did spend, which may not be more."""
        reserved = self._spends.get(run)
        if reserved is None:
            raise PrivacyError(
                f"Run {run!r} has reserved nothing; reserve before anything is sent."
            )
        spend = Spend.of(run, spending)
        is_same_kind = (spend.memory, spend.cap) == (reserved.memory, reserved.cap)
        if not is_same_kind or _limit(spend.composed) > _limit(reserved.composed):
            raise PrivacyError(
                f"Run {run!r} spent more than, or something other than, it reserved."
            )
        self._spends[run] = spend

    def as_dict(self) -> dict[str, Any]:
        """Return the ledger as plain data, without infinities."""
        lines = [asdict(spend) for spend in self._spends.values()]
        return {"ceiling": _finite(self.ceiling), "spends": lines}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "BudgetLedger":
        """Return the ledger that `as_dict` was called on."""
        try:
            ledger = cls(_limit(stored["ceiling"]))
            spends = [Spend(**line) for line in stored["spends"]]
        except (KeyError, TypeError, ConfigurationError) as error:
            raise DataError("The stored privacy ledger is not one; restore a copy.") from error
        for spend in spends:
            _check_stored(spend)
            ledger._spends[spend.run] = spend
        if len(ledger._spends) != len(spends):
            raise DataError("The stored privacy ledger names a run twice; restore a copy.")
        return ledger


def _limit(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _check_stored(spend: Spend) -> None:
    texts = all(isinstance(text, str) for text in (spend.run, spend.memory))
    numbers = (spend.composed, spend.cap)
    if not texts or not all(x is None or (is_finite(x) and x >= 0) for x in numbers):
        raise DataError("The stored privacy ledger has a line that is none; restore a copy.")
