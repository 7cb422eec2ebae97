"""Normalise ids of rows, so that two parties write the same id as the same bytes.

- Text is brought to Unicode's composed form (NFC) and stripped of white space at both ends.
- Whole numbers are written in decimal, floats among them if they are whole: 7, 7.0 and "7" are one
  id; "007" is another, as are "a" and "A".
- An entry of the catalogue may have other rules for text (`IdRules`): parties that align must have
  the same ones. What it does with repeated ids is its own affair.
- Dates are written in ISO 8601. Any other type is refused.
- Several columns are written one after the other, each as its length in bytes, a colon and the
  value: rows with different values never give the same bytes.

Every row must have an id: without one, no other party can find it.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.protocol.alignment.payloads import IdCase, IdForm, IdNumbers, IdUnicode

Duplicates = Literal["leave-out", "first", "refuse"]

_LARGEST_EXACT = 2**53  # beyond, floats stand for several whole numbers
_WHOLE_NUMBERS = (  # and how they are written plainly
    (r"^\+?0*([0-9]+)$", r"\1"),
    (r"^-0*([1-9][0-9]*)$", r"-\1"),
    (r"^-0+$", "0"),
)


class IdRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How text becomes an id, and what happens to rows that share one."""

    trim: bool = True  # white space at both ends
    case: IdCase = "keep"  # or "fold": capital and small letters are the same
    unicode: IdUnicode = "NFC"  # or "NFKC": wide and other forms of letters and digits are the same
    numbers: IdNumbers = "keep"  # or "plain": text of a whole number loses zeros and plus in front
    duplicates: Duplicates = "leave-out"  # rows that share an id; "first": but for the first one

    def form(self, n_columns: int) -> IdForm:
        """Return what other parties' rules must agree with."""
        return IdForm(n_columns, self.trim, self.case, self.unicode, self.numbers)


DEFAULT_RULES = IdRules()


def keep_own_ids(data_set: str, ids: Sequence[bytes], duplicates: Duplicates) -> Sequence[bytes]:
    """Return the ids by which rows are aligned: an empty one stands for a row that is left out.

    Ids that are left in twice are left out by every method of alignment.
    """
    if duplicates == "leave-out":
        return ids
    if duplicates == "refuse":
        n_shared = count_shared(ids)
        if n_shared:
            raise DataError.of("ids.repeated", data_set=data_set, n_rows=n_shared)
        return ids
    first = dict(zip(reversed(ids), reversed(range(len(ids))), strict=True))
    return [each if first[each] == row else b"" for row, each in enumerate(ids)]


def count_shared(ids: Sequence[bytes]) -> int:
    """Count the rows whose id stands in another row, too."""
    counts = Counter(ids)
    return len(ids) - sum(count == 1 for count in counts.values())


def normalise_ids(
    data_set: str, columns: Any, rules: IdRules = DEFAULT_RULES
) -> NDArray[np.object_]:
    """Return the ids of all rows; `columns` is a pyarrow table of one or several columns."""
    import pyarrow  # noqa: PLC0415 - only parties with tables need it
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    parts = [
        _write(column, f"id column {name!r} of data set {data_set!r}", rules)
        for name, column in zip(columns.column_names, columns.columns, strict=True)
    ]
    if len(parts) > 1:
        colon, nothing = (pyarrow.scalar(text, pyarrow.binary()) for text in (b":", b""))
        lengths = [pc.binary_length(part).cast(pyarrow.string()) for part in parts]
        pieces = [
            piece
            for length, part in zip(lengths, parts, strict=True)
            for piece in (length.cast(pyarrow.binary()), colon, part)
        ]
        parts = [pc.binary_join_element_wise(*pieces, nothing)]
    ids = np.empty(columns.num_rows, object)
    ids[:] = parts[0].to_pylist()
    return ids


def _write(column: Any, where: str, rules: IdRules) -> Any:
    """Write one column as binary values."""
    import pyarrow  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    if column.null_count:
        raise DataError.of("ids.empty", where=where)
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_floating(column.type):
        column = _whole_numbers(column, where)
    text = _as_text(column, where)
    if not (pyarrow.types.is_integer(column.type) or pyarrow.types.is_date(column.type)):
        text = _apply(rules, text)
    if pc.any(pc.equal(pc.binary_length(text), 0)).as_py():
        raise DataError.of("ids.empty", where=where)
    return text.cast(pyarrow.binary())


def _apply(rules: IdRules, text: Any) -> Any:
    """Bring text to the one form of these rules."""
    import pyarrow  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    text = pc.utf8_normalize(text, form=rules.unicode)
    if rules.case == "fold":  # folding may take letters apart
        folded = [each.casefold() for each in text.to_pylist()]
        text = pc.utf8_normalize(pyarrow.array(folded, pyarrow.string()), form=rules.unicode)
    if rules.trim:
        text = pc.utf8_trim_whitespace(text)
    if rules.numbers == "plain":
        for pattern, written in _WHOLE_NUMBERS:
            text = pc.replace_substring_regex(text, pattern, written)
    return text


def _as_text(column: Any, where: str) -> Any:
    import pyarrow  # noqa: PLC0415 - as above

    kind, types = column.type, pyarrow.types
    is_whole_decimal = types.is_decimal(kind) and kind.scale == 0
    if not (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_integer(kind)
        or types.is_date(kind)
        or is_whole_decimal
    ):
        raise DataError.of("ids.kind", where=where)
    return column.cast(pyarrow.string())


def _whole_numbers(column: Any, where: str) -> Any:
    import pyarrow  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    values = column.cast(pyarrow.float64())
    is_whole = pc.and_(
        pc.equal(values, pc.floor(values)), pc.less(pc.abs(values), float(_LARGEST_EXACT))
    )
    if not pc.all(is_whole).as_py():
        raise DataError.of("ids.not_whole", where=where)
    return values.cast(pyarrow.int64())
