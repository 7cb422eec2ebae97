"""Labels that parties add up without reading them: the place of a protection that is to come.

The name is public already, so that who needs it is told what there is instead, before a label has
moved, rather than that it is no option.
"""

from dataclasses import dataclass

from fedforest.errors import ConfigurationError


@dataclass(frozen=True)
class Encrypted:
    """Additively homomorphic encryption of labels: `labels=Encrypted()`. Not in this release."""

    def refuse(self) -> None:
        """Tell what can be used instead."""
        raise ConfigurationError(
            "labels=Encrypted() is not in this release, and no label was sent. Where parties may "
            "not see which rows share a label, use labels=RandomizedResponse(epsilon=2.0) for "
            "classes; labels='encoded' shows them just that.",
            key="labels",
        )
