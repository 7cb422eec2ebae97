"""The coordinator's side of the gRPC transport: parties connect, requests go out, replies come in.

One event loop on a thread of its own carries everything; callers block on theirs. A request
outlives the stream it was sent on: when the party comes back it is sent again, so that endpoints
must answer a repeated request with the same reply. Late replies answer nothing.
"""

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, TypeVar

import grpc

from fedforest.errors import (
    ConfigurationError,
    FederationError,
    PartyLost,
    RemoteProtocolError,
    TooFewParties,
    TransportError,
)
from fedforest.protocol.network import Network
from fedforest.transport.error_table import error_of_party
from fedforest.transport.frames import Refusal, check_size
from fedforest.transport.grpc_admission import (
    Admission,
    seconds_until_expiry,
    shown_certificate,
)
from fedforest.transport.grpc_channel import (
    CONVERSE,
    RENEW,
    SERVICE,
    SUBMIT,
    Limits,
    server_credentials,
    server_options,
)
from fedforest.transport.grpc_client_calls import ClientCalls, ServeClient
from fedforest.transport.grpc_party_stream import Answer, PartyStream, keep
from fedforest.transport.grpc_questions import Exchange, Question, Questions
from fedforest.transport.tls import Credentials, Identity

_LOG = logging.getLogger(__name__)
_START_SECONDS = 30.0
Result = TypeVar("Result")
Renew = Callable[[Identity, bytes], bytes]  # (who, certificate it shows) -> its next certificate


