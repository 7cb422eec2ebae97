"""A party that answers with what it was asked, in a process of its own.

Run as `python -m tests.transport.echo_party ADDRESS FOLDER NAME`.
"""

import sys
import threading
from pathlib import Path

from fedforest.transport.grpc.party import GrpcLink
from fedforest.transport.tls import Credentials

if __name__ == "__main__":
    address, folder, name = sys.argv[1:]
    GrpcLink(address, Credentials.load(Path(folder)), name, bytes).run(threading.Event())
