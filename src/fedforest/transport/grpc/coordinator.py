"""The coordinator's side of the gRPC transport: parties connect, requests go out, replies come in.

One event loop on a thread of its own carries everything; callers block on theirs. This module
starts and ends the loop and admits the calls of parties and users; `presence.py` knows the
connected parties, and `exchanges.py` their open requests.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import grpc

from fedforest.errors import ConfigurationError, FederationError, TransportError
from fedforest.printable import printable
from fedforest.protocol.network import Network
from fedforest.transport.frames import check_size
from fedforest.transport.grpc.admission import (
    Admission,
    seconds_until_expiry,
    shown_certificate,
)
from fedforest.transport.grpc.channel import (
    CONVERSE,
    DESCRIBE,
    RELEASE_KEY,
    RENEW,
    SERVICE,
    SUBMIT,
    ChannelLimits,
    server_credentials,
    server_options,
)
from fedforest.transport.grpc.client_calls import ClientCalls, ServeClient
from fedforest.transport.grpc.connections import Connections, most_connections
from fedforest.transport.grpc.description import describe_itself
from fedforest.transport.grpc.exchanges import AwaitedExchange, Exchanges, ExchangeWait
from fedforest.transport.grpc.party_stream import PartyStream
from fedforest.transport.grpc.presence import Presence
from fedforest.transport.identity import Identity
from fedforest.transport.tls import Credentials

_LOG = logging.getLogger(__name__)
_START_SECONDS = 30.0
_LONGEST_RELEASE = 32
Result = TypeVar("Result")
Renew = Callable[[Identity, bytes], bytes]  # (who, certificate it shows) -> its next certificate


class GrpcHub:
    """The coordinator's end of the parties' connections; a transport to all of them.

    `address` is the one to listen on; port 0 lets the system choose. `serve_client` answers users'
    calls, and `renew` gives out certificates to who shows one in date, on threads of the hub.
    `is_revoked` is asked at the beginning of every call; `revoke` also cuts those under way.
    """

    def __init__(  # noqa: PLR0913 - all that a coordinator's port needs
        self,
        credentials: Credentials,
        address: str = "127.0.0.1:0",
        *,
        serve_client: ServeClient | None = None,
        renew: Renew | None = None,
        is_revoked: Callable[[Identity], bool] = lambda _: False,
        limits: ChannelLimits | None = None,
    ) -> None:
        if credentials.identity.role != "coordinator":
            raise ConfigurationError(
                f"{credentials.identity} is no coordinator's certificate; parties would refuse it"
            )
        self.identity = credentials.identity
        self.address = address
        self._credentials = credentials
        self._renew = renew
        self._limits = limits if limits is not None else ChannelLimits()
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._server: Any = None
        self._watching: asyncio.Future[None] | None = None
        self._connections = Connections(self._limits)
        self._clients: ClientCalls | None = None
        if serve_client is not None:
            self._clients = ClientCalls(serve_client, self._connections, self._limits)
        federation = self.identity.federation
        self._admission = Admission(federation, self._connections, self._limits, is_revoked)
        self._presence = Presence(self._loop)
        self._exchanges = Exchanges(self._loop, self._presence)

    def start(self) -> None:
        """Listen; returns when parties can connect."""
        self._thread = threading.Thread(target=self._run, name="fedforest-hub", daemon=True)
        self._thread.start()
        try:
            self._call(self._listen(), _START_SECONDS)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cut all connections and end the thread; exchanges under way raise `TransportError`."""
        if self._thread is None:
            return
        self._call(self._shut(), _START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        self._thread = None
        if self._clients is not None:
            self._clients.close()

    def __enter__(self) -> "GrpcHub":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def network(self) -> Network:
        """The slowest way to a connected party, measured when it connected."""
        return self._presence.network()

    def connected(self) -> list[str]:
        """Names of the parties that are connected now."""
        return sorted(self._presence.names())

    def releases(self) -> dict[str, str]:
        """Return the release of every connected party, as it says; empty where it says none."""
        return self._presence.releases()

    def latencies(self) -> dict[str, float]:
        """Return the seconds to every connected party and back."""
        return self._presence.latencies()

    def wait_for_parties(self, names: Iterable[str], timeout_seconds: float) -> None:
        """Return when all these parties are connected; `TooFewParties` names who is missing."""
        self._call(self._presence.require(set(names), timeout_seconds))

    def use_credentials(self, credentials: Credentials) -> None:
        """Show another certificate to whoever connects from now on."""
        if credentials.identity != self.identity:
            raise ConfigurationError(f"{credentials.identity} is not who this hub is")
        self._credentials = credentials

    def revoke(self, identity: Identity) -> None:
        """Cut this identity's connections and let it in no more."""
        if self._thread is None:  # before anybody can connect
            self._admission.revoke(identity)
            if identity.role == "party":
                self._exchanges.revoke(identity.name)
        else:
            self._call(self._revoke(identity))

    def exchange(
        self,
        requests: Mapping[str, bytes],
        *,
        may_lose: bool = False,
        patience_seconds: float | None = None,
    ) -> dict[str, bytes]:
        """Deliver all requests at the same time; return when every party has answered.

        A party that is away is waited for, `patience_seconds` in all, and sent its request again;
        then it is lost. The first refusal of a party ends the exchange.
        """
        patience = self._limits.patience_seconds if patience_seconds is None else patience_seconds
        return self._carry_out(
            requests, ExchangeWait(patience, self._limits.answer_seconds, may_lose)
        )

    def exchange_beside(
        self, requests: Mapping[str, bytes], work: Callable[[], None]
    ) -> dict[str, bytes]:
        """Exchange; `work` is called here once requests were handed to the streams.

        Earlier, it would compete with them for the interpreter.
        """
        waiting = ExchangeWait(self._limits.patience_seconds, self._limits.answer_seconds)
        return self._carry_out(requests, waiting, work)

    def in_sequence(self) -> Callable[[Mapping[str, bytes]], AwaitedExchange]:
        """Return a way to begin exchanges whose requests reach each party in this order."""
        waiting = ExchangeWait(self._limits.patience_seconds, self._limits.answer_seconds)
        begin = self._exchanges.in_sequence(waiting)

        def begin_checked(requests: Mapping[str, bytes]) -> AwaitedExchange:
            for data in requests.values():
                check_size(data, self._limits.max_message_bytes)
            self._require_running()
            return begin(requests)

        return begin_checked

    def _carry_out(
        self,
        requests: Mapping[str, bytes],
        waiting: ExchangeWait,
        work: Callable[[], None] | None = None,
    ) -> dict[str, bytes]:
        for data in requests.values():
            check_size(data, self._limits.max_message_bytes)
        if requests:
            self._require_running()
        return self._exchanges.carry_out(requests, waiting, work)

    # On the calling thread, above; on the loop's thread, below.

    def _call(
        self, work: Coroutine[Any, Any, Result], timeout_seconds: float | None = None
    ) -> Result:
        """Have the loop do something; every wait in it has a deadline of its own."""
        try:
            self._require_running()
        except TransportError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_seconds)
        except CancelledError:
            raise TransportError("the coordinator's hub was closed") from None
        except BaseException:
            future.cancel()
            raise

    def _require_running(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            raise TransportError("the coordinator's hub is not running; start it first")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _listen(self) -> None:
        self._server = grpc.aio.server(options=server_options(self._limits, most_connections()))
        handlers = {CONVERSE: grpc.stream_stream_rpc_method_handler(self._converse)}
        handlers[DESCRIBE] = grpc.unary_unary_rpc_method_handler(self._describe)
        if self._clients is not None:
            handlers[SUBMIT] = grpc.stream_stream_rpc_method_handler(self._submit)
        if self._renew is not None:
            handlers[RENEW] = grpc.unary_unary_rpc_method_handler(self._give_certificate)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        try:
            tls = server_credentials(lambda: self._credentials)
            port = self._server.add_secure_port(self.address, tls)
        except RuntimeError as error:
            raise TransportError(
                f"cannot listen at {self.address}: the address is in use or not this machine's"
            ) from error
        await self._server.start()
        self.address = f"{self.address.rpartition(':')[0]}:{port}"
        self._connections.listen_at(port)
        self._watching = asyncio.ensure_future(self._watch_connections())
        _LOG.info("listening at %s as %s", self.address, self.identity)

    async def _watch_connections(self) -> None:
        while True:
            await asyncio.sleep(self._connections.look())

    async def _shut(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        self._exchanges.fail_all(TransportError("the coordinator's hub was closed"))
        if self._server is not None:
            await self._server.stop(grace=0)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            _, rest = await asyncio.wait(rest, timeout=1)  # exchanges and streams come to their end
        for task in rest:
            task.cancel()

    async def _converse(self, _: Any, context: Any) -> None:
        """One connection of a party, from its hello on."""
        identity = await self._admission.identify(context, "party")
        await self._admission.greet(context, identity)
        stream = PartyStream(identity.name, context, self._limits.max_message_bytes)
        stream.release = _release_of(context)
        self._presence.enter(stream, context.peer())
        expiry = self._loop.call_later(
            seconds_until_expiry(context),
            stream.cut,
            grpc.StatusCode.PERMISSION_DENIED,
            f"the certificate of {identity} has expired",
        )
        try:
            await stream.serve(self._exchanges.take)
        finally:
            expiry.cancel()
            self._presence.leave(stream)
            self._exchanges.ask_again(stream)
        if stream.ending is not None:
            await self._connections.end_call(context, *stream.ending)

    async def _submit(self, _: Any, context: Any) -> None:
        identity = await self._admission.identify(context, "user")
        await self._admission.compare_versions(context, identity)
        assert self._clients is not None
        await self._clients.serve(identity, context)

    async def _describe(self, _: bytes, context: Any) -> bytes:
        await self._admission.identify(context, "party", "user")
        return describe_itself()

    async def _give_certificate(self, _: bytes, context: Any) -> bytes:
        identity = await self._admission.identify(context, "party", "user")
        await self._admission.keep_pace(identity)
        assert self._renew is not None
        try:
            return await self._loop.run_in_executor(
                None, self._renew, identity, shown_certificate(context)
            )
        except FederationError as error:
            _LOG.warning("no certificate for %s: %s", identity, error)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
            raise  # never reached: abort raises

    async def _revoke(self, identity: Identity) -> None:
        self._admission.revoke(identity)
        stream = self._presence.find(identity.name)
        if identity.role == "party":
            self._exchanges.revoke(identity.name)
        if identity.role == "party" and stream is not None:
            stream.cut(grpc.StatusCode.PERMISSION_DENIED, f"{identity} was revoked")
        if identity.role == "user" and self._clients is not None:
            self._clients.cut(identity)


def _release_of(context: Any) -> str:
    said = dict(context.invocation_metadata()).get(RELEASE_KEY, "")
    return printable(str(said)[:_LONGEST_RELEASE])
