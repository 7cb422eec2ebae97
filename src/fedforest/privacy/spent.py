"""The privacy that a training spent on labels: one sentence, figures by name, a text for people."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

_SHOWN = {  # in notebooks, where a figure is known
    "label_epsilon": "ε of the training",
    "delta": "δ of the tighter figure",
    "epsilon_approximate": "ε at that δ",
    "epsilon_query": "ε of one query",
    "queries": "queries that one label takes part in",
    "epsilon_composed": "ε of all queries, added up",
    "epsilon_cap": "cap of ε, whatever is asked",
}


class SpentPrivacy(dict[str, Any]):
    """A dictionary of figures; printing it gives the text, which says all of it in words."""

    _text: str = ""

    @classmethod
    def of(cls, figures: Mapping[str, Any], arithmetic: Sequence[str] = ()) -> Self:
        """Figures, "summary", "protected" and "not_protected" among them.

        `arithmetic` explains the epsilon.
        """
        spent = cls(figures)
        lines = [f"{figures['summary']}", ""]
        lines.append(f"Protected: {figures['protected']}.")
        lines += [f"  {line}" for line in arithmetic]
        lines.append("Not protected:")
        lines += [f"  - {line}" for line in figures["not_protected"]]
        spent._text = "\n".join(lines)
        return spent

    @property
    def summary(self) -> str:
        """One sentence to hand on: unit, epsilon, delta, against whom, and what is not covered."""
        return str(self["summary"])

    def __str__(self) -> str:
        return self._text or super().__str__()

    def _repr_html_(self) -> str:
        """Return the sentence and a table, as notebooks show them; details on demand."""
        rows = [
            f"<tr><td>{name}</td><td>{_tell(self[key])}</td></tr>"
            for key, name in _SHOWN.items()
            if self.get(key) is not None
        ]
        items = "".join(f"<li>{html.escape(each)}</li>" for each in self["not_protected"])
        return (
            f"<p><b>{html.escape(self.summary)}</b></p><table>{''.join(rows)}</table>"
            f"<p>Protected: {html.escape(self['protected'])}.</p>"
            f"<details><summary>Not protected</summary><ul>{items}</ul></details>"
        )


def summarise(epsilon: float, scope: str, *, against: str, uncovered: str, exposed: str) -> str:
    """Return the sentence to hand on; without a limit to epsilon it says what is `exposed`."""
    if math.isinf(epsilon):
        return f"No differential privacy (ε = ∞): {exposed}."
    return (
        f"The label of each row is protected by differential privacy with ε = {epsilon:.4g} and "
        f"δ = 0 over {scope}, against {against}; {uncovered} are not covered."
    )


def _tell(figure: float) -> str:
    if isinstance(figure, int):
        return f"{figure:,}"
    return "∞" if math.isinf(figure) else f"{figure:.6g}"
