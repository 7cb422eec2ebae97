"""The base of `LocalDP` and `GlobalDP`: every setting has a name, and an error names it."""

from dataclasses import fields
from typing import Any, Self

from fedforest.errors import ConfigurationError
from fedforest.limits import is_finite


class NoiseSettings:
    """Settings given by keyword; subclasses are frozen dataclasses with `repr=False`."""

    def __new__(cls, *numbers: object, **settings: object) -> Self:  # noqa: ARG004 - for `__init__`
        """Refuse numbers without a name: epsilon of a run and of a query differ a thousandfold."""
        if numbers:
            given = ", ".join(map(repr, numbers))
            raise ConfigurationError(
                f"{cls.__name__}({given}): name each setting. {cls.__name__}(epsilon=2.0) "
                "guarantees epsilon 2 for the whole training.",
                key="privacy",
            )
        return super().__new__(cls)

    def __repr__(self) -> str:
        given: list[str] = []
        for part in fields(self):  # type: ignore[arg-type] # subclasses are dataclasses
            value = getattr(self, part.name)
            if value is not part.default and value != part.default:
                given.append(f"{part.name}={value!r}")
        return f"{type(self).__name__}({', '.join(given)})"

    def _check_one_of(self, total: str, expert: str, meaning: str) -> None:
        """Refuse none or both of the settings that say how much noise there is."""
        has_total, has_expert = (getattr(self, name) is not None for name in (total, expert))
        if has_total and has_expert:
            raise self._error(
                f"{total} and {expert} both say how much noise there is, so give exactly one: "
                f"{total} of the whole training, or {expert}, {meaning}"
            )
        if not has_total and not has_expert:
            raise self._error(
                f"it needs {total}, the guarantee of the whole training, such as {total}=2.0; or "
                f"{expert}, {meaning}"
            )

    def _check_positive(self, name: str) -> None:
        value: Any = getattr(self, name)
        if value is not None and not (is_finite(value) and value > 0):
            raise self._error(f"{name} must be a finite number above zero; 1 to 8 are common", name)

    def _error(self, reason: str, *setting: str) -> ConfigurationError:
        return ConfigurationError(f"{self!r}: {reason}.", key=("privacy", *setting))
