"""How fast the way to the parties is: a transport says it, and predictions plan by it.

It stands apart from all protocols because transports carry messages without knowing any of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Network:
    """What an exchange costs."""

    latency_seconds: float
    bytes_per_second: float
