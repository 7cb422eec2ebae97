"""The privacy that a training spent on labels: figures by name, and a text for people."""

from collections.abc import Mapping, Sequence
from typing import Any, Self


class SpentPrivacy(dict[str, Any]):
    """A dictionary of figures; printing it gives the text, which says all of it in words."""

    _text: str = ""

    @classmethod
    def of(cls, figures: Mapping[str, Any], arithmetic: Sequence[str] = ()) -> Self:
        """Figures, "protected" and "not_protected" among them; `arithmetic` explains the first."""
        spent = cls(figures)
        lines = [f"Protected: {figures['protected']}."]
        lines += [f"  {line}" for line in arithmetic]
        lines.append("Not protected:")
        lines += [f"  - {line}" for line in figures["not_protected"]]
        spent._text = "\n".join(lines)
        return spent

    def __str__(self) -> str:
        return self._text or super().__str__()
