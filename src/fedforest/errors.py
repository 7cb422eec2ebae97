"""Every error this package raises on purpose.

    FederationError
    ├── ConfigurationError (ValueError)   a setting is wrong or settings contradict each other
    ├── DataError (ValueError)            a table, target or weight cannot be used
    │   └── UnknownColumn                 a data set lacks the label or weight that is asked for
    ├── ModelFileError (ValueError)       a stored model cannot be read
    │   ├── DamagedModelError             its bytes are not what was written
    │   └── NewerModelError               it was written by a newer release
    ├── ProtocolError
    │   ├── LocalProtocolError            our side broke the protocol: a bug here
    │   └── RemoteProtocolError           a peer broke it; `.party` names the peer
    ├── PartyError
    │   ├── PartyLost                     a party stopped answering; `.party` names it
    │   │   └── PredictionForgotten       it came back and knows nothing of the prediction
    │   ├── TooFewParties                 not enough parties to go on
    │   └── PolicyRefusal                 a party's policy does not allow what it was asked
    ├── AccessRefused                     the user's role or the run's owner does not allow it
    ├── PrivacyError
    │   └── BudgetExhausted               the next spend would pass the budget
    ├── MaskingError                      masks, shares or keys do not fit together
    ├── StorageError                      a file of a run could not be written, read or locked
    │   ├── DamagedJournalError           a journal's bytes are not what was written
    │   └── ShardsLost                    a party's cluster lost parts of its table too often
    ├── ReplayError                       replaying a journal gives something else than before
    └── TransportError                    a message could not be carried
        └── VersionMismatch               the two ends speak different versions of the protocol

NoiseExceedsSignalWarning (UserWarning) is the only warning: a training goes on, and learns little.

A message says what failed, where, and what to do. It never holds a row, a key, a mask, a label or
a plain statistic: messages end up in logs and on other machines.

What may travel to a peer is made by `of`, a code with fields, or by `stating`, a sentence of this
code (`error_texts.py`). A sentence that is given to a class itself stays on its machine.
"""

import errno
from collections.abc import Iterable, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, Self

from fedforest.error_texts import STATED, Text, join, render

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class NoiseExceedsSignalWarning(UserWarning):
    """The noise of a training exceeds the counts that it hides; told before the first tree.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import GlobalDP, HorizontalExtraTreesClassifier, NoiseExceedsSignalWarning
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = HorizontalExtraTreesClassifier(privacy=GlobalDP(epsilon=0.1), max_depth=4)
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always", NoiseExceedsSignalWarning)
    ...     _ = forest.fit(X, y, party=[row % 2 for row in range(len(y))])
    >>> told[0].category.__name__
    'NoiseExceedsSignalWarning'
    """


class FederationError(Exception):
    """Root of every error this package raises on purpose.

    `party` is whom it names or who refused, where that is somebody; where several parties refused
    at once, `refusals` are their errors one by one, and `told` is what each of them said.

    Examples
    --------
    >>> from fedforest import FederationError, VerticalForestClassifier
    >>> try:
    ...     VerticalForestClassifier(max_depth=0).fit([[0.0], [1.0]], ["no", "yes"])
    ... except FederationError as error:
    ...     print(error)
    max_depth is 0; it must be None or a whole number of at least 1.
    """

    party: str = ""
    refusals: "tuple[FederationError, ...]" = ()
    code: str = ""
    fields: Mapping[str, Any] = MappingProxyType({})
    told: Text | None = None

    @classmethod
    def of(cls, code: str, /, *, party: str = "", **fields: Any) -> Self:
        """An error by its code; the names of its fields decide what a peer is told of them."""
        error = cls._make(join(render(code, fields)), party)
        error.code, error.fields = code, fields
        return error

    @classmethod
    def stating(cls, statement: str, /, *, party: str = "", **numbers: object) -> Self:
        """An error for peers to read, too: a sentence in which nothing is of anybody's data."""
        text = statement.format_map(numbers) if numbers else statement
        return cls.of(STATED, party=party, statement=text)

    def bare(self) -> Self:
        """Copy the error for keeping, or for raising it again.

        The copy holds neither the frames that the error passed nor the errors behind it, and with
        them no message that was at work there.
        """
        copied = copy(self).with_traceback(None)  # Dask, where it is loaded, has them copied, too
        copied.__cause__ = copied.__context__ = None
        if self.refusals:
            copied.refusals = tuple(refusal.bare() for refusal in self.refusals)
        return copied

    @classmethod
    def _make(cls, text: str, party: str) -> Self:
        error = cls(text)
        if party:
            error.party = party
        return error


