"""ChaCha20 (RFC 8439, section 2.3) in Python integers, and what kernels make of its words."""

from collections.abc import Iterator

WORD = 2**32
CONSTANTS = [int.from_bytes(b"expand 32-byte k"[i : i + 4], "little") for i in range(0, 16, 4)]
LANES = 32
COLUMNS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
DIAGONALS = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]


def rotate(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) % WORD


def quarter_round(words: list[int], a: int, b: int, c: int, d: int) -> None:
    for first, second, third, by in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)]:
        words[first] = (words[first] + words[second]) % WORD
        words[third] = rotate(words[third] ^ words[first], by)


def block(key: bytes, inputs: list[int]) -> list[int]:
    """The sixteen words of one block; `inputs` are its last four input words."""
    key_words = [int.from_bytes(key[i : i + 4], "little") for i in range(0, 32, 4)]
    start = CONSTANTS + key_words + inputs
    words = list(start)
    for _ in range(10):
        for positions in COLUMNS + DIAGONALS:
            quarter_round(words, *positions)
    return [(word + first) % WORD for word, first in zip(words, start, strict=True)]


def halves(key: bytes, number: int, counter: int) -> Iterator[int]:
    """The words of a stream from a counter on: of 32 blocks the first words, the second, ..."""
    while True:
        blocks = []
        for lane in range(LANES):
            count = (counter + lane) % 2**64
            inputs = [count % WORD, count // WORD, number % WORD, number // WORD]
            blocks.append(block(key, inputs))
        counter += LANES
        for words in zip(*blocks, strict=True):
            yield from words


def permanent_response(key: bytes, word: int, n_bits: int, row: tuple[int, int], turn: int) -> int:
    """The code word of row (id, label), a bit turned where its coin is below `turn`."""
    row_id, label = row
    coins: list[int] = []
    while len(coins) < n_bits:
        coins += block(key, [len(coins) // 16, row_id % WORD, row_id // WORD, label])
    for bit in range(n_bits):
        if coins[bit] < turn:
            word ^= 1 << bit
    return word
