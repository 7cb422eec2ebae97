"""Looking for connections harms nothing else that the process has open."""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

from fedforest.transport.grpc.channel import ChannelLimits
from fedforest.transport.grpc.connections import Connections

TRY_TO_LOCK = (
    "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
)


def can_be_locked(path: Path) -> bool:
    """Whether another process gets the lock."""
    tried = subprocess.run(
        [sys.executable, "-c", TRY_TO_LOCK, str(path)], capture_output=True, check=False, timeout=60
    )
    return tried.returncode == 0


def test_locks_of_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "database"
    path.touch()
    connections = Connections(ChannelLimits())
    with path.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # as databases do
        for _ in range(3):
            connections.look()
        assert not can_be_locked(path)
    assert can_be_locked(path)


def test_descriptors_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    with (
        (tmp_path / "file").open() as file,
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as ours,
        listening.accept()[0] as accepted,
    ):
        before = sorted(os.listdir("/dev/fd"))
        connections = Connections(ChannelLimits())
        connections.listen_at(listening.getsockname()[1])
        for _ in range(3):
            connections.look()
        assert sorted(os.listdir("/dev/fd")) == before
        ours.sendall(b"hello")
        assert (accepted.recv(5), file.read()) == (b"hello", "content")
        assert os.get_blocking(accepted.fileno())
