"""The contract of transports over MPI: `mpirun -n 4 python -m mpi4py -m tests.contracts.mpi_main`.

Rank 0 runs the tests, the other ranks are parties. By way of `mpi4py`, an error of one rank ends
all.
"""

import sys
from pathlib import Path

from mpi4py import MPI


def main() -> int:
    # Imported late: at rank 0 pytest comes first, as it rewrites what is imported after it.
    if MPI.COMM_WORLD.rank > 0:
        from tests.contracts.mpi_session import be_parties  # noqa: PLC0415 - see above

        be_parties()
        return 0
    import pytest  # noqa: PLC0415 - see above

    tests = Path(__file__).parent / "test_transports.py"
    code = pytest.main([str(tests), "-q", "-p", "no:cacheprovider"])
    from tests.contracts.mpi_session import end  # noqa: PLC0415 - see above

    end()
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
