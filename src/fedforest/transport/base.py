"""What every transport offers: carry one request to each of some parties and bring the replies."""

from collections.abc import Mapping
from typing import Protocol


class Transport(Protocol):
    """Carries bytes; what they mean is not its business."""

    def exchange(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Deliver all requests at the same time; return when every party has answered."""
