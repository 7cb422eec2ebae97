"""The exact law of how many of a few rows say one, as tables that kernels draw from.

Probabilities are floats, hence whole numbers of some power of two, and so are all chances that
follow from them. They are worked out in Python's integers, to the last bit: a draw has the law that
the settings say, and no other.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.noise.answers import UNDECIDED, AnswerLaws

MOST_ROWS = 16  # of a law; tables for twice as many would not stay in the fast caches
MOST_BITS = 1024  # of a chance: very small probabilities leave room for fewer rows
_WORD_BITS = 32
_BYTES = np.arange(256)


@lru_cache(maxsize=16)
def tabulate_answers(if_set: float, if_clear: float) -> AnswerLaws:
    """The laws for rows that say one with these probabilities: if their bit is set, if it is not.

    They go up to `MOST_ROWS` rows, or to as many as `MOST_BITS` suffice for.
    """
    places = max(_count_places(if_set), _count_places(if_clear), 1)
    most = min(MOST_ROWS, MOST_BITS // places)
    n_bits = _WORD_BITS * max(1, -(-most * places // _WORD_BITS))
    laws = [_accumulate(law, n_bits) for law in _list_laws(most, places, if_set, if_clear)]
    start = np.cumsum([0, *map(len, laws)])
    by_byte = np.stack([_decide_by_byte(law, n_bits) for law in laws])
    chances = _to_words([chance for law in laws for chance in law], n_bits)
    return AnswerLaws(most, if_set, if_clear, by_byte, start, chances)


def _count_places(probability: float) -> int:
    """Count the binary places of a probability, a whole number of 2^-places."""
    return probability.as_integer_ratio()[1].bit_length() - 1


def _list_laws(
    most: int, places: int, if_set: float, if_clear: float
) -> Iterator[tuple[list[int], int]]:
    """(chances of 0, 1, 2, ... ones, their sum) by rows, then by how many of them are set."""
    laws = [[1]]
    for n in range(most + 1):
        yield from ((law, 1 << (n * places)) for law in laws)
        more_set = _add_row(laws[-1], if_set, places)
        laws = [*(_add_row(law, if_clear, places) for law in laws), more_set]


def _add_row(law: list[int], probability: float, places: int) -> list[int]:
    """Return the law for one row more, which says one with this probability."""
    numerator, denominator = probability.as_integer_ratio()
    yes = numerator * ((1 << places) // denominator)
    no = (1 << places) - yes
    return [a * no + b * yes for a, b in zip([*law, 0], [0, *law], strict=True)]


def _accumulate(law: tuple[list[int], int], n_bits: int) -> list[int]:
    """Chances of at most 0, 1, 2, ... ones in units of 2^-n_bits, as long as they are below 1."""
    chances, total = law
    return [at_most * (1 << n_bits) // total for at_most in accumulate(chances) if at_most < total]


def _decide_by_byte(chances: list[int], n_bits: int) -> NDArray[np.uint8]:
    """The draw of fractions with each first byte, UNDECIDED where it is not the same for all."""
    low_bits = n_bits - 8
    whole = [chance >> low_bits for chance in chances]
    rounded_up = [-(-chance >> low_bits) for chance in chances]
    surely_passed = np.searchsorted(rounded_up, _BYTES, side="right")
    perhaps_passed = np.searchsorted(whole, _BYTES, side="right")
    decided = surely_passed == perhaps_passed
    return np.where(decided, surely_passed, UNDECIDED).astype(np.uint8)


def _to_words(chances: list[int], n_bits: int) -> NDArray[np.uint32]:
    """Return (words, chances), the first word highest."""
    encoded = b"".join(chance.to_bytes(n_bits // 8, "big") for chance in chances)
    words = np.frombuffer(encoded, ">u4").reshape(len(chances), n_bits // _WORD_BITS)
    return np.ascontiguousarray(words.T, np.uint32)
