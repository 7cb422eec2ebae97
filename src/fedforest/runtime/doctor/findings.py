"""What a check of a set-up found: what is so, why it matters, and what to do about it."""

from collections.abc import Iterator
from typing import Literal

import msgspec

State = Literal["good", "warning", "problem"]


class Diagnosis(msgspec.Struct, frozen=True):
    """One thing that was looked at; good ones need no reason and no cure."""

    topic: str  # "certificate", "disk": one word or two for each kind of check
    state: State
    what: str
    why: str = ""
    cure: str = ""


Diagnoses = Iterator[Diagnosis]


def good(topic: str, what: str) -> Diagnosis:
    """Make a finding of something that is as it must be."""
    return Diagnosis(topic, "good", what)


def warning(topic: str, what: str, why: str, cure: str) -> Diagnosis:
    """Make a finding of something that will become a problem, or is one for some uses."""
    return Diagnosis(topic, "warning", what, why, cure)


def problem(topic: str, what: str, why: str, cure: str) -> Diagnosis:
    """Make a finding of something that keeps the role from its work."""
    return Diagnosis(topic, "problem", what, why, cure)
