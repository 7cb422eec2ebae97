"""What other schemes for encrypted sums cost, on one core, as JSON: for `homomorphic.py`.

    pip install gmpy2 sf-heu          # in an environment of its own: never dependencies of ours
    python benchmarks/micro/homomorphic.py --rivals <that environment>/bin/python

Each figure is operations per second of processor time; a rival that is not installed is left out.
Paillier and Okamoto-Uchiyama have 3,072 bits, which is about 128 bits of security; the curve of
sf-heu is edwards25519.
"""

import json
import secrets
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

BITS = 3072
SECONDS = 0.6
SUM_BITS = 40
HEU_BATCH = 20_000


def rate(work: Callable[[], object], count: int = 1) -> float:
    """How often per second of processor time the work's `count` operations are done."""
    work()
    n, start = 0, time.process_time()
    while (spent := time.process_time() - start) < SECONDS:
        work()
        n += count
    return n / spent


def draw_prime(gmpy2: Any, bits: int) -> Any:
    return gmpy2.next_prime(gmpy2.mpz(secrets.randbits(bits) | (3 << (bits - 2))))


def measure_modular(gmpy2: Any, modulus: Any, cipher: Any) -> dict[str, float]:
    """What both schemes do with ciphertexts: sums, and moving one up to pack another below it."""
    return {
        "additions": rate(lambda: [cipher * cipher % modulus for _ in range(100)], 100),
        "shifts": rate(lambda: gmpy2.powmod(cipher, 1 << SUM_BITS, modulus)),
    }


def measure_okamoto_uchiyama(gmpy2: Any) -> dict[str, float]:
    """A message below p as g^m h^r modulo n = p^2 q, with an r of 256 bits."""
    p, q = (draw_prime(gmpy2, BITS // 3) for _ in range(2))
    n, square = p * p * q, p * p
    g = gmpy2.mpz(secrets.randbelow(int(n)))
    h = gmpy2.powmod(g, n, n)
    slope = gmpy2.invert((gmpy2.powmod(g, p - 1, square) - 1) // p, p)

    def encrypt() -> Any:
        mask = gmpy2.powmod(h, secrets.randbits(256), n)
        return gmpy2.powmod(g, secrets.randbits(20), n) * mask % n

    cipher = encrypt()
    return {
        "encryptions": rate(encrypt),
        "decryptions": rate(
            lambda: (gmpy2.powmod(cipher % square, p - 1, square) - 1) // p * slope % p
        ),
        "slots": BITS // 3 // SUM_BITS,
        **measure_modular(gmpy2, n, cipher),
    }


def measure_paillier(gmpy2: Any) -> dict[str, float]:
    """A message as (1 + m n) h^r modulo n^2, r of 256 bits; decryption modulo p^2 and q^2."""
    p, q = (draw_prime(gmpy2, BITS // 2) for _ in range(2))
    n = p * q
    square = n * n
    h = gmpy2.powmod(secrets.randbelow(int(n)), n, square)

    def encrypt() -> Any:
        mask = gmpy2.powmod(h, secrets.randbits(256), square)
        return (1 + secrets.randbits(20) * n) * mask % square

    cipher = encrypt()
    return {
        "encryptions": rate(encrypt),
        "decryptions": rate(
            lambda: [gmpy2.powmod(cipher % each**2, each - 1, each**2) for each in (p, q)]
        ),
        "slots": BITS // SUM_BITS,
        **measure_modular(gmpy2, square, cipher),
    }


def measure_heu(heu: Any, numpy: Any, schema: str, bits: int) -> dict[str, float]:
    """sf-heu's arrays, in its own C++."""
    tools = import_module("heu.numpy")
    kit = tools.setup(schema, bits)
    encryptor, decryptor, evaluator = kit.encryptor(), kit.decryptor(), kit.evaluator()
    marks = tools.array(numpy.arange(HEU_BATCH) % 2, heu.phe.BigintEncoder(kit.get_schema()))
    cipher = encryptor.encrypt(marks)
    few = cipher[0:500]
    return {
        "encryptions": rate(lambda: encryptor.encrypt(marks), HEU_BATCH),
        "additions": rate(lambda: evaluator.add(cipher, cipher), HEU_BATCH),
        "decryptions": rate(lambda: decryptor.decrypt(few), 500),
    }


def measure_rivals() -> dict[str, dict[str, float]]:
    rivals: dict[str, dict[str, float]] = {}
    try:
        gmpy2 = import_module("gmpy2")
        rivals[f"gmpy2, Okamoto-Uchiyama {BITS}"] = measure_okamoto_uchiyama(gmpy2)
        rivals[f"gmpy2, Paillier {BITS}"] = measure_paillier(gmpy2)
    except ModuleNotFoundError:
        pass
    try:
        heu, numpy = import_module("heu"), import_module("numpy")
        import_module("heu.phe")
        rivals["sf-heu, EC-ElGamal"] = measure_heu(heu, numpy, "elgamal", 256)
        rivals[f"sf-heu, Okamoto-Uchiyama {BITS}"] = measure_heu(heu, numpy, "ou", BITS)
    except ModuleNotFoundError:
        pass
    return rivals


if __name__ == "__main__":
    print(json.dumps(measure_rivals()))