class GrpcHub:
    """Where parties connect to; a transport to all of them.

    `address` is the one to listen on; port 0 lets the system choose. `serve_client` answers users'
    calls, and `renew` gives out certificates to who shows one in date, on threads of the hub.
    """

    def __init__(
        self,
        credentials: Credentials,
        address: str = "127.0.0.1:0",
        *,
        serve_client: ServeClient | None = None,
        renew: Renew | None = None,
        limits: Limits | None = None,
    ) -> None:
        if credentials.identity.role != "coordinator":
            raise ConfigurationError(
                f"{credentials.identity} is no coordinator's certificate; parties would refuse it"
            )
        self.identity = credentials.identity
        self.address = address
        self._credentials = credentials
        self._renew = renew
        self._limits = limits if limits is not None else Limits()
        self._clients = ClientCalls(serve_client, self._limits) if serve_client else None
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._server: Any = None
        self._streams: dict[str, PartyStream] = {}
        self._questions = Questions()
        self._admission = Admission(self.identity.federation, self._limits.greeting_seconds)
        self._next_id = secrets.randbits(48)  # so that no two hubs use the same ids
        self._change: asyncio.Future[None] = self._loop.create_future()  # parties come or go

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
        networks = [stream.network for stream in list(self._streams.values())]
        if not networks:
            return Network(latency_seconds=2e-3, bytes_per_second=1e8)
        return Network(
            max(network.latency_seconds for network in networks),
            min(network.bytes_per_second for network in networks),
        )

    def connected(self) -> list[str]:
        """Names of the parties that are connected now."""
        return sorted(self._present())

    def wait_for_parties(self, names: Iterable[str], timeout_seconds: float) -> None:
        """Return when all these parties are connected; `TooFewParties` names who is missing."""
        self._call(self._await_parties(set(names), timeout_seconds))

    def use_credentials(self, credentials: Credentials) -> None:
        """Show another certificate to whoever connects from now on."""
        if credentials.identity != self.identity:
            raise ConfigurationError(f"{credentials.identity} is not who this hub is")
        self._credentials = credentials

    def revoke(self, identity: Identity) -> None:
        """Cut this identity's connections and let it in no more."""
        if self._thread is None:
            self._admission.revoke(identity)  # before anybody can connect
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
        return self._carry_out(requests, patience, may_lose=may_lose)

    def exchange_beside(
        self, requests: Mapping[str, bytes], work: Callable[[], None]
    ) -> dict[str, bytes]:
        """The same exchange; `work` is called here once requests were handed to the streams.

        Earlier, it would compete with them for the interpreter.
        """
        return self._carry_out(requests, self._limits.patience_seconds, work)

    def _carry_out(
        self,
        requests: Mapping[str, bytes],
        patience_seconds: float,
        work: Callable[[], None] | None = None,
        *,
        may_lose: bool = False,
    ) -> dict[str, bytes]:
        for data in requests.values():
            check_size(data, self._limits.max_message_bytes)
        if not requests:
            if work is not None:
                work()
            return {}
        self._require_running()
        exchange = Exchange(self._questions)
        self._loop.call_soon_threadsafe(
            partial(self._begin, exchange, requests, patience_seconds, may_lose=may_lose)
        )
        try:  # the loop ends it in time; more is only waited for a loop that has stopped
            if work is not None:
                exchange.is_under_way.wait(_START_SECONDS)
                work()
            answers = exchange.outcome.result(self._limits.answer_seconds + _START_SECONDS)
        except BaseException:
            if not exchange.outcome.done():
                self._loop.call_soon_threadsafe(exchange.end)
            raise
        return {party: reply for party, reply in answers.items() if reply is not None}

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
        self._server = grpc.aio.server(options=server_options())
        handlers = {CONVERSE: grpc.stream_stream_rpc_method_handler(self._converse)}
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
        _LOG.info("listening at %s as %s", self.address, self.identity)

    async def _shut(self) -> None:
        closed = TransportError("the coordinator's hub was closed")
        for question in self._questions:
            question.fail(closed)
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
        older = self._streams.get(identity.name)
        self._streams[identity.name] = stream
        if older is not None:
            older.cut(grpc.StatusCode.ABORTED, "a newer connection of this party took over")
        self._announce()
        _LOG.info("party %r connected from %s", identity.name, context.peer())
        expiry = self._loop.call_later(
            seconds_until_expiry(context),
            stream.cut,
            grpc.StatusCode.PERMISSION_DENIED,
            f"the certificate of {identity} has expired",
        )
        try:
            await stream.serve(self._take)
        finally:
            expiry.cancel()
            if self._streams.get(identity.name) is stream:
                del self._streams[identity.name]
                _LOG.warning("party %r is disconnected", identity.name)
                self._announce()
            self._ask_again(stream)

    async def _submit(self, _: Any, context: Any) -> None:
        identity = await self._admission.identify(context, "user")
        await self._admission.compare_versions(context, identity)
        assert self._clients is not None
        await self._clients.serve(identity, context)

    async def _give_certificate(self, _: bytes, context: Any) -> bytes:
        identity = await self._admission.identify(context, "party", "user")
        assert self._renew is not None
        try:
            return await self._loop.run_in_executor(
                None, self._renew, identity, shown_certificate(context)
            )
        except FederationError as error:
            _LOG.warning("no certificate for %s: %s", identity, error)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
            raise  # never reached: abort raises

    def _take(self, stream: PartyStream, answer: Answer) -> None:
        """Give an answer to who waits for it; nobody waits for late and repeated ones."""
        question = self._questions.find(answer.request_id, stream.party)
        if question is None:
            stream.inbox.discard(answer.request_id)
        elif isinstance(answer, Refusal):
            stream.inbox.discard(answer.request_id)
            question.refuse(error_of_party(answer, stream.party))
        else:
            data = stream.inbox.add(answer)
            if data is not None:
                question.answer(data)

    def _ask_again(self, stream: PartyStream) -> None:
        """A stream has ended: what it leaves unanswered is sent on the next one.

        Who broke the protocol is not asked again.
        """
        for question in self._questions:
            if question.stream is not stream or question.is_settled:
                continue
            if stream.violation is not None:
                question.fail(RemoteProtocolError(str(stream.violation), stream.party))
            else:
                keep(asyncio.ensure_future(self._carry(question)))

    def _begin(
        self,
        exchange: Exchange,
        requests: Mapping[str, bytes],
        patience_seconds: float,
        *,
        may_lose: bool,
    ) -> None:
        asked = {
            party: self._ask(party, data, patience_seconds, may_lose=may_lose)
            for party, data in requests.items()
        }
        exchange.begin(asked, self._limits.answer_seconds)
        self._loop.call_soon(exchange.is_under_way.set)  # behind the first steps of `_carry`

    def _ask(self, party: str, data: bytes, patience_seconds: float, *, may_lose: bool) -> Question:
        self._next_id += 1
        question = Question(self._next_id, party, data, may_lose=may_lose)
        question.patience_seconds = patience_seconds
        self._questions.open(question)
        keep(asyncio.ensure_future(self._carry(question)))
        return question

    async def _carry(self, question: Question) -> None:
        """Send a request on the stream of its party, as soon as there is one."""
        party, before = question.party, self._loop.time()
        await self._await_arrival({party}, question.patience_seconds, unless=question.reply)
        question.patience_seconds -= self._loop.time() - before
        if question.is_settled:
            return
        if party not in self._present():
            what = (
                "it is not connected and did not come back in time; start its service, and a "
                "paused run goes on"
            )
            question.fail(PartyLost(what, party))
            return
        question.stream = self._streams[party]
        await question.stream.deliver(question.request_id, question.data, question.reply)

    async def _await_parties(self, names: set[str], timeout_seconds: float) -> None:
        await self._await_arrival(names, timeout_seconds)
        missing = sorted(names - self._present())
        if missing:
            raise TooFewParties(
                f"not connected after {timeout_seconds:g} seconds: {', '.join(missing)}; start "
                "their party services"
            )

    async def _await_arrival(
        self, names: set[str], timeout_seconds: float, unless: "asyncio.Future[Any] | None" = None
    ) -> None:
        """Return when these parties are connected, the time is over, or `unless` is done."""
        deadline = self._loop.time() + timeout_seconds
        while not names <= self._present() and not (unless is not None and unless.done()):
            left = deadline - self._loop.time()
            if left <= 0:
                return
            events = {self._change} if unless is None else {self._change, unless}
            await asyncio.wait(events, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    def _present(self) -> set[str]:
        return {name for name, stream in list(self._streams.items()) if not stream.is_gone}

    def _announce(self) -> None:
        """Wake everybody who waits for parties."""
        self._change.set_result(None)
        self._change = self._loop.create_future()

    async def _revoke(self, identity: Identity) -> None:
        self._admission.revoke(identity)
        stream = self._streams.get(identity.name)
        if identity.role == "party" and stream is not None:
            stream.cut(grpc.StatusCode.PERMISSION_DENIED, f"{identity} was revoked")
        if identity.role == "user" and self._clients is not None:
            self._clients.cut(identity)
