"""Labels that parties add up without reading them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Encrypted:
    """Additively homomorphic encryption of labels: `labels=Encrypted()`.

    Only the label party sees labels, gains and what leaves say; the forest is the one that
    `labels="encoded"` grows. Needs the extra `encrypted`.
    """
