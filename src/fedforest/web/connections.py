"""Connections of HTTP clients, with bounds on what comes before a request is known.

Nothing of a head is believed, so it is short and arrives soon: a stranger that sends headers
without end, or a byte at a time, would hold memory and a connection otherwise.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 << 10
HEAD_SECONDS = 15.0


class BoundedConnection(HttpToolsProtocol):
    """A connection that is shut if the head of a request is too long, or too late."""

    _n_head_bytes = 0  # of the headers of the request that comes in
    _n_early_bytes = 0  # that came before they were complete
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect the first head."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on; shut the connection where a head goes on and on."""
        is_head = self._head_timer is not None
        super().data_received(data)
        if is_head and self._head_timer is not None:
            self._n_early_bytes += len(data)
            if self._n_early_bytes > MOST_HEAD_BYTES:
                self._refuse("The head of the request is too long.")

    def on_message_begin(self) -> None:
        """Begin a head, the next one of a connection that is kept."""
        super().on_message_begin()
        self._n_head_bytes = self._n_early_bytes = 0
        if self._head_timer is None:
            self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what is raised becomes a 400 of the parser."""
        self._n_head_bytes += len(name) + len(value)
        if self._n_head_bytes > MOST_HEAD_BYTES:
            raise ValueError("too long")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there; its body has limits of its own."""
        self._end_head()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(
            HEAD_SECONDS, self._refuse, "The head of the request did not arrive in time."
        )

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, reason: str) -> None:
        self._end_head()
        if not self.transport.is_closing():
            self.send_400_response(reason)
