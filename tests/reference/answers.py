"""How many of some rows say one, by Python's fractions: chances as sums of products."""

from fractions import Fraction
from math import comb


def chance_of(k: int, n: int, probability: Fraction) -> Fraction:
    """That k of n rows say one."""
    return comb(n, k) * probability**k * (1 - probability) ** (n - k)


def chances_up_to(n: int, ones: int, if_set: float, if_clear: float) -> list[Fraction]:
    """That at most 0, 1, 2, ... of n rows say one, `ones` of which have the bit set."""
    p, q, zeros = Fraction(if_set), Fraction(if_clear), n - ones
    chances = [
        sum(
            (chance_of(j, ones, p) * chance_of(k - j, zeros, q))
            for j in range(max(0, k - zeros), min(k, ones) + 1)
        )
        for k in range(n + 1)
    ]
    return [Fraction(sum(chances[: k + 1])) for k in range(n + 1)]


def place(fraction: Fraction, chances: list[Fraction]) -> int:
    """The number that a random fraction from 0 to 1 stands for."""
    return sum(chance <= fraction for chance in chances)
