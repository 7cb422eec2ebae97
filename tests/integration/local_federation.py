"""The same services without processes: what a federation must come to, however it is disturbed.

Coordinator and parties are the real ones, on folders of their own, with the keys and run secrets
that the processes have. Only the way of the bytes differs.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedforest.errors import FederationError, TooFewParties
from fedforest.protocol.network import Network
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.disclosure.egress_ledger import NO_LEDGER, EgressLedger, Ledger
from fedforest.runtime.membership.homes import PartySettings, load_keys, read_settings
from fedforest.runtime.membership.pins import Pins
from fedforest.runtime.messages.orders import AnyOrder, encode_order
from fedforest.runtime.messages.results import decode_event, follow
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.policy import PolicyFile
from fedforest.runtime.party.service import PartyService
from fedforest.transport.error_table import error_of_party, refuse
from tests.integration.federation_folder import FederationFolder
from tests.integration.seeded_command import SECRET_BYTES, secret_of

Endpoint = Callable[[bytes], bytes]

WAIT_SECONDS = 1.0  # parties in one process are there, or never


class LocalHub:
    """A hub whose parties are always there, and answer on the calling thread."""

    network = Network(latency_seconds=2e-4, bytes_per_second=2e9)

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self.endpoints = dict(endpoints)

    def connected(self) -> list[str]:
        return sorted(self.endpoints)

    def wait_for_parties(self, names: Iterable[str], timeout_seconds: float) -> None:
        missing = set(names) - self.endpoints.keys()
        if missing:
            raise TooFewParties(f"not here, for {timeout_seconds:g} seconds: {sorted(missing)}")

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        del may_lose  # nobody is lost here
        return {party: self._ask(party, data) for party, data in requests.items()}

    def _ask(self, party: str, data: bytes) -> bytes:
        try:
            return self.endpoints[party](data)
        except FederationError as error:  # as it would travel
            raise error_of_party(refuse(0, error, hides_names=True), party) from error


class LocalFederation:
    """A coordinator and parties in this process; the next run has the id `next_run`."""

    def __init__(self, folder: Path, pattern: FederationFolder, **coordinator: Any) -> None:
        self.next_run = bytes(16)
        self.ledgers: dict[str, EgressLedger] = {}
        self.homes = {role.home.name: folder / role.home.name for role in pattern.roles}
        for role in pattern.roles:
            _copy_home(role.home, self.homes[role.home.name])
        self.parties = {name: make_party(self.homes[name]) for name in pattern.parties}
        self.hub = LocalHub({name: party.answer for name, party in self.parties.items()})
        self.coordinator = CoordinatorService(
            self.homes["coordinator"],
            self.hub,
            wait_seconds=WAIT_SECONDS,
            randomness=self.draw,
            **coordinator,
        )

    def draw(self, n_bytes: int) -> bytes:
        """Ids and secrets of the coordinator's runs."""
        return secret_of("coordinator") if n_bytes == SECRET_BYTES else self.next_run

    def ask(
        self, order: AnyOrder, kind: type, run: bytes = bytes(16), user: object = "user"
    ) -> object:
        """The result of an order; a training has this id."""
        self.next_run = run
        events = self.coordinator.serve(user, encode_order(order))
        return follow(map(decode_event, events), kind, lambda _: None)

    def keep_ledgers(self) -> None:
        """Begin anew with parties that write down what leaves."""
        for name, party in self.parties.items():
            party.close()
            self.ledgers[name] = EgressLedger(self.homes[name], name)
            self.parties[name] = make_party(self.homes[name], self.ledgers[name])
            self.hub.endpoints[name] = self.parties[name].answer

    def close(self) -> None:
        self.coordinator.close()
        for party in self.parties.values():
            party.close()
        for ledger in self.ledgers.values():
            ledger.close()


def make_party(home: Path, ledger: Ledger = NO_LEDGER) -> PartyService:
    """The service of a party's folder, as its process makes it, but for the secrets of runs."""
    settings = read_settings(home, "party.toml", PartySettings)
    keys = load_keys(home, home.name, Pins(home, settings.pins))
    return PartyService(
        home,
        keys,
        Catalogue(home),
        policy=PolicyFile(home),
        ledger=ledger,
        randomness=lambda _: secret_of(home.name),
    )


@contextmanager
def local_federation(
    folder: Path, pattern: FederationFolder, **coordinator: Any
) -> Iterator[LocalFederation]:
    """A federation with the keys and data of another one, and no runs; see `CoordinatorService`."""
    federation = LocalFederation(folder, pattern, **coordinator)
    federation.coordinator.start()
    try:
        yield federation
    finally:
        federation.close()


def _copy_home(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("runs", "models", "log.txt"))