class ConfigurationError(FederationError, ValueError):
    """A setting is wrong, or settings contradict each other.

    `key` is the parameter it is about, with the setting inside where it is about one of those:
    `("max_depth",)`, `("aggregation", "k")`; empty where it is about no parameter.
    """

    def __init__(self, message: str, *, key: str | tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.key = (key,) if isinstance(key, str) else key


class DataError(FederationError, ValueError):
    """A table, target or weight cannot be used."""


class UnknownColumn(DataError):  # noqa: N818 - reads as the finding it reports
    """A data set has no column of the name that it was asked for, as a label or a weight."""


class ModelFileError(FederationError, ValueError):
    """A stored model cannot be read."""


class DamagedModelError(ModelFileError):
    """The bytes of a stored model are not what was written."""


class NewerModelError(ModelFileError):
    """A stored model was written by a newer release."""


class ProtocolError(FederationError):
    """Messages did not follow the protocol."""


class LocalProtocolError(ProtocolError):
    """Our own side broke the protocol: a bug here, not at a peer."""


class RemoteProtocolError(ProtocolError):
    """The peer named by `party` broke the protocol."""

    def __init__(self, message: str, party: str) -> None:
        super().__init__(message, party)
        self.party = party

    @classmethod
    def _make(cls, text: str, party: str) -> Self:
        return cls(text, party)

    def __str__(self) -> str:
        return f"party {self.party!r}: {self.args[0]}"


class PartyError(FederationError):
    """The parties a run needs are not there."""


class PartyLost(PartyError):  # noqa: N818 - an event in the run's life, named as operators say it
    """The party named by `party` stopped answering."""

    def __init__(self, message: str, party: str) -> None:
        super().__init__(message, party)
        self.party = party

    @classmethod
    def _make(cls, text: str, party: str) -> Self:
        return cls(text, party)

    def __str__(self) -> str:
        return f"party {self.party!r}: {self.args[0]}"


class PredictionForgotten(PartyLost):
    """The party named by `party` was restarted in the middle of a prediction: begin it again."""


class TooFewParties(PartyError):  # noqa: N818 - reads as the finding it reports
    """Fewer parties are present than the run needs to go on."""


class PolicyRefusal(PartyError):  # noqa: N818 - reads as the finding it reports
    """A party's own policy does not allow what it was asked; the party's log says why in full."""


class AccessRefused(FederationError):  # noqa: N818 - reads as what happened
    """A user asked the coordinator for what its role, or the owner of a run, does not allow."""


class PrivacyError(FederationError):
    """A run would release more than it is allowed to."""


class BudgetExhausted(PrivacyError):  # noqa: N818 - reads as the finding it reports
    """The next spend would pass the budget."""


class MaskingError(FederationError):
    """Masks, shares or keys do not fit together."""


class StorageError(FederationError):
    """A file of a run could not be written, read or locked; earlier records are still there."""

    @staticmethod
    def of_write(path: object, error: OSError) -> "StorageError":
        """An error about a file that could not be written; a full disk is named as such."""
        if error.errno in _FULL:
            return StorageError.of("storage.full", path=path)
        return StorageError.of("storage.failed", path=path, detail=error.strerror)


class DamagedJournalError(StorageError):
    """The bytes of a journal are not what was written."""


class ShardsLost(StorageError):  # noqa: N818 - reads as the finding it reports
    """Processes of a party's cluster ended, and with them shards of its table; `shards` are theirs.

    The party builds them again from their source; users see the error if that is no use.
    """

    shards: tuple[int, ...] = ()

    @staticmethod
    def numbered(shards: Iterable[int]) -> "ShardsLost":
        """An error about these shards."""
        error = ShardsLost.of("cluster.lost")
        error.shards = tuple(sorted(shards))
        return error


class ReplayError(FederationError):
    """A run cannot be resumed: its journal, replayed, gives something else than before."""


class TransportError(FederationError):
    """A message could not be carried."""


class VersionMismatch(TransportError):  # noqa: N818 - reads as the finding it reports
    """Coordinator and party, or user, speak different versions of the protocol."""
