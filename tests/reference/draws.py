"""Counter-based draws in Python integers: bootstrap samples and random orders of columns."""

GOLDEN = 0x9E3779B97F4A7C15
MAX_MULTIPLICITY = 15
WORD = 2**64


def mix(x: int) -> int:
    """The finaliser of splitmix64."""
    x %= WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def draw_below(key: int, counter: int, bound: int) -> int:
    """The upper half of a random word, scaled to the bound."""
    return (mix(key + counter * GOLDEN) >> 32) * bound >> 32


def count_draws(key: int, n_draws: int, n_rows: int) -> list[int]:
    """How often each row comes in a sample with replacement."""
    drawn = [draw_below(key, i, n_rows) for i in range(n_draws)]
    return [min(MAX_MULTIPLICITY, drawn.count(row)) for row in range(n_rows)]


def choose_rows(key: int, n_draws: int, n_rows: int) -> list[int]:
    """1 for the rows of a sample without replacement, 0 for the others."""
    chosen: list[int] = []
    for row in range(n_rows):
        n_needed = n_draws - sum(chosen)
        chosen.append(int(draw_below(key, row, n_rows - row) < n_needed))
    return chosen


def order_columns(tree_key: int, node: int, n_columns: int) -> list[int]:
    """The node's own random order of all columns, by Fisher and Yates."""
    key = mix(tree_key + node * GOLDEN)
    order = list(range(n_columns))
    for i in range(n_columns):
        j = i + draw_below(key, i, n_columns - i)
        order[i], order[j] = order[j], order[i]
    return order
