"""The speed of the network to the parties: a transport states it, and predictions plan by it.

It is a separate module because transports do not depend on any protocol.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Network:
    """The latency and bandwidth of an exchange."""

    latency_seconds: float
    bytes_per_second: float
